/* save.c: what was compiled as files: a package, or an object that holds the package's bytes with a header to go with it. */
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "driver/driver_int.h"
#include "plan/package.h"
#include "runtime/runtime.h"

static tn_status write_package(tn_compiled *c, const char *path) {
  tn_package_part part[TN_MAX_TARGETS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->n_set; i++) {
    const tn_target_set *t = &c->set[i];
    const tn_module *m = t->model ? tn_model_module(t->model) : t->module;
    if (m) part[n++] = (tn_package_part){tn_target_level_name((tn_level)t->target.level), t->target.flags, m};
  }
  if (!n) return tn_fail(&c->diag, TN_E_ARG, "there is nothing to save: no model was compiled");
  const char *report = tn_compiled_report(c);
  const tn_package_extra extra[] = {{TN_PK_REPORT, "", report, strlen(report)}, {TN_PK_PORTABLE, "onnx", c->portable, c->portable_n}};
  return tn_package_write(&c->diag, path, part, n, extra, c->portable ? 2 : 1);
}

tn_status tn_compiled_save(tn_compiled *c, const char *path) { return tn_compiled_end(c, write_package(c, path)); }

/* ---- static: an ELF object of one symbol ---- */

typedef struct elf_head {
  Elf64_Ehdr e;
  Elf64_Shdr s[6]; /* null, .rodata, .symtab, .strtab, .shstrtab, .note.GNU-stack */
  Elf64_Sym y[2];
  char names[64];
} elf_head;

/* out: the object, its head first, the bytes at the next multiple of 4096. */
static tn_status write_object(tn_compiled *c, const char *path, const char *symbol, const char *bytes, size_t n, bool arm) {
  static const char sections[] = "\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
  size_t at = 4096, len = strlen(symbol) + 2;
  elf_head *h = tn_calloc(1, at + n + len);
  if (!h) return tn_fail(&c->diag, TN_E_NOMEM, "object of %zu bytes", n);
  memcpy(h->e.e_ident, "\177ELF\2\1\1", 7);
  h->e = (Elf64_Ehdr){.e_type = ET_REL, .e_machine = arm ? EM_AARCH64 : EM_X86_64, .e_version = EV_CURRENT, .e_shoff = offsetof(elf_head, s), .e_ehsize = sizeof h->e,
                      .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 6, .e_shstrndx = 4};
  memcpy(h->e.e_ident, "\177ELF\2\1\1", 7);
  memcpy(h->names, sections, sizeof sections);
  h->s[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = at, .sh_size = n, .sh_addralign = 4096};
  h->s[2] = (Elf64_Shdr){.sh_name = 9, .sh_type = SHT_SYMTAB, .sh_offset = offsetof(elf_head, y), .sh_size = sizeof h->y, .sh_link = 3, .sh_info = 1, .sh_addralign = 8, .sh_entsize = sizeof(Elf64_Sym)};
  h->s[3] = (Elf64_Shdr){.sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = at + n, .sh_size = len, .sh_addralign = 1};
  h->s[4] = (Elf64_Shdr){.sh_name = 25, .sh_type = SHT_STRTAB, .sh_offset = offsetof(elf_head, names), .sh_size = sizeof sections, .sh_addralign = 1};
  h->s[5] = (Elf64_Shdr){.sh_name = 35, .sh_type = SHT_PROGBITS, .sh_addralign = 1, .sh_offset = at};
  h->y[1] = (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = 1, .st_size = n};
  memcpy((char *)h + at, bytes, n);
  memcpy((char *)h + at + n + 1, symbol, len - 1);
  tn_status s = tn_file_write(&c->diag, path, h, at + n + len);
  tn_free(h);
  return s;
}

static const char *c_type(uint32_t elem) {
  switch (elem) {
  case TN_EL_F32: return "float";
  case TN_EL_F64: return "double";
  case TN_EL_I64: return "int64_t";
  case TN_EL_I32: return "int32_t";
  case TN_EL_I16: return "int16_t";
  case TN_EL_I8: case TN_EL_I4: case TN_EL_I2: return "int8_t";
  case TN_EL_U16: case TN_EL_F16: case TN_EL_BF16: return "uint16_t";
  case TN_EL_U32: return "uint32_t";
  case TN_EL_U64: return "uint64_t";
  default: return "uint8_t";
  }
}

/* Letters, digits and underscores; no digit first. */
static void identifier(const char *s, size_t n, const char *otherwise, char out[128]) {
  size_t k = 0;
  for (size_t i = 0; i < n && k < 120; i++) {
    char ch = s[i];
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_', digit = ch >= '0' && ch <= '9';
    if (k == 0 && digit) out[k++] = '_';
    out[k++] = letter || digit ? ch : '_';
  }
  out[k] = 0;
  if (!k) snprintf(out, 128, "%s", otherwise);
}

static bool fixed(const tn_mport *p) {
  tn_dtype t;
  bool all = p->kind == TN_PORT_TENSOR && p->rank >= 0 && tn_elem_dtype(p->elem, &t);
  for (int k = 0; all && k < p->rank; k++) all = p->dim[k] >= 0;
  return all;
}

static void port_text(tn_str *o, const tn_mport *p) {
  tn_str_add(o, "%s %s", tn_port_kind_name(p->kind), tn_elem_name(p->elem));
  if (p->rank < 0) return;
  tn_str_add(o, "[");
  for (int k = 0; k < p->rank; k++) {
    tn_str_add(o, k ? ", " : "");
    if (p->dim[k] >= 0) tn_str_add(o, "%lld", (long long)p->dim[k]);
    else tn_str_add(o, "?");
  }
  tn_str_add(o, "]");
}

