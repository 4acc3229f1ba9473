/* fx: an ATen FX graph, written mechanically as JSON by Python, to a graph of CALL nodes. docs/fx.md describes the text.
 * Nothing here knows what an operator means: every node becomes a CALL that keeps its full overload name and its arguments. */
#ifndef TN_FX_H
#define TN_FX_H
#include "ir/ir.h"

/* Reads json[n] into a graph in `a` with dims in `dims`. Constants given by address ("ptr") are copied, so the text must come from this
 * process. TN_E_PARSE: not JSON or not of this form; TN_E_ARG: a reference, size or count that does not fit; TN_E_UNSUPPORTED: an input,
 * constant or output of a dtype without a name here, a rank over TN_MAX_RANK. The text names node and key. */
tn_status tn_fx_import(tn_diag *d, tn_arena *a, tn_dims *dims, const char *json, size_t n, tn_graph **out);
/* The same for text from a file: an address in it is refused (TN_E_ARG). */
tn_status tn_fx_import_file_text(tn_diag *d, tn_arena *a, tn_dims *dims, const char *json, size_t n, tn_graph **out);
#endif
