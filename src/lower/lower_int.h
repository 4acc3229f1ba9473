/* Inside lower: what schedules and nests both need to know about a definition is kir/analyze.h. */
#ifndef TN_LOWER_INT_H
#define TN_LOWER_INT_H
#include "kir/analyze.h"
#include "lower/lower.h"
#endif
