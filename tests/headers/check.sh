#!/bin/sh
# Compiles each public header alone, as C11 and as C++17, with every warning an error. check.sh <include folder>
inc=$1 bad=0 n=0
for h in "$inc"/tenon/*.h; do
  name=tenon/$(basename "$h")
  for lang in "c c11" "c++ c++17"; do
    set -- $lang
    n=$((n + 1))
    if [ "$1" = c ]; then cc=${CC:-gcc}; else cc=${CXX:-g++}; fi
    echo "#include \"$name\"" | $cc -x "$1" -std="$2" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$inc" - || { bad=$((bad + 1)); echo "fails alone as $2: $name"; }
  done
done
echo "$n checks, $bad failed"
[ $bad = 0 ]
