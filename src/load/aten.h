/* aten.h - what the builders of ATen calls share: a call's arguments by their place in the row,
 * promotion, results.
 *
 *     ATEN("aten.add.Tensor", "self, other, alpha=1", add, add)      a row of aten.def
 *     void build_add(struct aten *a) { ... aten_new(a, v); }         its builder: reads arguments
 *                                                                    0, 1, 2, adds nodes, hands
 *                                                                    each result back
 *
 * A builder never returns a status. Trouble with memory sticks in the graph; what Phasor cannot do
 * goes to aten_refuse(), and the call then becomes `unknown` nodes and a refusal, whatever the
 * builder does after that: it adds no more nodes, and each value that it makes is 0. So does a node
 * that cannot be made of its operands: no rank, size or dtype makes a file a damaged one. */
#pragma once
#include "load/loader.h"

enum { ATEN_ARGUMENTS = 20 };

struct aten {
    struct loader *loader;
    struct graph *graph;
    struct sizes *sizes;
    struct call *call;
    enum op op;                                /* of the row */
    int number;                                /* of the row */
    struct argument arguments[ATEN_ARGUMENTS]; /* in the order of the row, defaults filled in */
    bool copy;                                 /* a view_copy spelling: results share no memory */
    bool in_place;                             /* result 0 is written into argument 0 */
    value first;                               /* nodes from here on were added by this call */
    int produced;                              /* results handed back so far */
    /* The call's origin, for nodes that the user did not write */
    const struct origin *implied;
    const char *reason; /* why the call is refused; NULL: it is not */
    bool damaged;       /* by a region that could not be read: trouble with the file, no refusal */
};

