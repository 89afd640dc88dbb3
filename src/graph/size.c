/* size.c - see size.h. Sums and products are kept sorted by size_compare, which looks at what the
 * terms are and not at where they stand in the pool: the normal form of an expression, and so its
 * text, is the same in every pool with the same symbols. A product of two sums is multiplied out;
 * sizes are small enough for that. */
#include "graph/size.h"

#include <string.h>

enum { TERMS_MAX = 64, WEIGHT_MAX = 1000 };

/* A sum being built: literal + terms. */
struct sum {
    int64_t literal;
    int count;
    struct size_term terms[TERMS_MAX];
};

static dim size_fail(struct sizes *sizes, phasor_status status, const char *what)
{
    if (sizes->status == PHASOR_OK)
        sizes->status =
            status == PHASOR_ERROR_MEMORY ? fail_memory() : fail(status, "a size %s", what);
    return 0;
}

static dim size_overflow(struct sizes *sizes)
{
    return size_fail(sizes, PHASOR_ERROR_INPUT, "does not fit in 64 bits");
}

/* -- interning --------------------------------------------------------------------------------- */

static uint64_t node_hash(const void *nodes, uint32_t number)
{
    const struct size_node *n = (const struct size_node *)nodes + number;
    uint64_t hash = intern_mix(n->kind, (uint64_t)n->literal);
    hash = intern_mix(hash, (uint64_t)n->symbol);
    for (int i = 0; i < n->count; i++)
        hash = n->kind == SIZE_SUM
                   ? intern_mix(intern_mix(hash, (uint64_t)n->terms[i].factor), n->terms[i].term)
                   : intern_mix(hash, n->operands[i]);
    return intern_mixed(hash);
}

static bool node_equal(const struct size_node *a, const struct size_node *b)
{
    if (a->kind != b->kind || a->literal != b->literal || a->symbol != b->symbol ||
        a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->kind == SIZE_SUM
                ? a->terms[i].factor != b->terms[i].factor || a->terms[i].term != b->terms[i].term
                : a->operands[i] != b->operands[i])
            return false;
    return true;
}

/* Nodes of the expression written out; a limit keeps its text short and recursion over it shallow.
 */
static int node_weight(const struct sizes *sizes, const struct size_node *node)
{
    int weight = 1;
    for (int i = 0; i < node->count && weight <= WEIGHT_MAX; i++)
        weight += sizes->nodes.at[node->kind == SIZE_SUM ? node->terms[i].term : node->operands[i]]
                      .weight;
    return weight;
}

/* Keeps the node, or finds the one that is there. Its operands are copied to the arena. */
static dim node_intern(struct sizes *sizes, struct size_node node)
{
    if (!intern_room(&sizes->table, sizes->nodes.count, node_hash, sizes->nodes.at))
        return size_fail(sizes, PHASOR_ERROR_MEMORY, NULL);
    size_t slot = intern_slot(&sizes->table, node_hash(&node, 0));
    for (; sizes->table.at[slot]; slot = intern_next(&sizes->table, slot))
        if (node_equal(&sizes->nodes.at[sizes->table.at[slot] - 1], &node))
            return sizes->table.at[slot] - 1;

    node.weight = node_weight(sizes, &node);
    if (node.weight > WEIGHT_MAX)
        return size_fail(sizes, PHASOR_ERROR_INPUT, "is too long an expression");
    if (node.count && node.kind == SIZE_SUM)
        node.terms = arena_copy(sizes->arena, node.terms, (size_t)node.count * sizeof *node.terms);
    else if (node.count)
        node.operands =
            arena_copy(sizes->arena, node.operands, (size_t)node.count * sizeof *node.operands);
    if (node.count && !node.terms && !node.operands)
        return size_fail(sizes, PHASOR_ERROR_MEMORY, NULL);
    if (!array_push(&sizes->nodes, node))
        return size_fail(sizes, PHASOR_ERROR_MEMORY, NULL);
    sizes->table.at[slot] = (uint32_t)sizes->nodes.count;
    return (dim)sizes->nodes.count - 1;
}

phasor_status sizes_init(struct sizes *sizes, struct arena *arena)
{
    *sizes = (struct sizes){.arena = arena};
    size_literal(sizes, 0);
    size_literal(sizes, 1);
    return sizes->status;
}

void sizes_free(struct sizes *sizes)
{
    array_free(&sizes->nodes);
    array_free(&sizes->symbols);
    array_free(&sizes->guards);
    intern_free(&sizes->table);
    *sizes = (struct sizes){0};
}

