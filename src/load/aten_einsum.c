/* aten_einsum.c - einsum by permutes, products and dot, two operands at a time from the left.
 *
 *     "bshd,bthd->bhst"     b, h are in both and stay: leading dims; s, t in one each; d is summed:
 *                           dot(permute(x, [b, h, s, d]), permute(y, [b, h, d, t])) : [b, h, s, t]
 *     "i,j->ij"             nothing is summed: mul(x[i, 1], y[1, j])
 *
 * A term is a value with a letter for each dim. Dims that an ellipsis stands for get letters of
 * their own, counted from the last one, so that they broadcast. */
#include "load/aten.h"

#include <string.h>

enum { LETTERS = 128 }; /* 'A'..'z' as they are, 1.. for dims of the ellipsis */

struct term {
    value value;
    int rank;
    unsigned char letters[RANK_MAX];
};

static int place_in(const struct term *term, unsigned char letter)
{
    for (int d = 0; d < term->rank; d++)
        if (term->letters[d] == letter)
            return d;
    return -1;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* One operand's letters from *text up to , or - or the end. covered: dims that an ellipsis
 * stands for, -1: unknown. */
static bool letters_read(const char **text, struct term *term, int covered)
{
    const char *at = *text;
    term->rank = 0;
    for (; *at && *at != ',' && *at != '-'; at++) {
        if (*at == ' ')
            continue;
        if (strncmp(at, "...", 3) == 0) {
            for (int k = covered; k > 0 && term->rank < RANK_MAX; k--)
                term->letters[term->rank++] = (unsigned char)k;
            at += 2;
        } else if (!is_letter(*at) || term->rank == RANK_MAX) {
            return false;
        } else {
            term->letters[term->rank++] = (unsigned char)*at;
        }
    }
    *text = at;
    return true;
}

/* How many dims the ellipsis of an operand of this rank stands for. */
static int ellipsis_rank(const char *text, int rank)
{
    int letters = 0;
    bool found = false;
    for (const char *at = text; *at && *at != ',' && *at != '-'; at++) {
        letters += is_letter(*at);
        found = found || *at == '.';
    }
    return found ? rank - letters : 0;
}

/* Without "->": the ellipsis, then the letters that occur once, in the order of their codes. */
static void output_implicit(const struct term *terms, int count, int ellipsis, struct term *out)
{
    int seen[LETTERS] = {0};
    for (int i = 0; i < count; i++)
        for (int d = 0; d < terms[i].rank; d++)
            seen[terms[i].letters[d]]++;
    out->rank = 0;
    for (int k = ellipsis; k > 0 && out->rank < RANK_MAX; k--)
        out->letters[out->rank++] = (unsigned char)k;
    for (int letter = 'A'; letter < LETTERS && out->rank < RANK_MAX; letter++)
        if (seen[letter] == 1)
            out->letters[out->rank++] = (unsigned char)letter;
}

static bool equation_read(struct aten *a, const char *text, struct term *terms, int count,
                          struct term *out)
{
    int ellipsis = 0;
    for (int i = 0; i < count; i++) {
        const int rank = aten_rank(a, terms[i].value), covered = ellipsis_rank(text, rank);
        if (covered < 0 || !letters_read(&text, &terms[i], covered) || terms[i].rank != rank)
            return false;
        ellipsis = covered > ellipsis ? covered : ellipsis;
        if (i + 1 < count && *text++ != ',')
            return false;
    }
    if (*text == 0) {
        output_implicit(terms, count, ellipsis, out);
        return true;
    }
    text += 2;
    return text[-2] == '-' && text[-1] == '>' && letters_read(&text, out, ellipsis) && *text == 0;
}

/* -- computing --------------------------------------------------------------------------------- */

/* A letter that an operand has twice: its diagonal. */
static void diagonals_take(struct aten *a, struct term *term)
{
    for (int d = 0; d < term->rank; d++)
        for (int e = d + 1; e < term->rank; e++) {
            if (term->letters[d] != term->letters[e])
                continue;
            const struct attributes at = {.axes = (int[]){d, e}, .axis_count = 2};
            const unsigned char letter = term->letters[d];
            term->value = graph_add(a->graph, OP_diagonal, DT_bool, &term->value, 1, &at, NULL);
            memmove(term->letters + e, term->letters + e + 1, (size_t)(term->rank - e - 1));
            memmove(term->letters + d, term->letters + d + 1, (size_t)(term->rank - d - 2));
            term->rank--;
            term->letters[term->rank - 1] = letter;
            d = -1;
            break;
        }
}

/* Sums the dims whose letters nobody needs. */
static void unneeded_sum(struct aten *a, struct term *term, const bool *needed)
{
    int axes[RANK_MAX], count = 0, kept = 0;
    for (int d = 0; d < term->rank; d++)
        if (needed[term->letters[d]])
            term->letters[kept++] = term->letters[d];
        else
            axes[count++] = d;
    term->rank = kept;
    if (count)
        term->value = graph_reduce(a->graph, OP_sum, term->value, axes, count, false);
}

/* The term with one dim for each of the letters, in their order; size 1 where it has none. */
static value arranged(struct aten *a, const struct term *term, const unsigned char *letters,
                      int count)
{
    int order[RANK_MAX], used = 0;
    dim sizes[RANK_MAX];
    for (int i = 0; i < count; i++) {
        const int place = place_in(term, letters[i]);
        sizes[i] = place < 0 ? 1 : aten_shape(a, term->value)[place];
        if (place >= 0)
            order[used++] = place;
    }
    bool identity = true;
    for (int i = 0; i < used; i++)
        identity = identity && order[i] == i;
    const value turned = identity ? term->value : graph_permute(a->graph, term->value, order);
    return graph_reshape(a->graph, turned, sizes, count);
}

/* Letters in groups: in both and needed, in x alone, in y alone, in both and summed. */
struct groups {
    unsigned char letters[4][RANK_MAX];
    int count[4];
};
enum { BATCH, LEFT, RIGHT, SUMMED };

static void group_add(struct groups *g, int group, unsigned char letter)
{
    g->letters[group][g->count[group]++] = letter;
}

static void groups_fill(const struct aten *a, const struct term *x, const struct term *y,
                        const bool *needed, struct groups *g)
{
    *g = (struct groups){0};
    for (int d = 0; d < x->rank; d++) {
        const int other = place_in(y, x->letters[d]);
        /* where one side has size 1 it broadcasts: no dim of a matrix product */
        const bool one_sided =
            other < 0 || graph_dim(a->graph, x->value, d) != graph_dim(a->graph, y->value, other);
        group_add(g, one_sided ? LEFT : needed[x->letters[d]] ? BATCH : SUMMED, x->letters[d]);
    }
    for (int d = 0; d < y->rank; d++)
        if (place_in(x, y->letters[d]) < 0)
            group_add(g, RIGHT, y->letters[d]);
}

static dim group_size(struct aten *a, const struct term *term, const struct groups *g, int group)
{
    dim size = 1;
    for (int i = 0; i < g->count[group]; i++)
        size = size_mul(a->sizes, size,
                        aten_shape(a, term->value)[place_in(term, g->letters[group][i])]);
    return size;
}

/* [batch..., rows, columns] of a term, where rows and columns are groups flattened to one dim
 * each. */
static value as_matrix(struct aten *a, const struct term *term, const struct groups *g, int rows,
                       int columns)
{
    unsigned char letters[3 * RANK_MAX];
    dim sizes[RANK_MAX + 2];
    int count = 0;
    const int groups[3] = {BATCH, rows, columns};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < g->count[groups[i]]; k++)
            letters[count++] = g->letters[groups[i]][k];
    for (int k = 0; k < g->count[BATCH]; k++)
        sizes[k] = aten_shape(a, term->value)[place_in(term, g->letters[BATCH][k])];
    sizes[g->count[BATCH]] = group_size(a, term, g, rows);
    sizes[g->count[BATCH] + 1] = group_size(a, term, g, columns);
    return graph_reshape(a->graph, arranged(a, term, letters, count), sizes, g->count[BATCH] + 2);
}

