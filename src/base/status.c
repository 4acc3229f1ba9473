/* Names of status codes. The one place that turns a tn_status into text; messages with numbers live in tn_diag. */
#include "tenon/status.h"

const char *tn_status_name(tn_status s) {
  switch (s) {
    case TN_OK: return "TN_OK";
    case TN_E_NOMEM: return "TN_E_NOMEM";
    case TN_E_ARG: return "TN_E_ARG";
    case TN_E_PARSE: return "TN_E_PARSE";
    case TN_E_VERIFY: return "TN_E_VERIFY";
    case TN_E_UNSUPPORTED: return "TN_E_UNSUPPORTED";
    case TN_E_IO: return "TN_E_IO";
    case TN_E_DEVICE: return "TN_E_DEVICE";
    case TN_E_INTERNAL: return "TN_E_INTERNAL";
    case TN_E_INDEX: return "TN_E_INDEX";
    case TN_E_ZERO: return "TN_E_ZERO";
  }
  return "TN_E_UNKNOWN";
}
