/* Element types: sizes, names, and the 16-bit float conversions in plain integer arithmetic (the specification for every
 * faster one). Both narrowings round to nearest even; NaN stays NaN. */
#include <string.h>
#include "base.h"

static const struct {
  const char *name;
  uint8_t size;
} rows[TN_N_DTYPES] = {
    [TN_F32] = {"f32", 4}, [TN_F64] = {"f64", 8}, [TN_F16] = {"f16", 2}, [TN_BF16] = {"bf16", 2}, [TN_I64] = {"i64", 8},
    [TN_I32] = {"i32", 4}, [TN_I16] = {"i16", 2}, [TN_I8] = {"i8", 1},   [TN_U8] = {"u8", 1},     [TN_BOOL] = {"bool", 1},
    [TN_U16] = {"u16", 2}, [TN_U32] = {"u32", 4}, [TN_U64] = {"u64", 8}, [TN_OBJ] = {"obj", 0},
};

size_t tn_dtype_size(tn_dtype t) { return (unsigned)t < TN_N_DTYPES ? rows[t].size : 0; }

const char *tn_dtype_name(tn_dtype t) { return (unsigned)t < TN_N_DTYPES ? rows[t].name : "?"; }

bool tn_dtype_parse(const char *s, size_t n, tn_dtype *out) {
  for (int i = 0; i < TN_N_DTYPES; i++) {
    if (strlen(rows[i].name) == n && memcmp(rows[i].name, s, n) == 0) {
      *out = (tn_dtype)i;
      return true;
    }
  }
  return false;
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

float tn_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3ff;
  if (exp == 31) return float_of(sign | 0x7f800000 | man << 13);
  if (exp) return float_of(sign | (exp + 112) << 23 | man << 13);
  float f = (float)man * 0x1p-24f; /* subnormal: exact */
  return sign ? -f : f;
}

uint16_t tn_f32_to_f16(float f) {
  uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
  if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* >= 65536 */
  uint32_t shift, base;
  if (a >= 0x38800000) { /* normal; rounding may carry into the exponent and on to infinity, as it should */
    base = a - (112u << 23);
    shift = 13;
  } else {
    uint32_t exp = a >> 23;
    if (exp < 101) return (uint16_t)sign; /* below 2^-26: rounds to 0 (2^-25 itself ties to even, 0, below) */
    base = (a & 0x7fffff) | 0x800000;
    shift = 126 - exp;
  }
  uint32_t half = 1u << (shift - 1), rest = base & ((1u << shift) - 1), r = base >> shift;
  if (rest > half || (rest == half && (r & 1))) r++;
  return (uint16_t)(sign | r);
}

float tn_bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t tn_f32_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