static struct term pair_by_dot(struct aten *a, const struct term *x, const struct term *y,
                               const struct groups *g)
{
    struct term out = {0};
    dim sizes[3 * RANK_MAX];
    for (int group = BATCH; group <= RIGHT; group++)
        for (int k = 0; k < g->count[group] && out.rank < RANK_MAX; k++) {
            const struct term *owner = group == RIGHT ? y : x;
            sizes[out.rank] = aten_shape(a, owner->value)[place_in(owner, g->letters[group][k])];
            out.letters[out.rank++] = g->letters[group][k];
        }
    const value product = graph_map2(a->graph, OP_dot, as_matrix(a, x, g, LEFT, SUMMED),
                                     as_matrix(a, y, g, SUMMED, RIGHT));
    out.value = graph_reshape(a->graph, product, sizes, out.rank);
    return out;
}

/* All letters as dims, multiplied with broadcasting; what is not needed is summed afterwards. */
static struct term pair_by_product(struct aten *a, const struct term *x, const struct term *y,
                                   const struct groups *g)
{
    struct term out = {0};
    for (int group = BATCH; group <= SUMMED; group++)
        for (int k = 0; k < g->count[group] && out.rank < RANK_MAX; k++)
            out.letters[out.rank++] = g->letters[group][k];
    out.value = graph_map2(a->graph, OP_mul, arranged(a, x, out.letters, out.rank),
                           arranged(a, y, out.letters, out.rank));
    return out;
}

