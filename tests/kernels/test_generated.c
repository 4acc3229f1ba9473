/* Generated kernels against the reference:  test_generated [part/parts] [filter]
 * Every case prints a line; see generated_run.c for what is compared. */
#include "generated.h"

int main(int argc, char **argv) {
  unsigned part = 0, parts = 1;
  const char *filter = NULL;
  uint32_t n = 0;
  for (int i = 1; i < argc; i++)
    if (sscanf(argv[i], "%u/%u", &part, &parts) != 2 || parts == 0) filter = argv[i], part = 0, parts = 1;
  int failures = gen_table(filter, part, parts, &n);
  failures += gen_random(filter, part, parts, &n);
  printf("%u kernels, %u runs, %u nests interpreted, %u changed schedules (%u illegal ones), %d failures\n", gen_n_kernels, gen_n_runs,
         gen_n_nests, gen_n_legal, gen_n_illegal, failures);
  return failures != 0;
}
