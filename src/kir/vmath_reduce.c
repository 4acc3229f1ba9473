/* Reduction of huge arguments of sin, cos and tan, after Payne and Hanek (ACM SIGNUM Newsletter 18, 1983), exact for every
 * finite float and double.
 *
 * |x| = M 2^E with an integer M. Of the bits of 2/pi, those of weight above 2^(1-E) contribute multiples of 4 to x 2/pi and are
 * skipped; a window from there on, times M, taken modulo its width, has the quadrant in its two top bits and the fraction below
 * them. Everything is done in 64-bit lanes with 32-bit words. Nests have no tables, so the window's words are chosen from
 * constants by selects: one bit of the position at a time (a barrel shifter). Runs behind a branch: size matters, speed does not. */
#include "kir/vmath_int.h"
#include "kir/vmath_tables.h"

#define PIO2 0x1.921fb54442d18p+0
enum { WINDOW_MAX = 6 };

static tn_nv low32(const tn_vm *w, tn_nv v) { return vm_and(w, v, vm_ci(w, 0xffffffff)); }
static tn_nv high32(const tn_vm *w, tn_nv v) { return low32(w, vm_shr(w, v, vm_ci(w, 32))); }

/* out[0 .. n-1]: n words of 2/pi from bit `from` on, most significant first; bits: how many bits `from` has above the five that
 * count inside a word. */
static void window(const tn_vm *w, tn_nv from, int bits, int n, tn_nv *out) {
  tn_nv word[38];
  for (int k = 0; k < 38; k++) word[k] = vm_ci(w, two_over_pi[k]);
  for (int b = bits - 1; b >= 0; b--) {
    tn_nv on = vm_ne(w, vm_and(w, from, vm_ci(w, (int64_t)32 << b)), vm_ci(w, 0));
    int step = 1 << b, needed = n + 1 + step - 1;
    for (int k = 0; k < needed && k + step < 38; k++) word[k] = vm_sel(w, on, word[k + step], word[k]);
  }
  tn_nv by = vm_and(w, from, vm_ci(w, 31)), thirty_two = vm_ci(w, 32);
  for (int k = 0; k < n; k++) out[k] = high32(w, vm_shl(w, vm_or(w, vm_shl(w, word[k], thirty_two), word[k + 1]), by));
}

/* The n words of M W modulo 2^(32 n), M below 2^64 in two words, most significant first; the last two are only good for carries. */
static void multiply(const tn_vm *w, tn_nv m_high, tn_nv m_low, const tn_nv *win, int n, tn_nv *out) {
  tn_nv carry = vm_ci(w, 0);
  for (int k = n - 1; k >= 0; k--) {
    tn_nv sum = vm_add(w, carry, low32(w, vm_mul(w, m_low, win[k])));
    if (k + 1 < n) {
      sum = vm_add(w, sum, high32(w, vm_mul(w, m_low, win[k + 1])));
      if (m_high) sum = vm_add(w, sum, low32(w, vm_mul(w, m_high, win[k + 1])));
    }
    if (m_high && k + 2 < n) sum = vm_add(w, sum, high32(w, vm_mul(w, m_high, win[k + 2])));
    out[k] = low32(w, sum);
    carry = vm_shr(w, sum, vm_ci(w, 32));
  }
}

static tn_nv join(const tn_vm *w, tn_nv high, tn_nv low) { return vm_or(w, vm_shl(w, high, vm_ci(w, 32)), low); }

vm_reduced vm_reduce_huge(const tn_vm *m, tn_nv a) {
  tn_vm w = vm_of(m->n, TN_F64, m->f.lanes); /* 64-bit lanes */
  tn_nv u = vm_bits(m, a), win[WINDOW_MAX], p[WINDOW_MAX], m_high = 0, m_low, exponent = vm_shr(m, u, vm_ci(m, vm_mantissa_bits(m)));
  int n = m->d ? 6 : 3;
  if (m->d) {
    tn_nv mant = vm_or(m, vm_and(m, u, vm_ci(m, ((int64_t)1 << 52) - 1)), vm_ci(m, (int64_t)1 << 52));
    m_high = high32(m, mant);
    m_low = low32(m, mant);
  } else {
    m_low = tn_n_cast(m->n, vm_or(m, vm_and(m, u, vm_ci(m, 0x7fffff)), vm_ci(m, 0x800000)), TN_I64);
  }
  /* E = exponent - 150 (1075); the window starts at bit E + 30 of the table; lanes that are not huge may start anywhere */
  tn_nv from = vm_and(m, vm_sub(m, exponent, vm_ci2(m, 120, 1045)), vm_ci2(m, 255, 1023));
  window(&w, m->d ? from : tn_n_cast(m->n, from, TN_I64), m->d ? 5 : 3, n, win);
  multiply(&w, m_high, m_low, win, n, p);
  tn_nv f = join(&w, p[0], p[1]), g = m->d ? join(&w, p[2], p[3]) : vm_shl(&w, p[2], vm_ci(&w, 32));
  tn_nv q = vm_and(&w, vm_shr(&w, vm_add(&w, f, vm_ci(&w, (int64_t)1 << 61)), vm_ci(&w, 62)), vm_ci(&w, 3));
  /* the fraction, signed, -1/2 .. 1/2: its upper 64 bits and what follows them */
  tn_nv top = vm_or(&w, vm_shl(&w, f, vm_ci(&w, 2)), vm_and(&w, vm_shr(&w, g, vm_ci(&w, 62)), vm_ci(&w, 3)));
  tn_nv rest = vm_and(&w, vm_shr(&w, g, vm_ci(&w, 1)), vm_ci(&w, ((int64_t)1 << 61) - 1));
  tn_nv r = vm_mul(&w, tn_n_cast(m->n, top, TN_F64), vm_c(&w, PIO2 * 0x1p-64));
  r = vm_fma(&w, tn_n_cast(m->n, rest, TN_F64), vm_c(&w, PIO2 * 0x1p-125), r);
  return (vm_reduced){tn_n_cast(m->n, r, (tn_dtype)m->f.dtype), tn_n_cast(m->n, q, (tn_dtype)m->i.dtype)};
}