phasor_status sizes_status(const struct sizes *sizes)
{
    return sizes->status;
}

dim size_literal(struct sizes *sizes, int64_t value)
{
    return node_intern(
        sizes,
        (struct size_node){
            .kind = SIZE_LITERAL, .literal = value, .value = value, .low = value, .high = value});
}

dim size_find_symbol(const struct sizes *sizes, const char *name, bool *found)
{
    for (size_t i = 0; i < sizes->symbols.count; i++)
        if (strcmp(sizes->symbols.at[i].name, name) == 0) {
            *found = true;
            return sizes->symbols.at[i].size;
        }
    *found = false;
    return 0;
}

dim size_symbol(struct sizes *sizes, const char *name, int64_t low, int64_t high, int64_t value)
{
    bool found;
    dim size = size_find_symbol(sizes, name, &found);
    if (!found) {
        char *copy = arena_string(sizes->arena, name);
        const int index = (int)sizes->symbols.count;
        if (!copy ||
            !array_push(&sizes->symbols, (struct size_symbol){copy, low, high, value, 0, false}))
            return size_fail(sizes, PHASOR_ERROR_MEMORY, NULL);
        size = node_intern(sizes, (struct size_node){.kind = SIZE_SYMBOL, .symbol = index});
        sizes->symbols.at[index].size = size;
    }
    struct size_symbol *symbol = &sizes->symbols.at[sizes->nodes.at[size].symbol];
    symbol->low = low > symbol->low ? low : symbol->low;
    symbol->high = high < symbol->high ? high : symbol->high;
    symbol->value = value;
    struct size_node *node = &sizes->nodes.at[size];
    node->low = symbol->low;
    node->high = symbol->high;
    node->value = value;
    return size;
}

/* -- bounds ------------------------------------------------------------------------------------ */

