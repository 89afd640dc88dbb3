/* test_verify.c - the verifier of plans: plans hold what they promise, and each way of breaking one
 * by hand is named. (That of graphs: test_graph.c.)
 *
 *     a real plan, of which the first step is dropped     "reads work buffer 3 (a), which no step
 *                                                         before it wrote"
 */
#include "base/verify.h"
#include "support/graph_run.h"
#include "support/leak.h"
#include "support/rewritten.h"
#include "support/world.h"

#include <signal.h>
#include <stdio.h>

#define CHAIN                                                                                      \
    "phasor 1 \"v\"\nsymbol n in 1..64 = 6\ninput x: f32[4, n]\ninput y: f32[4, n]\n"              \
    "i = iota sizes=[n]\nf = cast(i) : f32[n]\ne = exp(f)\nt = cumsum(e) axis=0\n"                 \
    "a = cumsum(x) axis=0\nb = cumsum(a) axis=1\nm = mul(b, t)\nc = cumsum(m) axis=0\nd = add(c, " \
    "a)\noutput d\nwrite y = b\n"
#define PRODUCT                                                                              \
    "phasor 1 \"v\"\ninput x: f32[10, 64]\ninput w: f32[64, 48]\na = add(x, x)\np = dot(a, " \
    "w)\nz = exp(p)\noutput z\n"

struct planned {
    struct rewritten graphs;
    struct graph_run run;
    struct plan plan;
};

static phasor_status planned_open(struct planned *p, const char *text, struct plan_options options)
{
    rewritten_open(&p->graphs, text, PHASOR_RULES_ALL, true);
    graph_run_open(&p->run, &p->graphs.loaded, &p->graphs.real);
    for (int i = 0; i < p->run.call.input_count; i++)
        graph_run_input(&p->run, i, RUN_CONTIGUOUS, 3 + (uint64_t)i);
    return plan_make(p->run.logical, p->run.real, &p->run.call, &options, &p->plan);
}

static void planned_close(struct planned *p)
{
    plan_free(&p->plan);
    graph_run_close(&p->run);
    rewritten_close(&p->graphs);
}

/* -- ways to break one ------------------------------------------------------------------------- */

static struct step *step_of(struct plan *plan, enum step_kind kind, bool hoisted)
{
    for (size_t i = 0; i < plan->steps.count; i++)
        if (plan->steps.at[i].kind == kind && plan->steps.at[i].hoisted == hoisted)
            return &plan->steps.at[i];
    cr_assert_fail("no such step");
    return NULL;
}

/* The n-th buffer of a kind, from 0. */
static struct buffer *buffer_of(struct plan *plan, enum buffer_kind kind, int n)
{
    for (size_t i = 0; i < plan->buffers.count; i++)
        if (plan->buffers.at[i].kind == kind && n-- == 0)
            return &plan->buffers.at[i];
    cr_assert_fail("no such buffer");
    return NULL;
}

static void drop(struct plan *plan, size_t at)
{
    memmove(&plan->steps.at[at], &plan->steps.at[at + 1],
            (--plan->steps.count - at) * sizeof *plan->steps.at);
}

/* The first step that writes a buffer of this kind. */
static size_t writer(struct plan *plan, enum buffer_kind kind)
{
    for (size_t i = 0; i < plan->steps.count; i++)
        for (int w = 0; w < plan->steps.at[i].write_count; w++)
            if (plan->buffers.at[plan->steps.at[i].writes[w]].kind == kind)
                return i;
    cr_assert_fail("no such step");
    return 0;
}