/* Refuses the call; the first reason stays. */
void aten_refuse(struct aten *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -- arguments: by position in the row --------------------------------------------------------- */

bool aten_given(const struct aten *a, int index); /* not None */
tensor aten_tensor(struct aten *a, int index);
/* A tensor's value; a number becomes a 0-dim node */
value aten_value(struct aten *a, int index);
dim aten_size(struct aten *a, int index);
int64_t aten_int(struct aten *a, int index); /* refuses what depends on a size */
double aten_float(struct aten *a, int index);
bool aten_flag(struct aten *a, int index);
/* A list of tensors, at least one; otherwise an empty one, and the graph has failed. */
const struct argument *aten_list(struct aten *a, int index);
const char *aten_string(struct aten *a, int index); /* "" when it is not given */
enum dtype aten_dtype(struct aten *a, int index, enum dtype fallback);
/* FORMAT_PRESERVE when it is not given */
enum memory_format aten_format(struct aten *a, int index);
int aten_sizes(struct aten *a, int index, dim sizes[RANK_MAX]);
/* Made non-negative; a 0-dim tensor counts as rank 1 */
int aten_axis(struct aten *a, int index, int rank);
/* One axis or a list; None and, with empty_is_all, an empty list mean all. Returns how many;
 * each is < rank. */
int aten_axes(struct aten *a, int index, int rank, bool empty_is_all, int axes[RANK_MAX]);
int axis_normalise(struct aten *a, int64_t axis, int rank);

/* -- values ------------------------------------------------------------------------------------ */

static inline int aten_rank(const struct aten *a, value v)
{
    return graph_node(a->graph, v)->rank;
}
/* A 0-dim tensor counts as one of size 1 along whatever dim is asked for, as in aten_axis(). */
static inline const dim *aten_shape(const struct aten *a, value v)
{
    static const dim ones[RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct node *node = graph_node(a->graph, v);
    return node->rank ? node->shape : ones;
}
static inline enum dtype aten_type(const struct aten *a, value v)
{
    return graph_node(a->graph, v)->dtype;
}
static inline dim aten_literal(struct aten *a, int64_t number)
{
    return size_literal(a->sizes, number);
}

value aten_cast(struct aten *a, value v, enum dtype dtype); /* an implied cast */
value aten_wide(struct aten *a, value v);                   /* f16 and bf16 as f32 */
enum dtype aten_inexact(enum dtype dtype);                  /* f32 for bool and integers */
/* Exact as far as the compute type is */
value aten_number(struct aten *a, enum dtype dtype, double number);
/* New memory filled with a 0-dim value */
value aten_full(struct aten *a, value scalar, const dim *sizes, int rank);
value aten_clone(struct aten *a, value v, enum memory_format format);
/* A 0-dim tensor as one of a single element: how eager's operators along an axis see it. */
value aten_with_axis(struct aten *a, value v);
/* The tensor that an operator starts from when its result is row-major and it writes into that */
value aten_row_major(struct aten *a, value v);
/* v, which has the shape of `pattern`, with its order of dims */
value aten_laid_out_as(struct aten *a, value pattern, value v);
/* Product of the sizes of these axes */
dim aten_count(struct aten *a, value v, const int *axes, int count);
/* Merges a shape into one that it broadcasts with, aligned at the last dim. */
int aten_broadcast(struct aten *a, dim *shape, int rank, const dim *other, int other_rank);

/* -- promotion --------------------------------------------------------------------------------- */

/* A tensor or Python number as an operand. Numbers promote last and never widen within their
 * category. */
struct operand {
    value value; /* 0: the number is a literal */
    struct number number;
    enum dtype dtype; /* of a number: bool, i64, f32, c64 */
    bool is_number;
};
struct operand aten_operand(struct aten *a, int index);
struct operand operand_of(struct aten *a, value v);
enum dtype aten_promote(struct aten *a, const struct operand *operands, int count);
/* As eager takes most numbers: a literal is rounded to the dtype. */
value aten_as(struct aten *a, struct operand operand, enum dtype dtype);
/* As products and quotients take them: an f16 or bf16 operation sees the literal in f32. */
value aten_as_written(struct aten *a, struct operand operand, enum dtype dtype);
enum { PAIR_INEXACT = 1, PAIR_AS_WRITTEN = 2 };
/* Arguments x and y as the promoted dtype; with PAIR_INEXACT integers become f32, with
 * PAIR_AS_WRITTEN numbers stay as aten_as_written() gives them. */
enum dtype aten_pair(struct aten *a, int x, int y, int how, value out[2]);

/* -- results, in order ------------------------------------------------------------------------- */

/* Memory of its own; in place: written into argument 0 */
void aten_new(struct aten *a, value v);
/* As aten_new, row-major whatever the operands are */
void aten_new_row_major(struct aten *a, value v);
/* Alias nodes over the base; a _copy spelling clones */
void aten_view(struct aten *a, tensor base, value v);
/* A reshape or contiguous of the base, which copies or not as the strides are */
void aten_fork(struct aten *a, tensor base, value v);
void aten_same(struct aten *a, tensor t);  /* the tensor itself */
void aten_known(struct aten *a, dim size); /* an int or bool made of sizes */
/* A condition on sizes that must hold at each call; what always holds is dropped. */
void aten_check(struct aten *a, dim condition, const char *message);
/* All results were filled in by a region: names them */
void aten_results_named(struct aten *a);

/* -- helpers that families share --------------------------------------------------------------- */

/* Whether the value lies in memory without gaps: its dims from the outermost in, a claim from now
 * on. */
bool aten_order(struct aten *a, value v, int order[RANK_MAX]);
value reduce_mean(struct aten *a, value v, const int *axes, int count, bool keep);
value reduce_variance(struct aten *a, value v, const int *axes, int count, bool keep,
                      double correction);
void pad_by_itself(struct aten *a, const char *mode); /* reflect, replicate, circular */
value matrix_product(struct aten *a, value x, value y);
value index_integer(struct aten *a, value index); /* small integer types as i64 */

/* Builders, one for each name in aten.def. */
#define ATEN(target, arguments, builder, op) void build_##builder(struct aten *a);
#define ATEN_NUMBER(target, arguments, builder, number) void build_##builder(struct aten *a);
#define REFUSED(operator, reason)
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
