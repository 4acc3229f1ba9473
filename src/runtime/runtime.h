/* runtime: from a plan to a program that runs. The calls for users are include/tenon/run.h; this header is for the driver and the
 * package loader, which have a plan in hand. */
#ifndef TN_RUNTIME_H
#define TN_RUNTIME_H
#include "base/base.h"
#include "device/device.h"
#include "plan/package.h"
#include "tenon/model.h"
#include "tenon/run.h"

/* Verifies the plan and loads its kernels into the cpu. The plan is taken over: it belongs to the program, and is destroyed
 * when this fails. Objects and constants must stay valid while the program lives, unless the plan's arena holds them.
 * TN_E_VERIFY: plan broken, or constants or objects missing; TN_E_PARSE, TN_E_UNSUPPORTED: an object cannot be loaded; TN_E_NOMEM. */
tn_status tn_program_create(tn_diag *d, tn_plan *plan, tn_program **out);
/* The same on another device of the registry (null: kernels do nothing). */
tn_status tn_program_create_on(tn_diag *d, tn_plan *plan, const tn_device_api *api, tn_program **out);
const tn_plan *tn_program_plan(const tn_program *p);

/* A model of a module in memory: the module is verified and taken over (destroyed when this fails), and every plan becomes a program. Objects and
 * constants that the plans' arenas do not hold must stay valid while the model lives: owner, if not NULL, is given to let_go when it ends, also
 * when this fails. */
tn_status tn_model_create(tn_diag *d, tn_module *m, tn_model **out);
tn_status tn_model_create_over(tn_diag *d, tn_module *m, void *owner, void (*let_go)(void *owner), tn_model **out);
const tn_module *tn_model_module(const tn_model *m);
/* The package a model was opened from; NULL: none. */
const tn_package *tn_model_package(const tn_model *m);
/* Who checks signatures. The run time has no cryptography of its own: without a checker, tn_model_options.public_key is TN_E_UNSUPPORTED. libtenon
 * brings one (driver/sign.c). Returns TN_OK, or TN_E_VERIFY with words. */
typedef tn_status (*tn_model_checker)(tn_diag *d, const tn_package *k, const unsigned char public_key[32]);
void tn_model_set_checker(tn_model_checker fn);
/* Who makes a model of a package's portable form (section s) for this machine, at most `isa` (NULL: all it has), when the package has no part that
 * runs here. Without one that is TN_E_UNSUPPORTED. libtenon brings one (driver/rebuild.c). */
typedef tn_status (*tn_model_rebuilder)(tn_diag *d, const tn_package_section *s, const char *isa, tn_model **out);
void tn_model_set_rebuilder(tn_model_rebuilder fn);
const tn_program *tn_model_program(const tn_model *m, uint32_t plan);
#endif
