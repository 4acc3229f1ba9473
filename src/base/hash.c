/* 64-bit content hash: XXH3, inlined from its header so that the library exports nothing and links nothing for it.
 * Stable within a build; not a defence against crafted collisions. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base.h"

uint64_t tn_hash(const void *p, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(p, n, seed); }