static int64_t saturate(__int128 value)
{
    return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

static bool unbounded(int64_t bound)
{
    return bound == INT64_MAX || bound == INT64_MIN;
}

static int64_t bound_mul(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    if (unbounded(a) || unbounded(b))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return saturate((__int128)a * b);
}

static int64_t bound_add(int64_t a, int64_t b)
{
    return unbounded(a) ? a : unbounded(b) ? b : saturate((__int128)a + b);
}

static void interval_mul(int64_t *low, int64_t *high, int64_t other_low, int64_t other_high)
{
    const int64_t corners[4] = {bound_mul(*low, other_low), bound_mul(*low, other_high),
                                bound_mul(*high, other_low), bound_mul(*high, other_high)};
    *low = *high = corners[0];
    for (int i = 1; i < 4; i++) {
        *low = corners[i] < *low ? corners[i] : *low;
        *high = corners[i] > *high ? corners[i] : *high;
    }
}

/* -- order ------------------------------------------------------------------------------------- */

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int size_compare(const struct sizes *sizes, dim a, dim b)
{
    const struct size_node *x = &sizes->nodes.at[a], *y = &sizes->nodes.at[b];
    int order = a == b ? 0 : compare_numbers(x->kind, y->kind);
    if (a == b || order)
        return order;
    order = compare_numbers(x->symbol, y->symbol);
    order = order ? order : compare_numbers(x->count, y->count);
    for (int i = 0; i < x->count && !order; i++) {
        const bool sum = x->kind == SIZE_SUM;
        order = size_compare(sizes, sum ? x->terms[i].term : x->operands[i],
                             sum ? y->terms[i].term : y->operands[i]);
        order = order || !sum ? order : compare_numbers(x->terms[i].factor, y->terms[i].factor);
    }
    return order ? order : compare_numbers(x->literal, y->literal);
}

/* -- sums -------------------------------------------------------------------------------------- */

static void sum_of(const struct sizes *sizes, dim d, struct sum *sum)
{
    const struct size_node *n = &sizes->nodes.at[d];
    *sum = (struct sum){.literal = n->literal};
    if (n->kind == SIZE_LITERAL)
        return;
    if (n->kind == SIZE_SUM) {
        sum->count = n->count;
        memcpy(sum->terms, n->terms, (size_t)n->count * sizeof *n->terms);
        return;
    }
    sum->literal = 0;
    sum->count = 1;
    sum->terms[0] = (struct size_term){1, d};
}

/* Adds factor * term in its sorted place. */
static bool sum_add_term(const struct sizes *sizes, struct sum *sum, int64_t factor, dim term)
{
    int at = 0;
    while (at < sum->count && size_compare(sizes, sum->terms[at].term, term) < 0)
        at++;
    if (at < sum->count && sum->terms[at].term == term) {
        if (__builtin_add_overflow(sum->terms[at].factor, factor, &sum->terms[at].factor))
            return false;
        if (sum->terms[at].factor == 0)
            memmove(&sum->terms[at], &sum->terms[at + 1],
                    (size_t)(--sum->count - at) * sizeof sum->terms[0]);
        return true;
    }
    if (sum->count == TERMS_MAX)
        return false;
    memmove(&sum->terms[at + 1], &sum->terms[at],
            (size_t)(sum->count++ - at) * sizeof sum->terms[0]);
    sum->terms[at] = (struct size_term){factor, term};
    return true;
}

static dim sum_intern(struct sizes *sizes, struct sum *sum)
{
    if (sum->count == 0)
        return size_literal(sizes, sum->literal);
    if (sum->count == 1 && sum->literal == 0 && sum->terms[0].factor == 1)
        return sum->terms[0].term;
    struct size_node node = {
        .kind = SIZE_SUM, .literal = sum->literal, .count = sum->count, .terms = sum->terms};
    __int128 value = sum->literal;
    node.low = node.high = sum->literal;
    for (int i = 0; i < sum->count; i++) {
        const struct size_node *term = &sizes->nodes.at[sum->terms[i].term];
        const int64_t factor = sum->terms[i].factor;
        int64_t low = term->low, high = term->high;
        value += (__int128)factor * term->value;
        interval_mul(&low, &high, factor, factor);
        node.low = bound_add(node.low, low);
        node.high = bound_add(node.high, high);
    }
    if (value > INT64_MAX || value < INT64_MIN)
        return size_overflow(sizes);
    node.value = (int64_t)value;
    return node_intern(sizes, node);
}

static dim size_add_scaled(struct sizes *sizes, dim a, dim b, int64_t factor)
{
    struct sum sum, other;
    if (factor == 0)
        return a;
    sum_of(sizes, a, &sum);
    sum_of(sizes, b, &other);
    int64_t literal;
    if (__builtin_mul_overflow(other.literal, factor, &literal) ||
        __builtin_add_overflow(sum.literal, literal, &sum.literal))
        return size_overflow(sizes);
    for (int i = 0; i < other.count; i++) {
        int64_t scaled;
        if (__builtin_mul_overflow(other.terms[i].factor, factor, &scaled) ||
            !sum_add_term(sizes, &sum, scaled, other.terms[i].term))
            return size_overflow(sizes);
    }
    return sum_intern(sizes, &sum);
}

dim size_add(struct sizes *sizes, dim a, dim b)
{
    return size_add_scaled(sizes, a, b, 1);
}

dim size_sub(struct sizes *sizes, dim a, dim b)
{
    return size_add_scaled(sizes, a, b, -1);
}

/* -- products ---------------------------------------------------------------------------------- */

static int atoms_of(const struct sizes *sizes, dim term, dim *atoms)
{
    const struct size_node *n = &sizes->nodes.at[term];
    if (n->kind != SIZE_PRODUCT) {
        atoms[0] = term;
        return 1;
    }
    memcpy(atoms, n->operands, (size_t)n->count * sizeof *atoms);
    return n->count;
}

static dim product_intern(struct sizes *sizes, dim *atoms, int count)
{
    if (count == 1)
        return atoms[0];
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && size_compare(sizes, atoms[j - 1], atoms[j]) > 0; j--) {
            const dim swap = atoms[j];
            atoms[j] = atoms[j - 1];
            atoms[j - 1] = swap;
        }
    struct size_node node = {
        .kind = SIZE_PRODUCT, .value = 1, .low = 1, .high = 1, .count = count, .operands = atoms};
    for (int i = 0; i < count; i++) {
        const struct size_node *atom = &sizes->nodes.at[atoms[i]];
        if (__builtin_mul_overflow(node.value, atom->value, &node.value))
            return size_overflow(sizes);
        interval_mul(&node.low, &node.high, atom->low, atom->high);
    }
    return node_intern(sizes, node);
}

static dim term_mul(struct sizes *sizes, dim a, dim b)
{
    dim atoms[2 * TERMS_MAX];
    const int count_a = atoms_of(sizes, a, atoms);
    if (count_a > TERMS_MAX / 2)
        return size_overflow(sizes);
    const int count_b = atoms_of(sizes, b, atoms + count_a);
    if (count_a + count_b > TERMS_MAX / 2)
        return size_overflow(sizes);
    return product_intern(sizes, atoms, count_a + count_b);
}

