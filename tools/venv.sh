#!/bin/sh
# Makes .venv with the pinned packages of requirements.txt. The stamp is written last, so an interrupted run starts again.
set -eu
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --disable-pip-version-check -q -r requirements.txt
touch "$VENV/.stamp"
