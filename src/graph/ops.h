/* ops.h - the facts of the operator table that are neither code nor CUDA: names, arity, types,
 * complex rules. */
#pragma once
#include "graph/dtype.h"

enum op {
    OP_none,
#define MAP(name, ...) OP_##name,
#define VIEW(name, ...) OP_##name,
#define REDUCE(name, ...) OP_##name,
#define LEAF(name, ...) OP_##name,
#define CORE(name, ...) OP_##name,
#include "graph/ops.def"
    OP_COUNT
};

enum op_kind { KIND_NONE, KIND_MAP, KIND_VIEW, KIND_REDUCE, KIND_LEAF, KIND_CORE };
enum op_type { TYPE_SAME, TYPE_BOOL, TYPE_REAL, TYPE_PICK, TYPE_CAST, TYPE_MAKE, TYPE_OWN };
enum op_on { ON_F, ON_I, ON_A };
enum op_complex { COMPLEX_NEVER, COMPLEX_PARTS, COMPLEX_PAIR, COMPLEX_VANISH, COMPLEX_FUNCTION };
enum op_rules { RULES_ALL, RULES_EXECUTORCH };
enum op_memory { MEMORY_COPY, MEMORY_ALIAS, MEMORY_MAYBE };
enum op_domain {
    DOMAIN_ANY,
    DOMAIN_POSITIVE,
    DOMAIN_NONZERO,
    DOMAIN_UNIT,
    DOMAIN_ONE_UP,
    DOMAIN_SMALL
};

struct op_info {
    const char *name;
    enum op_kind kind;
    int arity; /* 0: any number for VIEW and CORE rows */
    enum op_type type;
    enum op_on on;
    enum op_complex complex;
    enum op_rules rules;
    enum op_memory memory; /* VIEW */
    enum op_domain domain; /* MAP */
    int ulp, cost;         /* MAP */
    const char *attributes;
};
extern const struct op_info op_info[OP_COUNT];

/* OP_none when there is no row of that name. */
enum op op_find(const char *name, size_t length);