static bool sum_add_product(struct sizes *sizes, struct sum *sum, struct size_term a,
                            struct size_term b)
{
    int64_t factor;
    if (__builtin_mul_overflow(a.factor, b.factor, &factor))
        return false;
    return factor == 0 || sum_add_term(sizes, sum, factor, term_mul(sizes, a.term, b.term));
}

dim size_mul(struct sizes *sizes, dim a, dim b)
{
    if (size_is_literal(sizes, a)) {
        const dim swap = a;
        a = b;
        b = swap;
    }
    if (size_is_literal(sizes, b))
        return size_add_scaled(sizes, 0, a, sizes->nodes.at[b].literal);

    struct sum x, y, result;
    sum_of(sizes, a, &x);
    sum_of(sizes, b, &y);
    result = (struct sum){0};
    if (__builtin_mul_overflow(x.literal, y.literal, &result.literal))
        return size_overflow(sizes);
    for (int i = 0; i < x.count; i++) {
        int64_t factor;
        if (__builtin_mul_overflow(x.terms[i].factor, y.literal, &factor) ||
            (factor && !sum_add_term(sizes, &result, factor, x.terms[i].term)))
            return size_overflow(sizes);
        for (int j = 0; j < y.count; j++)
            if (!sum_add_product(sizes, &result, x.terms[i], y.terms[j]))
                return size_overflow(sizes);
    }
    for (int j = 0; j < y.count; j++) {
        int64_t factor;
        if (__builtin_mul_overflow(y.terms[j].factor, x.literal, &factor) ||
            (factor && !sum_add_term(sizes, &result, factor, y.terms[j].term)))
            return size_overflow(sizes);
    }
    return sum_intern(sizes, &result);
}

/* term / divisor, both products of atoms; false when an atom of the divisor is missing. */
static bool term_divide(struct sizes *sizes, dim term, dim divisor, dim *quotient)
{
    dim atoms[TERMS_MAX], divisors[TERMS_MAX];
    int count = atoms_of(sizes, term, atoms);
    const int divisor_count = atoms_of(sizes, divisor, divisors);
    for (int i = 0; i < divisor_count; i++) {
        int at = 0;
        while (at < count && atoms[at] != divisors[i])
            at++;
        if (at == count)
            return false;
        memmove(&atoms[at], &atoms[at + 1], (size_t)(--count - at) * sizeof atoms[0]);
    }
    *quotient = count ? product_intern(sizes, atoms, count) : 1;
    return true;
}

bool size_divide_exactly(struct sizes *sizes, dim a, dim b, dim *quotient)
{
    struct sum x, y, result = {0};
    sum_of(sizes, a, &x);
    sum_of(sizes, b, &y);
    const bool literal = y.count == 0;
    const int64_t factor = literal                          ? y.literal
                           : y.count == 1 && y.literal == 0 ? y.terms[0].factor
                                                            : 0;
    if (factor == 0 || (factor == -1 && x.literal == INT64_MIN))
        return false;
    if (a == b) {
        *quotient = 1;
        return true;
    }
    if (x.literal % factor != 0 || (!literal && x.literal != 0))
        return false;
    result.literal = x.literal / factor;
    for (int i = 0; i < x.count; i++) {
        dim rest = x.terms[i].term;
        if (x.terms[i].factor % factor != 0 ||
            (!literal && !term_divide(sizes, rest, y.terms[0].term, &rest)))
            return false;
        if (rest == 1)
            result.literal += x.terms[i].factor / factor;
        else if (!sum_add_term(sizes, &result, x.terms[i].factor / factor, rest))
            return false;
    }
    *quotient = sum_intern(sizes, &result);
    return true;
}

/* -- the other operators ----------------------------------------------------------------------- */

/* a = multiples * b + rest, with as much in the multiples as can be. */
static bool size_split(struct sizes *sizes, dim a, dim b, dim *multiples, dim *rest)
{
    struct sum x, left = {0};
    dim ratio;
    sum_of(sizes, a, &x);
    *multiples = 0;
    for (int i = 0; i < x.count; i++) {
        const dim term = size_add_scaled(sizes, 0, x.terms[i].term, x.terms[i].factor);
        if (size_divide_exactly(sizes, term, b, &ratio))
            *multiples = size_add(sizes, *multiples, ratio);
        else
            left.terms[left.count++] = x.terms[i];
    }
    left.literal = x.literal;
    *rest = sum_intern(sizes, &left);
    return *multiples != 0;
}

