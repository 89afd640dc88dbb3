/* size_ask.c - questions about sizes whose answers must hold for other values of the symbols too.
 *
 *     2*s25 < 2*s25 + 1        true, whatever s25 is
 *     s25 < 128, s25 = 7       true, and a guard: what is built on it serves where s25 < 128
 *
 * See size.h. */
#include "graph/size.h"

/* -- asking ------------------------------------------------------------------------------------ */

static bool guard_add(struct sizes *sizes, struct size_guard guard)
{
    for (size_t i = 0; i < sizes->guards.count; i++) {
        const struct size_guard *old = &sizes->guards.at[i];
        if (old->kind == guard.kind && old->a == guard.a && old->b == guard.b)
            return old->answer;
    }
    if (!array_push(&sizes->guards, guard) && sizes->status == PHASOR_OK)
        sizes->status = fail_memory();
    return guard.answer;
}

bool size_is_equal(struct sizes *sizes, dim a, dim b)
{
    const dim equal = size_binary(sizes, SIZE_EQ, a, b);
    if (size_is_literal(sizes, equal))
        return size_value(sizes, equal) != 0;
    return guard_add(sizes, (struct size_guard){GUARD_EQUAL, a, b,
                                                size_value(sizes, a) == size_value(sizes, b)});
}

bool size_is_less(struct sizes *sizes, dim a, dim b)
{
    const dim difference = size_sub(sizes, b, a); /* may move the array */
    const struct size_node *n = &sizes->nodes.at[difference];
    if (n->low > 0 || n->high <= 0)
        return n->low > 0;
    return guard_add(
        sizes, (struct size_guard){GUARD_LESS, a, b, size_value(sizes, a) < size_value(sizes, b)});
}

int64_t size_pin(struct sizes *sizes, dim d)
{
    const int64_t value = size_value(sizes, d);
    if (!size_is_literal(sizes, d))
        guard_add(sizes, (struct size_guard){GUARD_EQUAL, d, size_literal(sizes, value), true});
    return value;
}

bool size_is_multiple(struct sizes *sizes, dim d, int64_t n)
{
    dim quotient;
    return size_divide_exactly(sizes, d, size_literal(sizes, n), &quotient);
}

void size_pin_symbols(struct sizes *sizes, dim d)
{
    const struct size_node *n = &sizes->nodes.at[d];
    if (n->kind == SIZE_SYMBOL)
        sizes->symbols.at[n->symbol].pinned = true;
    for (int i = 0; i < n->count; i++)
        size_pin_symbols(sizes, n->kind == SIZE_SUM ? n->terms[i].term : n->operands[i]);
}

bool size_mentions(const struct sizes *sizes, dim d, const bool *symbols)
{
    const struct size_node *n = &sizes->nodes.at[d];
    bool found = n->kind == SIZE_SYMBOL && symbols[n->symbol];
    for (int i = 0; i < n->count && !found; i++)
        found =
            size_mentions(sizes, n->kind == SIZE_SUM ? n->terms[i].term : n->operands[i], symbols);
    return found;
}

bool size_has_symbol(const struct sizes *sizes, dim d, int symbol)
{
    const struct size_node *n = &sizes->nodes.at[d];
    bool found = n->kind == SIZE_SYMBOL && n->symbol == symbol;
    for (int i = 0; i < n->count && !found; i++)
        found =
            size_has_symbol(sizes, n->kind == SIZE_SUM ? n->terms[i].term : n->operands[i], symbol);
    return found;
}

/* -- values ----------------------------------------------------------------------------------- */

static bool integer_power(int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    if (exponent < 0 || exponent > 63)
        return false;
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*out, base, out))
            return false;
    return true;
}

bool size_binary_value(enum size_kind kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case SIZE_FLOORDIV:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *out = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        return true;
    case SIZE_MOD:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *out = a % b;
        *out += (*out != 0 && (*out < 0) != (b < 0)) ? b : 0;
        return true;
    case SIZE_MINIMUM: *out = a < b ? a : b; return true;
    case SIZE_MAXIMUM: *out = a > b ? a : b; return true;
    case SIZE_EQ: *out = a == b; return true;
    case SIZE_NE: *out = a != b; return true;
    case SIZE_LT: *out = a < b; return true;
    case SIZE_LE: *out = a <= b; return true;
    case SIZE_AND: *out = a && b; return true;
    case SIZE_OR: *out = a || b; return true;
    case SIZE_POW: return integer_power(a, b, out);
    default: return false;
    }
}

/* -- other values ------------------------------------------------------------------------------ */

static bool node_evaluate(const struct size_node *n, const int64_t *symbols, const int64_t *values,
                          int64_t *out)
{
    int64_t product;
    switch (n->kind) {
    case SIZE_LITERAL: *out = n->literal; return true;
    case SIZE_SYMBOL: *out = symbols[n->symbol]; return true;
    case SIZE_SUM:
        *out = n->literal;
        for (int i = 0; i < n->count; i++)
            if (__builtin_mul_overflow(n->terms[i].factor, values[n->terms[i].term], &product) ||
                __builtin_add_overflow(*out, product, out))
                return false;
        return true;
    case SIZE_PRODUCT:
        *out = 1;
        for (int i = 0; i < n->count; i++)
            if (__builtin_mul_overflow(*out, values[n->operands[i]], out))
                return false;
        return true;
    default: return size_binary_value(n->kind, values[n->operands[0]], values[n->operands[1]], out);
    }
}

/* Operands stand before what is made of them. */
bool sizes_evaluate(const struct sizes *sizes, const int64_t *symbols, int64_t *out)
{
    for (size_t i = 0; i < sizes->nodes.count; i++)
        if (!node_evaluate(&sizes->nodes.at[i], symbols, out, &out[i]))
            return false;
    return true;
}

bool sizes_guards_hold(const struct sizes *sizes, const int64_t *values)
{
    for (size_t i = 0; i < sizes->guards.count; i++) {
        const struct size_guard *guard = &sizes->guards.at[i];
        const int64_t a = values[guard->a], b = values[guard->b];
        if ((guard->kind == GUARD_EQUAL ? a == b : a < b) != guard->answer)
            return false;
    }
    return true;
}
