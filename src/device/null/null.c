/* The null device: the whole flow without a device. Objects are accepted unread, launches do nothing, memory is real.
 * It keeps tests of plans and of the run time independent of the machine, and is the template for the next device. */
#include "device/device.h"

struct tn_device { int unused; };
struct tn_code { int unused; };

static struct tn_device the_null;
static struct tn_code no_code;

static tn_status null_open(tn_device **out, char *why, size_t why_n) {
  if (why_n) why[0] = 0;
  *out = &the_null;
  return TN_OK;
}
static void null_close(tn_device *d) { (void)d; }
static tn_status null_load(tn_device *d, const void *object, size_t n, const char *symbol, tn_code **out, char *why, size_t why_n) {
  (void)d, (void)object, (void)n, (void)symbol;
  if (why_n) why[0] = 0;
  *out = &no_code;
  return TN_OK;
}
static void null_unload(tn_device *d, tn_code *c) { (void)d, (void)c; }

static void no_kernel(const tn_kernel_args *a, int64_t lo, int64_t hi, void *scratch) { (void)a, (void)lo, (void)hi, (void)scratch; }
static void *null_entry(tn_code *c) {
  (void)c;
  union { tn_kernel_fn fn; void *p; } u = {.fn = no_kernel};
  return u.p;
}
static void *null_alloc(tn_device *d, size_t bytes) {
  (void)d;
  return tn_aligned_alloc(64, bytes ? bytes : 1);
}
static void null_free(tn_device *d, void *p) {
  (void)d;
  tn_free_aligned(p);
}
static tn_status null_launch(tn_device *d, tn_code *c, const void *args, int64_t n_blocks, int64_t grain, size_t scratch_bytes, int threads) {
  (void)d, (void)c, (void)args, (void)n_blocks, (void)grain, (void)scratch_bytes, (void)threads;
  return TN_OK;
}

const tn_device_api tn_device_null = {
    .abi = TN_DEVICE_ABI, .name = "null", .open = null_open, .close = null_close, .load = null_load, .unload = null_unload,
    .entry = null_entry, .alloc = null_alloc, .free = null_free, .launch = null_launch};
