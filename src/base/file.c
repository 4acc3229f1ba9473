/* Whole-file reads and atomic whole-file writes. A write goes to a temporary name beside the target and is renamed over it,
 * so other processes see the old bytes or the new ones, never a part. No mapping, no streaming, no locks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base.h"

tn_status tn_file_read(tn_diag *d, const char *path, size_t max_bytes, char **out, size_t *out_n) {
  *out = NULL;
  *out_n = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tn_fail(d, TN_E_IO, "cannot open %s: %s", path, strerror(errno));
  struct stat st;
  tn_status s = TN_OK;
  char *p = NULL;
  size_t n = 0, cap = 0;
  if (fstat(fd, &st) != 0) {
    s = tn_fail(d, TN_E_IO, "cannot stat %s: %s", path, strerror(errno));
  } else if (S_ISDIR(st.st_mode)) {
    s = tn_fail(d, TN_E_IO, "cannot read %s: it is a folder", path);
  } else {
    n = (size_t)(st.st_size > 0 ? st.st_size : 0);
    if (n <= max_bytes) {
      cap = n + 1;
      n = 0;
    }
  }
  while (s == TN_OK && n <= max_bytes) {
    if (!p || n == cap) { /* pipes and /proc files say size 0: grow while there is more */
      if (p) cap = cap * 2 + 4096;
      char *bigger = tn_realloc(p, cap + 1);
      if (!bigger) {
        s = tn_fail(d, TN_E_NOMEM, "no memory for %zu bytes of %s", cap, path);
        break;
      }
      p = bigger;
    }
    ssize_t got = read(fd, p + n, cap - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) s = tn_fail(d, TN_E_IO, "cannot read %s: %s", path, strerror(errno));
    if (got <= 0) break;
    n += (size_t)got;
  }
  close(fd);
  if (s == TN_OK && n > max_bytes) s = tn_fail(d, TN_E_IO, "%s is larger than the allowed %zu bytes", path, max_bytes);
  if (s != TN_OK) {
    tn_free(p);
    return s;
  }
  p[n] = 0;
  *out = p;
  *out_n = n;
  return TN_OK;
}

tn_status tn_file_write(tn_diag *d, const char *path, const void *bytes, size_t n) {
  static atomic_uint serial;
  size_t tmp_n = strlen(path) + 48;
  char *tmp = tn_malloc(tmp_n);
  if (!tmp) return tn_fail(d, TN_E_NOMEM, "no memory to name a temporary file for %s", path);
  snprintf(tmp, tmp_n, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
  tn_status s = TN_OK;
  int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) s = tn_fail(d, TN_E_IO, "cannot create %s: %s", tmp, strerror(errno));
  const char *p = bytes;
  for (size_t left = n; s == TN_OK && left;) {
    ssize_t put = write(fd, p, left);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      s = tn_fail(d, TN_E_IO, "cannot write %zu bytes to %s: %s", n, tmp, strerror(errno));
    } else {
      p += put;
      left -= (size_t)put;
    }
  }
  if (fd >= 0 && close(fd) != 0 && s == TN_OK) s = tn_fail(d, TN_E_IO, "cannot close %s: %s", tmp, strerror(errno));
  if (s == TN_OK && rename(tmp, path) != 0) s = tn_fail(d, TN_E_IO, "cannot rename %s to %s: %s", tmp, path, strerror(errno));
  if (s != TN_OK && fd >= 0) unlink(tmp);
  tn_free(tmp);
  return s;
}

tn_status tn_dir_make(tn_diag *d, const char *path) {
  size_t n = strlen(path);
  char *p = tn_malloc(n + 1);
  if (!p) return tn_fail(d, TN_E_NOMEM, "no memory to make folder %s", path);
  memcpy(p, path, n + 1);
  tn_status s = TN_OK;
  for (size_t i = 1; i <= n && s == TN_OK; i++) {
    if (p[i] != '/' && p[i] != 0) continue;
    char keep = p[i];
    p[i] = 0;
    struct stat st;
    if (mkdir(p, 0777) != 0 && !(stat(p, &st) == 0 && S_ISDIR(st.st_mode)))
      s = tn_fail(d, TN_E_IO, "cannot make folder %s: %s", p, strerror(errno));
    p[i] = keep;
  }
  tn_free(p);
  return s;
}
