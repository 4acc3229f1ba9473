/* Status codes of every Tenon call. Stand-alone header, C11 and C++. */
#ifndef TENON_STATUS_H
#define TENON_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#define TN_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define TN_MUST_USE __attribute__((warn_unused_result))
#else
#define TN_API
#define TN_PRINTF(a, b)
#define TN_MUST_USE
#endif

/** Result of a call. Codes are stable; the message that goes with one is in the diagnostic of the session or run. */
typedef enum tn_status {
  TN_OK = 0,
  TN_E_NOMEM = 1,       /**< an allocation failed; nothing changed */
  TN_E_ARG = 2,         /**< a caller's argument (shape, dtype, stride, device, flag) is wrong */
  TN_E_PARSE = 3,       /**< text or bytes do not follow their grammar */
  TN_E_VERIFY = 4,      /**< well-formed, but breaks a rule of its level */
  TN_E_UNSUPPORTED = 5, /**< named op, dtype or form that has no implementation here */
  TN_E_IO = 6,          /**< file or system call failed */
  TN_E_DEVICE = 7,      /**< a device or a kernel failed */
  TN_E_INTERNAL = 8,    /**< a rule of our own was broken: please report */
  TN_E_INDEX = 9,       /**< an index tensor points outside its table */
  TN_E_ZERO = 10        /**< an integer was divided by zero */
} tn_status;

/** Short stable name of a code ("TN_E_PARSE"); never NULL. */
TN_API const char *tn_status_name(tn_status s);

#ifdef __cplusplus
}
#endif
#endif
