#include "kir/nest.h"
bool tn_n_is_basic(tn_scalar_op op) {
  switch (op) {
    case TN_S_NEG: case TN_S_ABS: case TN_S_CEIL: case TN_S_FLOOR: case TN_S_ROUND: case TN_S_TRUNC: case TN_S_SQRT: case TN_S_NOT: case TN_S_ADD:
    case TN_S_SUB: case TN_S_MUL: case TN_S_DIV: case TN_S_TRUNCDIV: case TN_S_MAX: case TN_S_MIN: case TN_S_FMAX: case TN_S_FMIN: case TN_S_AND:
    case TN_S_OR: case TN_S_XOR: case TN_S_SHL: case TN_S_SHR: case TN_S_EQ: case TN_S_NE: case TN_S_LT: case TN_S_LE: case TN_S_GT: case TN_S_GE:
    case TN_S_SELECT: return true;
    default: return false;
  }
}
