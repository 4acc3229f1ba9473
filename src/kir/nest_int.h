/* nest, private to src/kir: raw appending and facts about instructions that the printer, parser, verifier and interpreter share. */
#ifndef TN_NEST_INT_H
#define TN_NEST_INT_H
#include "kir/nest.h"

/* Appends without folding, numbering or region bookkeeping (parser). */
tn_nv tn_nest_append(tn_nest *n, tn_ninst i);

/* Which fields of an instruction mean something; one row per tn_nop in nest_text.c, printed and parsed in this order. */
typedef struct tn_nop_info {
  const char *text;
  uint8_t n_args;    /* value operands a, b, c, d that are always there */
  bool has_value;    /* yields a value */
  bool has_base;     /* names memory */
  bool has_imm;
  bool may_mask;     /* c is an optional mask */
} tn_nop_info;
extern const tn_nop_info tn_nop_infos[TN_N_NOPS];
/* Dtype of a base; false when there is no such base. ZEROS has every dtype: *any is set. */
bool tn_nest_base_dtype(const tn_nest *n, int base, tn_dtype *out, bool *any);
#endif
