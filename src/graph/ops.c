/* ops.c - see ops.h. */
#include "graph/ops.h"

#include <string.h>

const struct op_info op_info[OP_COUNT] = {
    [OP_none] = {.name = "none", .attributes = ""},
#define MAP(name_, n, type_, on_, complex_, rules_, domain_, ulp_, cost_, ...) \
    [OP_##name_] = {.name = #name_,                                            \
                    .kind = KIND_MAP,                                          \
                    .arity = n,                                                \
                    .type = TYPE_##type_,                                      \
                    .on = ON_##on_,                                            \
                    .complex = COMPLEX_##complex_,                             \
                    .rules = RULES_##rules_,                                   \
                    .domain = DOMAIN_##domain_,                                \
                    .ulp = ulp_,                                               \
                    .cost = cost_,                                             \
                    .attributes = ""},
#define VIEW(name_, n, memory_, complex_, rules_, attributes_) \
    [OP_##name_] = {.name = #name_,                            \
                    .kind = KIND_VIEW,                         \
                    .arity = n,                                \
                    .type = TYPE_OWN,                          \
                    .on = ON_A,                                \
                    .memory = MEMORY_##memory_,                \
                    .complex = COMPLEX_##complex_,             \
                    .rules = RULES_##rules_,                   \
                    .attributes = attributes_},
#define REDUCE(name_, type_, on_, complex_, rules_, ...) \
    [OP_##name_] = {.name = #name_,                      \
                    .kind = KIND_REDUCE,                 \
                    .arity = 1,                          \
                    .type = TYPE_##type_,                \
                    .on = ON_##on_,                      \
                    .complex = COMPLEX_##complex_,       \
                    .rules = RULES_##rules_,             \
                    .attributes = "A"},
#define LEAF(name_, attributes_)                 \
    [OP_##name_] = {.name = #name_,              \
                    .kind = KIND_LEAF,           \
                    .type = TYPE_OWN,            \
                    .on = ON_A,                  \
                    .complex = COMPLEX_FUNCTION, \
                    .rules = RULES_EXECUTORCH,   \
                    .attributes = attributes_},
#define CORE(name_, n, complex_, rules_, attributes_) \
    [OP_##name_] = {.name = #name_,                   \
                    .kind = KIND_CORE,                \
                    .arity = n,                       \
                    .type = TYPE_OWN,                 \
                    .on = ON_A,                       \
                    .complex = COMPLEX_##complex_,    \
                    .rules = RULES_##rules_,          \
                    .attributes = attributes_},
#include "graph/ops.def"
};

enum op op_find(const char *name, size_t length)
{
    for (int op = OP_none + 1; op < OP_COUNT; op++)
        if (strlen(op_info[op].name) == length && memcmp(op_info[op].name, name, length) == 0)
            return (enum op)op;
    return OP_none;
}
