/* size_solve.c - what a symbol must be for an expression to have a given size; see size.h.
 *
 *     2*s6 + 1 = 9                 1 + 2 * s6      s6 = 4
 *     s4 + s86 = 7, s86 = 3        3 + 1 * s4      s4 = 4
 *     2*s6 = 7                     no whole number; "2*s6 with s6 in 1..16, such as 6 or 8"
 */
#include "graph/size.h"

#include <inttypes.h>

/* -- an expression in one unknown -------------------------------------------------------------- */

/* sum += factor * part */
static bool affine_add(struct size_affine *sum, int64_t factor, const struct size_affine *part)
{
    int64_t scaled, rest;
    if (__builtin_mul_overflow(part->factor, factor, &scaled) ||
        __builtin_mul_overflow(part->rest, factor, &rest) ||
        __builtin_add_overflow(sum->rest, rest, &sum->rest))
        return false;
    if (scaled == 0)
        return true;
    if (sum->factor != 0 && sum->symbol != part->symbol)
        return false;
    sum->symbol = part->symbol;
    return !__builtin_add_overflow(sum->factor, scaled, &sum->factor);
}

bool size_affine(const struct sizes *sizes, dim d, const bool *known, const int64_t *values,
                 struct size_affine *out)
{
    const struct size_node *n = &sizes->nodes.at[d];
    struct size_affine part, other;
    *out = (struct size_affine){.rest = n->kind == SIZE_PRODUCT ? 1 : n->literal};
    switch (n->kind) {
    case SIZE_LITERAL: return true;
    case SIZE_SYMBOL:
        *out = known && !known[n->symbol]
                   ? (struct size_affine){.symbol = n->symbol, .factor = 1}
                   : (struct size_affine){.symbol = n->symbol, .rest = values[n->symbol]};
        return true;
    case SIZE_SUM:
        for (int i = 0; i < n->count; i++)
            if (!size_affine(sizes, n->terms[i].term, known, values, &part) ||
                !affine_add(out, n->terms[i].factor, &part))
                return false;
        return true;
    case SIZE_PRODUCT:
        for (int i = 0; i < n->count; i++) {
            if (!size_affine(sizes, n->operands[i], known, values, &part) ||
                (part.factor != 0 && out->factor != 0))
                return false;
            const bool is_open = part.factor != 0;
            const struct size_affine open = is_open ? part : *out;
            const int64_t number = is_open ? out->rest : part.rest;
            *out = (struct size_affine){0};
            if (!affine_add(out, number, &open))
                return false;
        }
        return true;
    default:
        return size_affine(sizes, n->operands[0], known, values, &part) && part.factor == 0 &&
               size_affine(sizes, n->operands[1], known, values, &other) && other.factor == 0 &&
               size_binary_value(n->kind, part.rest, other.rest, &out->rest);
    }
}

/* -- solving ----------------------------------------------------------------------------------- */

static __int128 divide_down(__int128 a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static int64_t clamp(__int128 number, int64_t low, int64_t high)
{
    return number < low ? low : number > high ? high : (int64_t)number;
}

bool size_affine_solve(const struct sizes *sizes, const struct size_affine *affine, int64_t size,
                       int64_t *value)
{
    const struct size_symbol *symbol = &sizes->symbols.at[affine->symbol];
    const __int128 difference = (__int128)size - affine->rest,
                   quotient = difference / affine->factor;
    *value = clamp(quotient, symbol->low, symbol->high);
    return difference % affine->factor == 0 && quotient == *value;
}

void size_affine_range(const struct size_affine *affine, int64_t low, int64_t high, int64_t *from,
                       int64_t *to)
{
    const int64_t factor = affine->factor,
                  ends[2] = {factor > 0 ? low : high, factor > 0 ? high : low};
    *from = INT64_MIN;
    *to = INT64_MAX;
    if (ends[0] != INT64_MIN && ends[0] != INT64_MAX)
        *from = clamp(-divide_down((__int128)affine->rest - ends[0], factor), INT64_MIN, INT64_MAX);
    if (ends[1] != INT64_MIN && ends[1] != INT64_MAX)
        *to = clamp(divide_down((__int128)ends[1] - affine->rest, factor), INT64_MIN, INT64_MAX);
}

/* -- what would be right ----------------------------------------------------------------------- */

void size_print_range(int64_t low, int64_t high, struct text *out)
{
    if (high == INT64_MAX)
        text_format(out, "at least %" PRId64, low == INT64_MIN ? 0 : low);
    else
        text_format(out, "in %" PRId64 "..%" PRId64, low, high);
}

void size_print_right(const struct sizes *sizes, dim d, const struct size_affine *affine,
                      int64_t size, struct text *out)
{
    const struct size_symbol *symbol = &sizes->symbols.at[affine->symbol];
    const __int128 below = divide_down((__int128)size - affine->rest, affine->factor);
    const char *before = ", such as ";
    int64_t last = INT64_MIN;
    size_print(sizes, d, out);
    text_format(out, " with %s ", symbol->name);
    size_print_range(symbol->low, symbol->high, out);
    for (int i = 0; i < 2; i++) {
        const int64_t value = clamp(below + i, symbol->low, symbol->high);
        const __int128 near = (__int128)affine->factor * value + affine->rest;
        if (near < 0 || near > INT64_MAX || value == last)
            continue;
        text_format(out, "%s%" PRId64, before, (int64_t)near);
        before = " or ";
        last = value;
    }
}
