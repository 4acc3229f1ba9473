#!/bin/sh
# What the build asks about the tree; paths are relative to the project's root, one a line, sorted.
#   sources.sh <room> [extension]   sources of a room: a folder under src, or a path such as tests/unit/base
#   sources.sh --rooms rt|compiler  rooms of a product, lowest first (tools/rooms.txt)
#   sources.sh --below <room>       the rooms a room stands on, highest first
# An absent or empty room prints nothing.
cd "$(dirname "$0")/.." || exit 1
case $1 in
  --rooms) exec awk -v p="$2" '!/^#/ && $4 == p { print $1 }' tools/rooms.txt ;;
  --below)
    exec awk -v want="$2" '
      /^#/ || NF < 4 { next }
      { order[++n] = $1; below[$1] = " "
        for (i = 5; i <= NF; i++) {
          if ($i == "*") for (k = 1; k < n; k++) below[$1] = below[$1] order[k] " "
          else below[$1] = below[$1] $i below[$i]
        } }
      END { for (k = n; k > 0; k--) if (index(below[want], " " order[k] " ")) print order[k] }' tools/rooms.txt ;;
esac
room=$1 ext=${2:-c}
case $room in tests/*|python/*) dir=$room ;; *) dir=src/$room ;; esac
[ -d "$dir" ] || exit 0
find "$dir" -type f -name "*.$ext" | LC_ALL=C sort
