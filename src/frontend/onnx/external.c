/* external: bytes of tensors that lie in files beside the model.
 *
 * A model is not trusted to name files: the location must be relative, without "..", and after symbolic links are followed the file must still lie in the
 * model's folder. Each file is read once, as a whole, and shared by the tensors in it; it lives as long as the caller keeps options->files. */
#define _GNU_SOURCE
#include "import.h"
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool plain_path(const char *s) {
  if (!*s || *s == '/' || strchr(s, '\\')) return false;
  for (const char *p = s; p; p = strchr(p, '/')) {
    if (*p == '/') p++;
    size_t n = strcspn(p, "/");
    if (n == 2 && p[0] == '.' && p[1] == '.') return false;
  }
  return true;
}
static bool inside(const char *folder, const char *file) {
  size_t n = strlen(folder);
  return !strcmp(folder, "/") || (!strncmp(file, folder, n) && file[n] == '/');
}
static tn_status find(importer *im, const char *location, const tn_onnx_file **out) {
  char folder[PATH_MAX], path[PATH_MAX], real[PATH_MAX];
  struct stat st;
  if (!im->o || !im->o->folder) return tn_fail(im->d, TN_E_IO, "external data '%.120s': the model has no folder here", location);
  if (!plain_path(location)) return tn_fail(im->d, TN_E_ARG, "external data '%.120s' is not a plain relative path", location);
  if (!realpath(im->o->folder, folder)) return tn_fail(im->d, TN_E_IO, "no folder '%.120s'", im->o->folder);
  if (snprintf(path, sizeof path, "%s/%s", folder, location) >= (int)sizeof path) return tn_fail(im->d, TN_E_ARG, "external data '%.120s': path too long", location);
  if (!realpath(path, real)) return tn_fail(im->d, TN_E_IO, "external data '%.120s' is not there", location);
  if (!inside(folder, real)) return tn_fail(im->d, TN_E_ARG, "external data '%.120s' leaves the model's folder", location);
  if (stat(real, &st) != 0 || !S_ISREG(st.st_mode)) return tn_fail(im->d, TN_E_IO, "external data '%.120s' is no file", location);
  for (const tn_onnx_file *f = im->o->files; f; f = f->next)
    if (f->dev == (uint64_t)st.st_dev && f->ino == (uint64_t)st.st_ino) { *out = f; return TN_OK; }
  tn_onnx_file *f = tn_calloc(1, sizeof *f);
  if (!f) return tn_fail(im->d, TN_E_NOMEM, "external data '%.120s'", location);
  tn_status s = tn_file_read(im->d, real, SIZE_MAX / 4, &f->p, &f->n);
  if (s != TN_OK) { tn_free(f); return s; }
  f->dev = (uint64_t)st.st_dev;
  f->ino = (uint64_t)st.st_ino;
  f->next = im->o->files;
  im->o->files = f;
  *out = f;
  return TN_OK;
}
static tn_status number(importer *im, const char *key, const char *text, uint64_t *out) {
  char *end;
  *out = strtoull(text, &end, 10);
  if (!*text || *end || *text == '-' || *out > INT64_MAX) return tn_fail(im->d, TN_E_ARG, "external data: %s is '%.40s'", key, text);
  return TN_OK;
}

tn_status tn_onnx_external(importer *im, const pb_tensor *t, size_t bytes, const void **out, size_t *out_n) {
  const char *location = NULL;
  const tn_onnx_file *f;
  uint64_t offset = 0, length = bytes;
  for (size_t i = 0; i < t->n_external_data; i++) {
    const char *k = t->external_data[i]->key, *v = t->external_data[i]->value;
    if (!k || !v) continue;
    if (!strcmp(k, "location")) location = v;
    if (!strcmp(k, "offset")) TN_TRY(number(im, k, v, &offset));
    if (!strcmp(k, "length")) TN_TRY(number(im, k, v, &length));
  }
  if (!location) return tn_fail(im->d, TN_E_ARG, "external data without a location");
  TN_TRY(find(im, location, &f));
  if (offset > f->n || length > f->n - offset)
    return tn_fail(im->d, TN_E_ARG, "external data '%.120s': %llu bytes at %llu, the file has %zu", location, (unsigned long long)length, (unsigned long long)offset, f->n);
  *out = f->p + offset;
  *out_n = (size_t)length;
  return TN_OK;
}

void tn_onnx_files_free(tn_onnx_options *o) {
  while (o->files) {
    tn_onnx_file *f = o->files;
    o->files = f->next;
    tn_free(f->p);
    tn_free(f);
  }
}
