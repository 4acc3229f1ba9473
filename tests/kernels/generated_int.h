/* generated, inside: one operand or result of a case, its memory, its values. */
#ifndef TN_GENERATED_INT_H
#define TN_GENERATED_INT_H
#include "generated.h"

/* Memory between unmapped pages. p: start of `bytes` usable bytes, at the end or the start of their pages; all filled with GEN_FILL. */
enum { GEN_FILL = 0xA5 };
typedef struct gen_mem {
  char *map;
  size_t n_map;
  char *p;
  size_t bytes;
} gen_mem;
size_t gen_page(void);
bool gen_mem_make(gen_mem *m, size_t bytes, bool at_end);
void gen_mem_free(gen_mem *m);

extern uint64_t gen_seed;
uint64_t gen_rnd(void);

/* One operand or result, with the round's numbers. */
typedef struct gen_port {
  tn_lview view;                                           /* symbolic */
  int64_t dim[TN_MAX_RANK], stride[TN_MAX_RANK], elems, n; /* elems: memory in elements; n: values */
  tn_dtype t;
  uint32_t rank;
  bool frozen;
  char *dense; /* row-major values: of inputs, and the reference's of results */
} gen_port;
void gen_view(gen_case *c, const tn_type *t, gen_layout lay, const tn_dim *own_strides, tn_lview *v);
bool gen_port_set(gen_case *c, const tn_type *t, const int64_t *sym, gen_port *p); /* false: a dim has no value */
/* Between memory and row-major values. covered: NULL, or [elems] set where an element lies. */
void gen_move(const gen_port *p, char *mem, char *dense, bool *covered, bool to_mem);
void gen_fill(const gen_case *c, gen_port *p);
/* Compares row-major values; why says what differs. terms: of the longest sum. */
bool gen_same(const gen_port *p, const char *got, const char *want, double terms, double loose, char *why, size_t n_why);
#endif