static void tensors(tn_str *o, const char *array, const char *prefix, const tn_mport *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    tn_str_add(o, "  static const int64_t %s_shape_%u[] = {", prefix, i);
    for (int k = 0; k < p[i].rank; k++) tn_str_add(o, "%lld, ", (long long)p[i].dim[k]);
    tn_str_add(o, "0};\n");
  }
  tn_str_add(o, "  tn_tensor %s[%u];\n", array, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    tn_dtype t = TN_F32;
    (void)tn_elem_dtype(p[i].elem, &t);
    tn_str_add(o, "  %s[%u].data = (void *)(uintptr_t)%s%u; %s[%u].shape = %s_shape_%u; %s[%u].strides = 0; %s[%u].rank = %d; %s[%u].dtype = %d;\n", array, i, prefix, i, array, i, prefix, i,
               array, i, array, i, p[i].rank, array, i, (int)t);
  }
}

static void header(tn_str *o, const tn_module *m, const char *name, const char *file, size_t n) {
  tn_str_add(o, "/* %s: a model compiled by Tenon. Link %s and the run time (libtenon_rt). Made by a program: do not edit.\n *\n", name, file);
  bool all = true;
  for (uint32_t i = 0; i < m->n_in; i++) {
    tn_str_add(o, " *   input %u: ", i);
    port_text(o, &m->in[i]);
    tn_str_add(o, "\n");
    all &= fixed(&m->in[i]);
  }
  for (uint32_t i = 0; i < m->n_out; i++) {
    tn_str_add(o, " *   output %u: ", i);
    port_text(o, &m->out[i]);
    tn_str_add(o, "\n");
    all &= fixed(&m->out[i]);
  }
  tn_str_add(o, " */\n#ifndef TENON_MODEL_%s_H\n#define TENON_MODEL_%s_H\n#include <stdint.h>\n#include \"tenon/model.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n", name, name);
  tn_str_add(o, "extern const unsigned char %s_package[%zu];\nenum { %s_N_IN = %u, %s_N_OUT = %u };\n\n", name, n, name, m->n_in, name, m->n_out);
  tn_str_add(o, "/* The model, ready for tn_session_create; the caller releases it. */\nstatic inline tn_status %s_open(tn_model **out, char *error, size_t error_n) {\n"
                "  return tn_model_open_memory(%s_package, sizeof %s_package, 0, out, error, error_n);\n}\n",
             name, name, name);
  if (all) {
    tn_str_add(o, "\n/* One run: dense row-major arrays of the shapes above; sizes in elements are in the parameters. */\nstatic inline tn_status %s_run(tn_session *session", name);
    for (uint32_t side = 0; side < 2; side++)
      for (uint32_t i = 0; i < (side ? m->n_out : m->n_in); i++) {
        const tn_mport *p = side ? &m->out[i] : &m->in[i];
        int64_t count = 1;
        for (int k = 0; k < p->rank; k++) count *= p->dim[k];
        tn_str_add(o, ", %s%s *%s%u /* [%lld] */", side ? "" : "const ", c_type(p->elem), side ? "out" : "in", i, (long long)count);
      }
    tn_str_add(o, ") {\n");
    tensors(o, "x", "in", m->in, m->n_in);
    tensors(o, "y", "out", m->out, m->n_out);
    tn_str_add(o, "  return tn_session_run_into(session, x, y);\n}\n");
  }
  tn_str_add(o, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static tn_status save_static(tn_compiled *c, const char *path) {
  char name[128], symbol[160], *bytes = NULL;
  size_t n = 0;
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path, *dot = strrchr(file, '.');
  size_t stem = dot && dot != file ? (size_t)(dot - path) : strlen(path);
  const char *tmp = tn_arena_printf(&c->keep, "%.*s.%ld.tmp", (int)stem, path, (long)getpid()), *head = tn_arena_printf(&c->keep, "%.*s.h", (int)stem, path);
  if (!tmp || !head) return tn_fail(&c->diag, TN_E_NOMEM, "names of files");
  if (dot && !strcmp(dot, ".h")) return tn_fail(&c->diag, TN_E_ARG, "'%s' is the object's name; the header gets the same with .h", path);
  identifier(file, stem - (size_t)(file - path), "model", name);
  snprintf(symbol, sizeof symbol, "%s_package", name);
  TN_TRY(write_package(c, tmp));
  tn_status s = tn_file_read(&c->diag, tmp, SIZE_MAX / 2, &bytes, &n);
  unlink(tmp);
  TN_TRY(s);
  const tn_target_set *t = &c->set[0];
  s = write_object(c, path, symbol, bytes, n, !strncmp(t->target.triple, "aarch64", 7));
  tn_free(bytes);
  TN_TRY(s);
  tn_str o;
  tn_str_init(&o);
  header(&o, t->model ? tn_model_module(t->model) : t->module, name, file, n);
  s = o.oom ? tn_fail(&c->diag, TN_E_NOMEM, "header") : tn_file_write(&c->diag, head, o.s, o.n);
  tn_str_deinit(&o);
  return s;
}

tn_status tn_compiled_save_static(tn_compiled *c, const char *path) { return tn_compiled_end(c, save_static(c, path)); }
