/* upgrade.h - from generic kernels to exact ones, where literals pay (upgrade.c). */
#pragma once
#include "specialise/specialise.h"

/* What a specialisation with generic kernels becomes. */
struct upgrade {
    struct recipe recipe;           /* of the plan with literal sizes */
    struct loaded_kernel **kernels; /* NULL where the generic one stays */
};

/* Whether any of its kernels gains from literal sizes. */
bool specialisation_gains(const struct specialisation *spec);
/* And the call that they would be for is known. */
bool upgrade_is_wanted(const struct specialisation *spec);
/* Plans it, for those who gather kernels to compile them together. The specialisation is theirs
 * alone so far. */
phasor_status upgrade_plan(struct specialisation *spec);
/* The exact kernel that is wanted in place of kernel k; NULL: none. */
const struct recipe_kernel *upgrade_kernel(const struct specialisation *spec, int k);
/* Compiles those, or finds them in the cache, and swaps them in: calls that are just being issued
 * use the old ones or the new ones, with the same bits. Only the first time. */
phasor_status specialisation_upgrade(struct specialisation *spec);
void upgrade_free(struct specialisation *spec);
