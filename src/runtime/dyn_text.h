/* dyn_text: UTF-8 for the string operators. */
#ifndef TN_RUNTIME_DYN_TEXT_H
#define TN_RUNTIME_DYN_TEXT_H
#include "plan/module.h"

/* The code point at s[*i], *i < s.n; a byte that starts none counts as one of its own: 0x110000 + byte, so no rule for letters fits it. */
uint32_t tn_utf8_decode(tn_mstr s, size_t *i);
/* Up to 4 bytes; the inverse of decode. */
size_t tn_utf8_encode(uint32_t v, char *o);
/* The other case of a letter, where it is one that has two. */
uint32_t tn_utf8_fold(uint32_t v, bool up);
#endif