/* Where the letter stands in the result; behind all of it when it does not. */
static int place_in_result(const struct term *out, unsigned char letter)
{
    const int place = place_in(out, letter);
    return place < 0 ? RANK_MAX : place;
}

/* Each group in the order of the result, as eager has them in memory. */
static void groups_order(struct groups *g, const struct term *out)
{
    for (int group = BATCH; group <= RIGHT; group++)
        for (int i = 1; i < g->count[group]; i++)
            for (int k = i; k > 0 && place_in_result(out, g->letters[group][k]) <
                                         place_in_result(out, g->letters[group][k - 1]);
                 k--) {
                const unsigned char letter = g->letters[group][k];
                g->letters[group][k] = g->letters[group][k - 1];
                g->letters[group][k - 1] = letter;
            }
}

/* Whether all letters of y alone stand before all of x alone: then y is the left matrix. */
static bool right_comes_first(const struct groups *g, const struct term *out)
{
    const int last = g->count[RIGHT] - 1;
    return g->count[LEFT] && last >= 0 &&
           place_in_result(out, g->letters[RIGHT][last]) <
               place_in_result(out, g->letters[LEFT][0]);
}

static struct term pair_contract(struct aten *a, const struct term *x, const struct term *y,
                                 const bool *needed, const struct term *out)
{
    struct groups g;
    groups_fill(a, x, y, needed, &g);
    groups_order(&g, out);
    if (right_comes_first(&g, out)) {
        const struct term *const left = x;
        x = y;
        y = left;
        groups_fill(a, x, y, needed, &g);
        groups_order(&g, out);
    }
    bool broadcasts = g.count[SUMMED] == 0 || g.count[BATCH] + 2 > RANK_MAX;
    for (int k = 0; k < g.count[LEFT]; k++)
        broadcasts = broadcasts || place_in(y, g.letters[LEFT][k]) >= 0;
    if (g.count[BATCH] + g.count[LEFT] + g.count[RIGHT] + g.count[SUMMED] > RANK_MAX)
        aten_refuse(a, "more than %d letters", RANK_MAX);
    return broadcasts ? pair_by_product(a, x, y, &g) : pair_by_dot(a, x, y, &g);
}

/* Letters of the result and of the terms from `first` on. */
static void needed_mark(const struct term *terms, int first, int count, const struct term *out,
                        bool needed[LETTERS])
{
    memset(needed, 0, LETTERS);
    for (int d = 0; d < out->rank; d++)
        needed[out->letters[d]] = true;
    for (int i = first; i < count; i++)
        for (int d = 0; d < terms[i].rank; d++)
            needed[terms[i].letters[d]] = true;
}

static value einsum(struct aten *a, struct term *terms, int count, const struct term *out)
{
    bool needed[LETTERS];
    for (int i = 0; i < count; i++)
        diagonals_take(a, &terms[i]);
    struct term all = terms[0];
    for (int i = 1; i < count && !a->reason; i++) {
        needed_mark(terms, i, count, out, needed);
        unneeded_sum(a, &all, needed);
        needed_mark(terms, i + 1, count, out, needed);
        for (int d = 0; d < all.rank; d++)
            needed[all.letters[d]] = true;
        unneeded_sum(a, &terms[i], needed);
        needed_mark(terms, i + 1, count, out, needed);
        all = pair_contract(a, &all, &terms[i], needed, out);
    }
    needed_mark(terms, count, count, out, needed);
    unneeded_sum(a, &all, needed);
    return arranged(a, &all, out->letters, out->rank);
}

/* equation, tensors, path=None */
void build_einsum(struct aten *a)
{
    const struct argument *list = aten_list(a, 1);
    struct term *terms = NEW(a->graph->arena, struct term, list->count + 1), out = {0};
    if (!terms) {
        graph_fail(a->graph, fail_memory(), "out of memory");
        return;
    }
    for (int i = 0; i < list->count; i++)
        terms[i].value = tensor_get(a->loader, list->tensors[i]);
    if (list->count < 1 || !equation_read(a, aten_string(a, 0), terms, list->count, &out))
        aten_refuse(a, "the equation %s does not fit its operands", aten_string(a, 0));
    else
        aten_new(a, einsum(a, terms, list->count, &out));
}
