#!/bin/sh
# Configures when needed (first time, or a source file came or went), builds, and makes `import tenon` work in .venv.
set -eu
list=$(find src tests/unit tests/fuzz python -name '*.c' -o -name '*.proto' 2>/dev/null | LC_ALL=C sort)
if [ ! -f "$BUILD/build.ninja" ]; then
  meson setup "$BUILD" >"/tmp/tenon-setup.$$" 2>&1 || { cat "/tmp/tenon-setup.$$"; rm -f "/tmp/tenon-setup.$$"; exit 1; }
  rm -f "/tmp/tenon-setup.$$"
elif [ "$list" != "$(cat "$BUILD/sources.list" 2>/dev/null)" ]; then
  meson setup --reconfigure "$BUILD" >/dev/null
fi
printf '%s\n' "$list" >"$BUILD/sources.list"
ninja -C "$BUILD" --quiet
"$VENV/bin/python" tools/install_dev.py "$BUILD"