/* clang-format off: one line each */
static void drop_work(struct plan *p)
{
    drop(p, writer(p, BUFFER_WORK));
}
static void drop_table(struct plan *p)
{
    drop(p, writer(p, BUFFER_TABLE));
}
static void drop_output(struct plan *p)
{
    drop(p, writer(p, BUFFER_OUTPUT));
}
static void drop_change(struct plan *p)
{
    drop(p, writer(p, BUFFER_INPUT));
}
static void swap(struct plan *p)
{
    const size_t first = writer(p, BUFFER_WORK);
    for (size_t i = first, j = p->steps.count - 1; i < j; i++, j--) {
        const struct step step = p->steps.at[i];
        p->steps.at[i] = p->steps.at[j];
        p->steps.at[j] = step;
    }
}
static void overlap(struct plan *p)
{
    buffer_of(p, BUFFER_WORK, 1)->offset = buffer_of(p, BUFFER_WORK, 0)->offset;
}
static void unaligned(struct plan *p)
{
    buffer_of(p, BUFFER_WORK, 0)->offset += 4;
}
static void behind(struct plan *p)
{
    p->work_bytes = 0;
}
static void behind_table(struct plan *p)
{
    p->table_bytes -= 256;
}
static void nbytes(struct plan *p)
{
    buffer_of(p, BUFFER_WORK, 0)->nbytes += 4;
}
static void stride(struct plan *p)
{
    buffer_of(p, BUFFER_OUTPUT, 0)->strides[0] = 1;
}
static void order(struct plan *p)
{
    buffer_of(p, BUFFER_OUTPUT, 0)->order[0] = 1;
}
static void alignment(struct plan *p)
{
    buffer_of(p, BUFFER_INPUT, 0)->alignment = 3;
}
static void better_aligned(struct plan *p)
{
    buffer_of(p, BUFFER_WORK, 0)->alignment = 8;
}
static void base(struct plan *p)
{
    buffer_of(p, BUFFER_INPUT, 0)->base++;
}
static void slot_index(struct plan *p)
{
    buffer_of(p, BUFFER_INPUT, 0)->index = 7;
}
static void memory(struct plan *p)
{
    p->memories[0] -= 4;
}
static void output_index(struct plan *p)
{
    p->outputs[0].index = 3;
}
static void output_offset(struct plan *p)
{
    p->outputs[0].offset = 1;
}
static void unhoisted(struct plan *p)
{
    step_of(p, STEP_KERNEL, true)->hoisted = false;
}
static void hoisted(struct plan *p)
{
    struct step *step = &p->steps.at[writer(p, BUFFER_WORK)];
    step->hoisted = p->kernels.at[step->kernel.first].setup = true;
}
static void kernel_range(struct plan *p)
{
    step_of(p, STEP_KERNEL, false)->kernel.first = 99;
}
static void kernel_stores(struct plan *p)
{
    step_of(p, STEP_KERNEL, false)->write_count = 0;
}
static void no_buffer(struct plan *p)
{
    step_of(p, STEP_KERNEL, false)->reads[0].buffer = 99;
}
static void other_value(struct plan *p)
{
    step_of(p, STEP_KERNEL, false)->reads[0].node++;
}
static void elementwise(struct plan *p)
{
    step_of(p, STEP_KERNEL, false)->reads[0].elementwise = 0;
}
static void value_nowhere(struct plan *p)
{
    p->buffer_of[1] = 99;
}
static void larger_matrix(struct plan *p)
{
    step_of(p, STEP_LIBRARY, false)->library.matmul.m++;
}
static void operand_offset(struct plan *p)
{
    step_of(p, STEP_LIBRARY, false)->library.offsets[1] = 64;
}
static void operand_type(struct plan *p)
{
    step_of(p, STEP_LIBRARY, false)->library.matmul.type = LIBRARY_F64;
}
static void operand(struct plan *p)
{
    step_of(p, STEP_LIBRARY, false)->library.operands[0] =
        step_of(p, STEP_LIBRARY, false)->library.scratch;
}
static void copy_bytes(struct plan *p)
{
    step_of(p, STEP_COPY, false)->copy.nbytes -= 4;
}
static void copy_from(struct plan *p)
{
    step_of(p, STEP_COPY, false)->copy.from = step_of(p, STEP_COPY, false)->copy.to;
}
/* clang-format on */

static const struct {
    const char *text;
    void (*break_it)(struct plan *);
    const char *message;
} breakages[] = {
    {CHAIN, drop_work, "which no step before it wrote"},
    {CHAIN, drop_table, "reads table buffer"},
    {CHAIN, drop_output, "output buffer 2 (d): no step leaves in it what it is to hold"},
    {CHAIN, drop_change, "no step leaves b in input 1"},
    {CHAIN, swap, "which no step before it wrote"},
    {CHAIN, overlap, "share bytes in steps"},
    {CHAIN, unaligned, "begins at no multiple"},
    {CHAIN, behind, "ends behind the memory that it is in"},
    {CHAIN, behind_table, "ends behind the memory that it is in"},
    {CHAIN, nbytes, "bytes; its sizes and strides need 96"},
    {CHAIN, stride, "(d): has 96 bytes; its sizes and strides need"},
    {CHAIN, order, "its order names not every dim once"},
    {CHAIN, alignment, "its alignment is no power of two"},
    {CHAIN, better_aligned, "is not aligned to 16 bytes"},
    {CHAIN, base, "input buffer 0 (x): has no such base"},
    {CHAIN, slot_index, "is of a slot, node or memory that there is not"},
    {CHAIN, memory, "is larger than the memory that it is in"},
    {CHAIN, output_index, "output 0: is in memory 3; there are 1"},
    {CHAIN, output_offset, "output 0: ends behind its memory"},
    {CHAIN, unhoisted, "differ in how often they run"},
    {CHAIN, hoisted, "is hoisted, but reads input buffer 0 (x), which is of the call"},
    {CHAIN, kernel_range, "is of kernels that there are not"},
    {CHAIN, kernel_stores, "writes another number of buffers than its kernels store"},
    {CHAIN, no_buffer, "reads a buffer that there is not"},
    {CHAIN, other_value, "holds another value then"},
    {CHAIN, elementwise, "is said to be read for the same elements"},
    {CHAIN, value_nowhere, "x is in a buffer that there is not"},
    {CHAIN, copy_bytes, "copies between buffers of other sizes"},
    {CHAIN, copy_from, "copies what it does not read"},
    {PRODUCT, larger_matrix, "which ends before the operand does"},
    {PRODUCT, operand_offset, "which ends before the operand does"},
    {PRODUCT, operand_type, "which has another dtype"},
    {PRODUCT, operand, "its operands are not among what it reads and writes"},
};

