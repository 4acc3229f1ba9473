/* nest, private to src/kir: raw appending and facts about instructions that the printer, parser, verifier and interpreter share. */
#ifndef TN_NEST_INT_H
#define TN_NEST_INT_H
#include "kir/nest.h"

/* Appends without folding, numbering or region bookkeeping (parser). */
tn_nv tn_nest_append(tn_nest *n, tn_ninst i);

typedef enum tn_nimm { TN_NI_NONE, TN_NI_NUM /* tn_num of vt */, TN_NI_INT, TN_NI_COMBINER } tn_nimm;
typedef enum tn_nwhat {
  TN_NW_VALUE = 1, /* yields a value */
  TN_NW_TYPE = 2,  /* vt means something */
  TN_NW_BASE = 4,  /* names memory by `base` */
  TN_NW_MASK = 8,  /* c is an optional mask */
  TN_NW_WRITES = 16
} tn_nwhat;
/* What an instruction's fields mean; one row per tn_nop in nest_text.c. */
typedef struct tn_nop_info {
  const char *text;
  const char *args; /* operands that are always there, letters of a b c d, in the order of the text */
  uint8_t imm;      /* tn_nimm */
  uint8_t what;     /* tn_nwhat bits */
  uint8_t flags;    /* tn_nflag bits it may carry */
} tn_nop_info;
extern const tn_nop_info tn_nop_infos[TN_N_NOPS];

/* Letters of the operands that this instruction always has. */
const char *tn_ninst_args(const tn_ninst *i);
/* Operand by letter. */
static inline tn_nv *tn_ninst_arg(tn_ninst *i, char letter) {
  return letter == 'a' ? &i->a : letter == 'b' ? &i->b : letter == 'c' ? &i->c : &i->d;
}
/* Dtype of a base; false when there is no such base. ZEROS has every dtype: *out is left alone. */
bool tn_nest_base_dtype(const tn_nest *n, int base, tn_dtype *out);
#endif