/* (k*x + r) // k = x + r // k, where the latter is known. */
static bool floordiv_simplify(struct sizes *sizes, dim a, dim b, dim *out)
{
    dim multiples, rest, quotient;
    if (size_is_literal(sizes, a) || !size_split(sizes, a, b, &multiples, &rest))
        return false;
    const struct size_node r = sizes->nodes.at[rest], d = sizes->nodes.at[b];
    if (r.kind == SIZE_LITERAL && d.kind == SIZE_LITERAL)
        quotient = size_binary(sizes, SIZE_FLOORDIV, rest, b);
    else if (r.low >= 0 && r.high < d.low)
        quotient = 0;
    else if (r.high < 0 && d.low > 0 && r.low >= -d.low)
        quotient = size_literal(sizes, -1);
    else
        return false;
    *out = size_add(sizes, multiples, quotient);
    return true;
}

/* What bounds and structure decide without knowing the symbols; true when *out was set. */
static bool binary_simplify(struct sizes *sizes, enum size_kind kind, dim a, dim b, dim *out)
{
    const struct size_node nodes[2] = {sizes->nodes.at[a],
                                       sizes->nodes.at[b]}; /* the array may move below */
    const struct size_node *x = &nodes[0], *y = &nodes[1];
    if (kind == SIZE_MINIMUM || kind == SIZE_MAXIMUM) {
        const bool a_first = x->high <= y->low, b_first = y->high <= x->low;
        *out = kind == SIZE_MINIMUM ? (a_first ? a : b) : (a_first ? b : a);
        return a == b || a_first || b_first;
    }
    if (kind == SIZE_FLOORDIV)
        return size_divide_exactly(sizes, a, b, out) ||
               (x->low >= 0 && x->high < y->low ? (*out = 0, true)
                                                : floordiv_simplify(sizes, a, b, out));
    if (kind == SIZE_MOD) {
        dim quotient;
        if (size_divide_exactly(sizes, a, b, &quotient))
            return *out = 0, true;
        if (x->low >= 0 && x->high < y->low)
            return *out = a, true;
        dim rest;
        return !size_is_literal(sizes, a) && size_split(sizes, a, b, &quotient, &rest) &&
               (*out = size_binary(sizes, SIZE_MOD, rest, b), true);
    }
    const bool equal = a == b, apart = x->high < y->low || y->high < x->low;
    if ((kind == SIZE_EQ || kind == SIZE_NE) && (equal || apart))
        return *out = (kind == SIZE_EQ) == equal, true;
    return false;
}

static void binary_bounds(struct size_node *node, const struct size_node *x,
                          const struct size_node *y)
{
    node->low = INT64_MIN;
    node->high = INT64_MAX;
    switch (node->kind) {
    case SIZE_MINIMUM:
        node->low = x->low < y->low ? x->low : y->low;
        node->high = x->high < y->high ? x->high : y->high;
        break;
    case SIZE_MAXIMUM:
        node->low = x->low > y->low ? x->low : y->low;
        node->high = x->high > y->high ? x->high : y->high;
        break;
    case SIZE_FLOORDIV:
        if (x->low >= 0 && y->low > 0) {
            node->low = unbounded(y->high) ? 0 : x->low / y->high;
            node->high = unbounded(x->high) ? x->high : x->high / y->low;
        }
        break;
    case SIZE_MOD:
        if (y->low > 0) {
            node->low = 0;
            node->high = unbounded(y->high) ? y->high : y->high - 1;
        }
        break;
    case SIZE_POW: break;
    default: node->low = 0, node->high = 1; break;
    }
}

dim size_binary(struct sizes *sizes, enum size_kind kind, dim a, dim b)
{
    int64_t value;
    if (!size_binary_value(kind, size_value(sizes, a), size_value(sizes, b), &value))
        return kind == SIZE_POW ? size_overflow(sizes)
                                : size_fail(sizes, PHASOR_ERROR_INPUT, "is divided by zero");
    if (size_is_literal(sizes, a) && size_is_literal(sizes, b))
        return size_literal(sizes, value);
    dim simple;
    if (binary_simplify(sizes, kind, a, b, &simple))
        return simple;
    dim operands[2] = {a, b};
    struct size_node node = {.kind = kind, .value = value, .count = 2, .operands = operands};
    binary_bounds(&node, &sizes->nodes.at[a], &sizes->nodes.at[b]);
    return node_intern(sizes, node);
}