Test(verify, names_what_is_broken)
{
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++) {
        struct planned p;
        const struct plan_options options = {.libraries = LIBRARY_CUBLASLT};
        cr_assert_eq(planned_open(&p, breakages[i].text, options), PHASOR_OK, "%s", message_get());
        cr_assert_eq(plan_verify(&p.plan, &p.run.call), PHASOR_OK, "%s", message_get());
        breakages[i].break_it(&p.plan);
        const phasor_status status = plan_verify(&p.plan, &p.run.call);
        cr_expect_eq(status, PHASOR_ERROR_COMPILE, "breakage %zu: '%s' was not seen", i,
                     breakages[i].message);
        cr_expect(strstr(message_get(), breakages[i].message), "breakage %zu: '%s' instead of '%s'",
                  i, message_get(), breakages[i].message);
        planned_close(&p);
    }
    ASSERT_NO_LEAKS();
}

/* -- plans that it found faults in ------------------------------------------------------------- */

/* An output of the call cannot be there when a table is filled. */
Test(verify, tables_read_no_outputs)
{
    struct planned p;
    const phasor_status status = planned_open(
        &p,
        "phasor 1 \"v\"\nsymbol n in 1..64 = 8\ninput x: f32[n]\ni = iota sizes=[n]\n"
        "f = cast(i) : f32[n]\ne = exp(f)\ns = cumsum(e) axis=0\nz = mul(s, x)\noutput e\n"
        "output z\n",
        (struct plan_options){.generic = true});
    cr_assert_eq(status, PHASOR_OK, "%s", message_get());
    cr_assert_eq(plan_verify(&p.plan, &p.run.call), PHASOR_OK, "%s", message_get());
    planned_close(&p);
    ASSERT_NO_LEAKS();
}

/* What a scatter begins with is copied after it was stored, not by other blocks of that launch. */
Test(verify, the_base_of_a_scatter_is_there_before_it_is_copied)
{
    struct planned p;
    const phasor_status status = planned_open(
        &p,
        "phasor 1 \"v\"\ninput x: f32[1, 16]\ninput i: i64[1, 12]\nl = log(x)\n"
        "v = scalar value=-1 : f32[]\nw = expand(v) sizes=[1, 12]\n"
        "s = scatter(l, i, w) axis=1 flag=0\ne = expand(l) sizes=[2, 2, 16]\na = acosh(e)\n"
        "output s\noutput a\n",
        (struct plan_options){0});
    cr_assert_eq(status, PHASOR_OK, "%s", message_get());
    cr_assert_eq(plan_verify(&p.plan, &p.run.call), PHASOR_OK, "%s", message_get());
    planned_close(&p);
    ASSERT_NO_LEAKS();
}

/* -- what becomes of it ------------------------------------------------------------------------ */

Test(verify, memory_that_ran_out_is_no_fault)
{
    cr_assert_eq(verify_result(fail_memory(), "fold"), PHASOR_ERROR_MEMORY);
    cr_assert_eq(verify_result(PHASOR_OK, "fold"), PHASOR_OK);
}

#ifdef PHASOR_CHECKED
Test(verify, ends_a_process_that_is_checked, .signal = SIGABRT)
{
    struct world w;
    world_parse(&w, "phasor 1 \"v\"\ninput a: f32[4]\nb = exp(a)\noutput b\n");
    w.graph.nodes.at[w.graph.outputs.at[0].node].dtype = DT_f64;
    graph_verify_after(&w.graph, "fold");
}
#endif
