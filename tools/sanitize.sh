#!/bin/sh
# Builds with sanitizers, each kind in a folder of its own:  sanitize.sh address | threads | fuzz <seconds>
#   address   unit tests and a share of the kernel tests; address (leaks too) and undefined behaviour
#   threads   unit tests of the run time, built without the compiler; data races
#   fuzz      every parser on mutated inputs, address and undefined behaviour, guided by coverage
# Exit 77 with the reason where programs built this way do not start.
set -eu
cd "$(dirname "$0")/.."
kind=$1 BUILD=${BUILD:-build}
case $kind in
  address) dir=$BUILD-sanitize flag=address,undefined more= ;;
  threads) dir=$BUILD-threads flag=thread more=-Dcompiler=false ;;
  fuzz) dir=$BUILD-fuzz flag=address,undefined more=-Dfuzz_coverage=true ;;
esac
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1

mkdir -p "$dir"
echo 'int main(void) { return 0; }' >"$dir/probe.c"
if ! { ${CC:-cc} -fsanitize=$flag "$dir/probe.c" -o "$dir/probe" && "$dir/probe"; } >"$dir/probe.log" 2>&1; then
  echo "-fsanitize=$flag does not work here: $(tail -n 1 "$dir/probe.log")"
  exit 77
fi
if [ -f "$dir/build.ninja" ]; then meson setup --reconfigure "$dir" >"$dir/setup.log" 2>&1 || { cat "$dir/setup.log"; exit 1; }
else
  meson setup "$dir" -Db_sanitize=$flag -Db_lundef=false -Doptimization=1 $more >"$dir/setup.log" 2>&1 || { cat "$dir/setup.log"; exit 1; }
fi

if [ "$kind" = fuzz ]; then
  fuzzers=$(find tests/fuzz -maxdepth 1 -name '*.c' ! -name driver.c | LC_ALL=C sort | sed 's|.*/|tests/fuzz_|; s|\.c$||')
  ninja -C "$dir" --quiet $fuzzers
  for f in $fuzzers; do
    "$dir/$f" "$2" "tests/fuzz/seeds/${f#tests/fuzz_}"
  done
  exit 0
fi
ninja -C "$dir" --quiet meson-test-prereq
exec meson test -C "$dir" --no-rebuild --no-suite headers --timeout-multiplier 10 --print-errorlogs
