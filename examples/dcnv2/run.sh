#!/bin/sh
# Runs the example with the project's Python: largest error, fates and the fallback census.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-$here/../../.venv/bin/python}" "$here/run.py"
