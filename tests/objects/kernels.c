/* Kernels of the kernel ABI as the tests of loader and run time want them: compiled to objects by the build (position
 * independent and not), read as files, never linked. Between them they need every kind of relocation and section that the
 * loader knows: constants, a jump table, addresses in constants and in data, a GOT, zeroed memory. */
#include "base/kernel_abi.h"

#define EXPORT __attribute__((visibility("default")))
void k_add(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_scale(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_pack(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_take(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_scratch(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_nop(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);
void k_sections(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch);

/* c[i] = a[i] + b[i], blocks of 64 elements; size = {n} */
EXPORT void k_add(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  const float *x = a->ptr[0], *y = a->ptr[1];
  float *z = a->ptr[2];
  int64_t end = hi * 64 < a->size[0] ? hi * 64 : a->size[0];
  (void)scratch;
  for (int64_t i = lo * 64; i < end; i++) z[i] = x[i] + y[i];
}

/* y[i] = 2 * x[i]; one block per element; size = {n} */
EXPORT void k_scale(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  const float *x = a->ptr[0];
  float *y = a->ptr[1];
  (void)scratch;
  for (int64_t i = lo; i < hi; i++) y[i] = 2 * x[i];
}

/* p[j * rows + i] = w[i * cols + j]; blocks = rows; size = {rows, cols} */
EXPORT void k_pack(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  const float *w = a->ptr[0];
  float *p = a->ptr[1];
  (void)scratch;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t j = 0; j < a->size[1]; j++) p[j * a->size[0] + i] = w[i * a->size[1] + j];
}

/* y[i] = x[idx[i]]; blocks = n; size = {n of x} */
EXPORT void k_take(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  const float *x = a->ptr[0];
  const int64_t *idx = a->ptr[1];
  float *y = a->ptr[2];
  (void)scratch;
  for (int64_t i = lo; i < hi; i++) {
    if (idx[i] < 0 || idx[i] >= a->size[0]) a->status[0] = 1;
    else y[i] = x[idx[i]];
  }
}

/* y[b] = sum of b in 64 floats of the worker's scratch, written and read again: workers must not share it */
EXPORT void k_scratch(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  float *y = a->ptr[0];
  volatile float *s = scratch;
  for (int64_t b = lo; b < hi; b++) {
    float sum = 0;
    for (int i = 0; i < 64; i++) s[i] = (float)b;
    for (int i = 0; i < 64; i++) sum += s[i];
    y[b] = sum;
  }
}

EXPORT void k_nop(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) { (void)a, (void)lo, (void)hi, (void)scratch; }

/* out[0..7]: values that come out right only when each kind of section and relocation was handled. */
static const double table[8] = {0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5};
static const double *const addresses[2] = {&table[2], &table[5]}; /* 64-bit addresses in constants */
static int64_t counter = 40;                                      /* data */
static volatile int64_t zeroed[4];                                /* no bytes in the file */
EXPORT int64_t k_global = 7;                                      /* through the GOT when position independent */
static const double *volatile moving = &table[6];                 /* 64-bit address in data */

static int64_t choose(int64_t v) { /* jump table */
  switch (v) {
  case 0: return 11;
  case 1: return v * 3 + zeroed[0];
  case 2: return zeroed[1] - 4;
  case 3: return v ^ 21;
  case 4: return v << 4;
  case 5: return zeroed[2] + v * v;
  case 6: return ~v;
  default: return -1;
  }
}

EXPORT void k_sections(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) {
  double *out = a->ptr[0];
  (void)scratch;
  for (int64_t b = lo; b < hi; b++) {
    counter += 2;
    zeroed[3]++;
    out[0] = table[a->size[0]];
    out[1] = *addresses[a->size[0] & 1];
    out[2] = (double)counter;
    out[3] = (double)zeroed[3];
    out[4] = (double)k_global;
    out[5] = *moving;
    out[6] = (double)choose(a->size[0]);
    out[7] = ((const unsigned char *)a->zeros)[TN_ZEROS_BYTES - 1];
  }
}
