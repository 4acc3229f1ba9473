/* ir_int.h: what the files of room ir share among themselves. Others include ir.h. */
#ifndef TN_IR_INT_H
#define TN_IR_INT_H
#include "ir/ir.h"

#define TN_IR_MAX_BODY_DEPTH 16   /* bodies in bodies */
#define TN_IR_MAX_LIST_DEPTH 16   /* lists in lists, in text */
#define TN_IR_CONST_SHOWN 64      /* elements of a constant written out */
#define TN_IR_MAX_PER_NODE 65535u /* inputs, results: uint16 counts */
#define TN_IR_MAX_ATTRS 1024u

/* Walks the "name:kind name:kind" list of an op row: start with *at = tn_op_attrs(op). False at the end. */
bool tn_op_attr_next(const char **at, const char **out_name, size_t *out_n, char *out_kind);
/* Kind letter of attribute `name` in the row of `op`; 0 = not listed. */
char tn_op_attr_kind(tn_op op, const char *name);

/* Deep copy of n attributes into g's arena. Negative integers of a dim list ('d' in the row of `op`) become dims. */
tn_status tn_attr_copy(tn_graph *g, tn_op op, const tn_attr *from, uint32_t n, tn_attr **out);

/* Names that stand without quotes in text: a letter or '_' first, then also digits and the characters of `more`. */
bool tn_ir_plain_name(const char *s, const char *more);
#define TN_IR_NAME_MORE "_./" /* %values, @graphs */
#define TN_IR_ATTR_MORE "_."
#define TN_IR_TARGET_MORE "_.:"
/* Words that mean something as an attribute value, so a dim with this text is written dim(...). */
bool tn_ir_reserved_word(const char *s, size_t n);

static inline const tn_graph *tn_graph_root(const tn_graph *g) {
  while (g->outer) g = g->outer;
  return g;
}
#endif
