#!/bin/sh
# A second build with address and undefined-behaviour sanitizers:  sanitize.sh test | fuzz <seconds>
set -eu
dir=$BUILD-sanitize
[ -f "$dir/build.ninja" ] || meson setup "$dir" -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debugoptimized >/dev/null
meson setup --reconfigure "$dir" >/dev/null
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
if [ "$1" = test ]; then
  ninja -C "$dir" --quiet
  exec meson test -C "$dir" --no-rebuild --suite unit --print-errorlogs
fi
fuzzers=$(find tests/fuzz -maxdepth 1 -name '*.c' ! -name driver.c | sed 's|.*/|tests/fuzz_|; s|\.c$||')
[ -n "$fuzzers" ] || { echo "no fuzzers"; exit 0; }
ninja -C "$dir" --quiet $fuzzers
for f in $fuzzers; do
  "$dir/$f" "$2" "tests/fuzz/seeds/${f#tests/fuzz_}"
done
