/* Insides of the dim table, shared by dim.c (table, sums, bounds), dim_div.c (division and order) and dim_text.c. */
#ifndef TN_DIM_INT_H
#define TN_DIM_INT_H
#include "dim.h"

/* Coefficient times a product of atoms; f is sorted by tn_dim_atom_cmp, repeated for powers. */
typedef struct tn_dim_term {
  int64_t c;
  uint32_t n;
  const uint32_t *f;
} tn_dim_term;
/* A sum: terms in descending order (degree first), all different, no zero coefficient. n = 0 is the constant 0. */
typedef struct tn_dim_poly {
  const tn_dim_term *t;
  uint32_t n;
} tn_dim_poly;
typedef struct tn_dim_atom_row {
  tn_dim_atom kind;
  uint32_t size;      /* nodes of the expression written out */
  tn_dim a, b;        /* operands */
  const char *name;   /* TN_DA_SYM only, with range and ordinal */
  int64_t lo, hi;
  uint32_t ordinal;
} tn_dim_atom_row;
typedef struct tn_dim_expr {
  tn_dim_poly p;
  uint32_t size;
} tn_dim_expr;

struct tn_dims {
  tn_arena keep;      /* atoms, expressions, names */
  tn_arena scratch;   /* polynomials while an operation runs; rewound by it */
  tn_dim_atom_row *atom; /* [n_atoms], 0 unused */
  uint32_t n_atoms, cap_atoms;
  tn_dim_expr *expr;  /* [n_exprs]; the handle of expr[i] is -1 - i */
  uint32_t n_exprs, cap_exprs;
  uint32_t *sym;      /* [n_syms] atom of the i-th symbol */
  uint32_t n_syms, cap_syms;
  struct tn_dim_pair { tn_dim a, b; const char *where; uint32_t owner; } *pair; /* [n_pairs] assumed equal */
  uint32_t n_pairs, cap_pairs;
  uint32_t owner;      /* of what is collected */
  const char *collect; /* the node being imported; NULL = rules record nothing */
  tn_map atoms, exprs, syms; /* by content hash, by content hash, by name */
};

/* Limits that keep every walk short; passing one gives TN_DIM_BAD. */
enum { TN_DIM_MAX_TERMS = 256, TN_DIM_MAX_DEGREE = 32, TN_DIM_MAX_SIZE = 2048 };

/* Polynomial results live in t->scratch. All return false on overflow, a limit, or no memory. */
bool tn_dim_view(tn_dims *t, tn_dim d, tn_dim_poly *out);
bool tn_dim_poly_add(tn_dims *t, tn_dim_poly a, tn_dim_poly b, int64_t scale_b, tn_dim_poly *out); /* a + scale_b * b */
bool tn_dim_poly_mul_term(tn_dims *t, tn_dim_poly a, tn_dim_term by, tn_dim_poly *out);
tn_dim tn_dim_intern(tn_dims *t, tn_dim_poly p);
tn_dim tn_dim_atom_get(tn_dims *t, tn_dim_atom kind, tn_dim a, tn_dim b);
int tn_dim_atom_cmp(const tn_dims *t, uint32_t x, uint32_t y);
int tn_dim_cmp(const tn_dims *t, tn_dim x, tn_dim y);
/* The atom of a dim that is one atom with coefficient 1, else 0. */
uint32_t tn_dim_as_atom(const tn_dims *t, tn_dim d);
static inline const tn_dim_expr *tn_dim_expr_at(const tn_dims *t, tn_dim d) { return &t->expr[-1 - d]; }
static inline bool tn_dim_valid(const tn_dims *t, tn_dim d) { return d >= 0 || (d != TN_DIM_BAD && -1 - d < (int64_t)t->n_exprs); }
static inline int64_t tn_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
static inline int64_t tn_floor_mod(int64_t a, int64_t b) { return a - tn_floor_div(a, b) * b; }
#endif
