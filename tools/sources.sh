#!/bin/sh
# Lists the sources of a room, one path a line, sorted, relative to the project's root: sources.sh <room> [extension].
# <room> is a folder under src, or a path such as tests/unit/base. An absent or empty room prints nothing.
cd "$(dirname "$0")/.." || exit 1
room=$1 ext=${2:-c}
case $room in */unit/*|tests/*|python/*) dir=$room ;; *) dir=src/$room ;; esac
[ -d "$dir" ] || exit 0
find "$dir" -type f -name "*.$ext" | LC_ALL=C sort
