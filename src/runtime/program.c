/* A program: a verified plan with its kernels loaded. Immutable after creation, so any number of runs and threads share one. */
#include <string.h>
#include "runtime/runtime_int.h"

static tn_status load_kernels(tn_diag *d, tn_program *p) {
  const tn_plan *plan = p->plan;
  tn_map seen; /* object address -> kernel: equal kernels are compiled once, so loaded once */
  tn_map_init(&seen);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < plan->n_kernel; i++) {
    const tn_pkernel *k = &plan->kernel[i];
    uint32_t same;
    if (!k->object) {
      st = tn_fail(d, TN_E_VERIFY, "kernel '%s' has no object", k->name);
      break;
    }
    if (tn_map_get_u64(&seen, (uintptr_t)k->object, &same) && strcmp(plan->kernel[same].name, k->name) == 0) {
      p->fn[i] = p->fn[same];
      continue;
    }
    char why[256];
    st = p->api->load(p->dev, k->object, k->object_bytes, k->name, &p->code[i], why, sizeof why);
    if (st != TN_OK) tn_fail(d, st, "kernel '%s' cannot be loaded into device %s: %s", k->name, p->api->name, why);
    else *(void **)&p->fn[i] = p->api->entry(p->code[i]);
    if (st == TN_OK && !tn_map_put_u64(&seen, (uintptr_t)k->object, i)) st = tn_fail(d, TN_E_NOMEM, "table of loaded kernels");
  }
  tn_map_deinit(&seen);
  return st;
}

static tn_status check(tn_diag *d, const tn_plan *plan) {
  TN_TRY(tn_plan_verify(d, plan));
  for (uint32_t i = 0; i < plan->n_buf; i++) {
    const tn_pbuf *b = &plan->buf[i];
    if (b->kind == TN_PB_CONST && b->bytes && !b->data) return tn_fail(d, TN_E_VERIFY, "constant buffer %u of plan '%s' has no data", i, plan->name);
  }
  for (uint32_t i = 0; i < plan->n_step; i++)
    if (plan->step[i].kind == TN_PS_LIB) TN_TRY_WHILE(d, tn_lib_check(d, plan, &plan->step[i]), "loading step %u of plan '%s'", i, plan->name);
  return TN_OK;
}

tn_status tn_program_create_on(tn_diag *d, tn_plan *plan, const tn_device_api *api, tn_program **out) {
  *out = NULL;
  tn_program *p = tn_calloc(1, sizeof *p);
  if (!p) {
    tn_plan_destroy(plan);
    return tn_fail(d, TN_E_NOMEM, "program");
  }
  p->plan = plan;
  char why[256];
  tn_status st = check(d, plan);
  if (st == TN_OK && (api->abi != TN_DEVICE_ABI || !api->entry)) st = tn_fail(d, TN_E_DEVICE, "device %s speaks ABI %u, wanted %d with entries", api->name, api->abi, TN_DEVICE_ABI);
  if (st == TN_OK) {
    p->code = tn_calloc((size_t)plan->n_kernel + 1, sizeof *p->code);
    p->fn = tn_calloc((size_t)plan->n_kernel + 1, sizeof *p->fn);
    if (!p->code || !p->fn) st = tn_fail(d, TN_E_NOMEM, "program with %u kernels", plan->n_kernel);
  }
  if (st == TN_OK) {
    st = api->open(&p->dev, why, sizeof why);
    if (st == TN_OK) p->api = api;
    else tn_fail(d, st, "device %s does not open: %s", api->name, why);
  }
  if (st == TN_OK) st = load_kernels(d, p);
  if (st == TN_OK && (st = tn_keep_create(plan, &p->kept)) != TN_OK) tn_fail(d, st, "buffers of constants");
  if (st == TN_OK) *out = p;
  else tn_program_destroy(p);
  return st;
}

tn_status tn_program_create(tn_diag *d, tn_plan *plan, tn_program **out) { return tn_program_create_on(d, plan, tn_device_get(0), out); }

void tn_program_destroy(tn_program *p) {
  if (!p) return;
  if (p->api) {
    for (uint32_t i = 0; i < p->plan->n_kernel; i++)
      if (p->code[i]) p->api->unload(p->dev, p->code[i]);
    p->api->close(p->dev);
  }
  tn_keep_destroy(p->kept);
  tn_free(p->code);
  tn_free(p->fn);
  tn_plan_destroy(p->plan);
  tn_free(p);
}

const tn_plan *tn_program_plan(const tn_program *p) { return p->plan; }
uint32_t tn_program_n_in(const tn_program *p) { return p->plan->n_in; }
uint32_t tn_program_n_out(const tn_program *p) { return p->plan->n_out; }

int32_t tn_program_in_packed(const tn_program *p, uint32_t i) {
  for (uint32_t k = 0; k < p->plan->n_buf; k++)
    for (uint32_t j = 0; p->plan->buf[k].kind == TN_PB_PACKED && j < p->plan->buf[k].n_source; j++)
      if (p->plan->buf[k].source[j] == i) return 1;
  return 0;
}
