/* show.c - the stages of a program as text.
 *
 *     loaded, real   the graph in the text form, which can be run
 *     plan           kernels, buffers, outputs: a table, or JSON
 *     cuda, ptx      what is compiled, each kernel under a comment that says where it comes from
 *
 * Nothing is looked up in the cache or put there: what is shown is what would be made now.
 */
#include "specialise/specialise.h"

#include <inttypes.h>
#include <string.h>

/* -- plan -------------------------------------------------------------------------------------- */

static const char *buffer_kind_text(enum buffer_kind kind)
{
    static const char *const texts[] = {"input", "state", "data", "output",
                                        "slot",  "work",  "table"};
    return texts[kind];
}

static const char *memory_kind_text(enum memory_kind kind)
{
    static const char *const texts[] = {"fresh", "input", "state", "data"};
    return texts[kind];
}

static void dims_print(const struct plan *plan, const dim *dims, int rank, struct text *out)
{
    text_add(out, "[");
    for (int d = 0; d < rank; d++)
        text_format(out, "%s%" PRId64, d ? ", " : "", size_value(&plan->sizes, dims[d]));
    text_add(out, "]");
}

static void numbers_print(const int64_t *numbers, int rank, struct text *out)
{
    text_add(out, "[");
    for (int d = 0; d < rank; d++)
        text_format(out, "%s%" PRId64, d ? ", " : "", numbers[d]);
    text_add(out, "]");
}

static const char *step_kind_text(enum step_kind kind)
{
#define STEP_TEXT(name, text) [STEP_##name] = text,
    static const char *const texts[STEP_KINDS] = {STEP_KIND_ROWS(STEP_TEXT)};
#undef STEP_TEXT
    return texts[kind];
}

static const char *step_name(const struct plan *plan, const struct step *step)
{
    return step->kind == STEP_KERNEL    ? plan->kernels.at[step->kernel.index].name
           : step->kind == STEP_LIBRARY ? "cublaslt_matmul"
                                        : step_kind_text(step->kind);
}

static const char *step_operators(const struct plan *plan, const struct step *step)
{
    if (step->kind == STEP_KERNEL)
        return plan->kernels.at[step->kernel.index].operators;
    const value v = plan_buffer(plan, step->writes[0])->node;
    return op_info[graph_node(&plan->graph, v)->op].name;
}

static void plan_print_steps(const struct plan *plan, struct text *out)
{
    int64_t bytes = 0;
    text_format(out, "steps\n");
    for (size_t s = 0; s < plan->steps.count; s++) {
        const struct step *step = &plan->steps.at[s];
        const int64_t moved = step_bytes(plan, step);
        text_format(out, "  %-7s %-40s ", step_kind_text(step->kind), step_name(plan, step));
        if (step->kind == STEP_KERNEL) {
            const struct kernel *kernel = &plan->kernels.at[step->kernel.index];
            text_format(out, "%8u x %-4u", plan_grid(plan, kernel), kernel->block);
        } else {
            text_format(out, "%15s", "");
        }
        text_format(out, " %12" PRId64 " bytes  %s%s\n", moved, step_operators(plan, step),
                    step->hoisted ? " (once)" : "");
        bytes += step->hoisted ? 0 : moved;
    }
    text_format(out, "  %" PRId64 " bytes are moved in a call\n", bytes);
}

static void plan_print(const struct plan *plan, struct text *out)
{
    plan_print_steps(plan, out);
    text_add(out, "buffers\n");
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct buffer *buffer = &plan->buffers.at[b];
        text_format(out, "  %-6s %4d  %s", buffer_kind_text(buffer->kind), buffer->index,
                    dtype_text(buffer->dtype));
        dims_print(plan, buffer->sizes, buffer->rank, out);
        text_add(out, " strides ");
        dims_print(plan, buffer->strides, buffer->rank, out);
        text_format(out, ", %" PRId64 " bytes at %" PRId64 ", aligned to %d\n", buffer->nbytes,
                    buffer->offset, buffer->alignment);
    }
    text_add(out, "outputs\n");
    for (int i = 0; i < plan->output_count; i++) {
        const struct plan_output *output = &plan->outputs[i];
        text_format(out, "  %4d  ", i);
        if (!output->tensor) {
            text_format(out, "no tensor\n");
            continue;
        }
        text_add(out, dtype_text(output->dtype));
        numbers_print(output->sizes, output->rank, out);
        text_add(out, " strides ");
        numbers_print(output->strides, output->rank, out);
        text_format(out, ", %s %d\n", memory_kind_text(output->memory), output->index);
    }
    text_format(out, "workspace %" PRId64 " bytes, tables %" PRId64 " bytes\n", plan->work_bytes,
                plan->table_bytes);
}

static void json_kernels(const struct plan *plan, struct text *out)
{
    text_add(out, "{\"kernels\": [");
    for (size_t k = 0; k < plan->kernels.count; k++) {
        const struct kernel *kernel = &plan->kernels.at[k];
        text_add(out, k ? ", {\"name\": " : "{\"name\": ");
        text_add_json_string(out, kernel->name);
        text_add(out, ", \"operators\": ");
        text_add_json_string(out, kernel->operators);
        text_format(out,
                    ", \"bytes\": %" PRId64
                    ", \"setup\": %s, \"gains\": %s, \"grid\": %u, \"block\": %u, \"buffers\": [",
                    plan_size(plan, kernel->bytes), kernel->setup ? "true" : "false",
                    kernel->gains ? "true" : "false", plan_grid(plan, kernel), kernel->block);
        for (int i = 0, shown = 0; i < kernel->argument_count; i++)
            if (kernel->arguments[i].kind == ARGUMENT_BUFFER)
                text_format(out, "%s%d", shown++ ? ", " : "", kernel->arguments[i].buffer);
        text_add(out, "]}");
    }
    text_add(out, "]");
}

static void json_steps(const struct plan *plan, struct text *out)
{
    int library_calls = 0;
    text_add(out, ", \"steps\": [");
    for (size_t s = 0; s < plan->steps.count; s++) {
        const struct step *step = &plan->steps.at[s];
        const struct buffer *first = plan_buffer(plan, step->writes[0]);
        text_format(out, "%s{\"kind\": \"%s\", \"name\": ", s ? ", " : "",
                    step_kind_text(step->kind));
        text_add_json_string(out, step_name(plan, step));
        text_add(out, ", \"operators\": ");
        text_add_json_string(out, step_operators(plan, step));
        text_format(out, ", \"bytes\": %" PRId64 ", \"hoisted\": %s, \"shape\": ",
                    step_bytes(plan, step), step->hoisted ? "true" : "false");
        dims_print(plan, first->sizes, first->rank, out);
        text_add(out, ", \"reads\": [");
        for (int i = 0; i < step->read_count; i++)
            text_format(out, "%s%d", i ? ", " : "", step->reads[i].buffer);
        text_add(out, "], \"writes\": [");
        for (int i = 0; i < step->write_count; i++)
            text_format(out, "%s%d", i ? ", " : "", step->writes[i]);
        text_format(out, "], \"workspace\": %d}",
                    step->kind == STEP_LIBRARY ? MATMUL_WORKSPACE : 0);
        library_calls += step->kind == STEP_LIBRARY;
    }
    text_format(out, "], \"library_calls\": %d", library_calls);
}

static void json_outputs(const struct plan *plan, struct text *out)
{
    text_add(out, ", \"outputs\": [");
    for (int i = 0; i < plan->output_count; i++) {
        const struct plan_output *output = &plan->outputs[i];
        text_add(out, i ? ", {" : "{");
        if (output->tensor) {
            text_format(out, "\"dtype\": \"%s\", \"sizes\": ", dtype_text(output->dtype));
            numbers_print(output->sizes, output->rank, out);
            text_add(out, ", \"strides\": ");
            numbers_print(output->strides, output->rank, out);
            text_format(out, ", \"offset\": %" PRId64 ", \"memory\": \"%s\", \"index\": %d",
                        output->offset, memory_kind_text(output->memory), output->index);
        }
        text_add(out, "}");
    }
    text_add(out, "]");
}

static void plan_print_json(const struct plan *plan, struct text *out)
{
    json_kernels(plan, out);
    text_add(out, ", \"buffers\": [");
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct buffer *buffer = &plan->buffers.at[b];
        text_format(out, "%s{\"kind\": \"%s\", \"index\": %d, \"dtype\": \"%s\", \"sizes\": ",
                    b ? ", " : "", buffer_kind_text(buffer->kind), buffer->index,
                    dtype_text(buffer->dtype));
        dims_print(plan, buffer->sizes, buffer->rank, out);
        text_add(out, ", \"strides\": ");
        dims_print(plan, buffer->strides, buffer->rank, out);
        text_format(out, ", \"bytes\": %" PRId64 ", \"offset\": %" PRId64 ", \"alignment\": %d}",
                    buffer->nbytes, buffer->offset, buffer->alignment);
    }
    text_add(out, "]");
    json_steps(plan, out);
    json_outputs(plan, out);
    text_format(out, ", \"workspace\": %" PRId64 ", \"tables\": %" PRId64 "}\n", plan->work_bytes,
                plan->table_bytes);
}

/* -- sources ----------------------------------------------------------------------------------- */

static bool origin_said_before(const struct plan *plan, const struct kernel *kernel, int before)
{
    const struct origin *origin = graph_node(&plan->graph, kernel->values[before])->origin;
    for (int i = 0; i < before; i++) {
        const struct origin *other = graph_node(&plan->graph, kernel->values[i])->origin;
        if (other && other->target &&
            (other == origin ||
             (strcmp(other->target, origin->target) == 0 &&
              strcmp(other->line ? other->line : "", origin->line ? origin->line : "") == 0)))
            return true;
    }
    return false;
}

/* A line of the file may hold what ends a comment. */
static void comment_add(struct text *out, const char *string)
{
    for (const char *s = string; *s; s++) {
        const char letter[2] = {*s == '\n' ? ' ' : *s, '\0'};
        text_add(out, letter);
        if (s[0] == '*' && s[1] == '/')
            text_add(out, " ");
    }
}

static void kernel_header(const struct plan *plan, const struct kernel *kernel, struct text *out)
{
    text_format(out, "/* %s: %s\n", kernel->name, kernel->operators);
    for (int i = 0; i < kernel->value_count; i++) {
        const struct origin *origin = graph_node(&plan->graph, kernel->values[i])->origin;
        if (!origin || !origin->target || origin_said_before(plan, kernel, i))
            continue;
        text_add(out, " *   ");
        comment_add(out, origin->target);
        if (origin->line) {
            text_add(out, "  ");
            comment_add(out, origin->line);
        }
        text_add(out, "\n");
    }
    text_format(out, " * %u blocks of %u threads%s */\n", plan_grid(plan, kernel), kernel->block,
                kernel->setup ? ", once for these sizes" : "");
}

static phasor_status ptx_print(struct phasor_runtime *runtime, const struct kernel *kernel,
                               struct text *out)
{
    const struct compile_request request = {
        .name = kernel->name, .source = kernel->source, .arch = runtime->arch, .want_ptx = true};
    struct compiler *compiler;
    struct compile_result result = {0};
    if (runtime->options.no_compile)
        return fail(PHASOR_NOT_READY, "PTX is made by compiling, which is forbidden");
    TRY(runtime_compiler(runtime, &compiler));
    TRY(compiler_run(compiler, &request, &result));
    text_add(out, result.ptx ? result.ptx : "");
    compile_result_free(&result);
    return PHASOR_OK;
}

static phasor_status sources_print(struct phasor_runtime *runtime, const struct plan *plan,
                                   bool ptx, struct text *out)
{
    for (size_t k = 0; k < plan->kernels.count; k++) {
        const struct kernel *kernel = &plan->kernels.at[k];
        kernel_header(plan, kernel, out);
        if (ptx)
            TRY(ptx_print(runtime, kernel, out));
        else
            text_add(out, kernel->source);
        text_add(out, "\n");
    }
    return PHASOR_OK;
}

/* -- all stages -------------------------------------------------------------------------------- */

static phasor_status planned_print(struct phasor_program *program, const char *stage, bool json,
                                   const struct plan *plan, struct text *out)
{
    if (strcmp(stage, "plan") != 0)
        return sources_print(program->runtime, plan, strcmp(stage, "ptx") == 0, out);
    if (json)
        plan_print_json(plan, out);
    else
        plan_print(plan, out);
    return PHASOR_OK;
}

static phasor_status show_planned(struct phasor_program *program, const char *stage, bool json,
                                  const phasor_value *inputs, int count, struct text *out)
{
    struct call call;
    struct plan plan = {0};
    call.stream = NULL;
    TRY(program_check_runnable(program));
    if (!program->rewritten)
        return fail(PHASOR_ERROR_REFUSED,
                    "%s is left as it is, so nothing is planned for it; phasor check says why",
                    program_logical(program)->name);
    if (!inputs)
        return fail(PHASOR_ERROR_USAGE, "stage %s needs the shapes of the inputs", stage);
    phasor_status status = call_read(&call, program, CALL_SHAPES, inputs, count, NULL, 0);
    if (status == PHASOR_OK)
        status = specialise_plan(&call, &plan);
    if (status == PHASOR_OK)
        status = planned_print(program, stage, json, &plan, out);
    plan_free(&plan);
    call_free(&call);
    return status;
}

static phasor_status show_stage(struct phasor_program *program, const char *stage, bool json,
                                const phasor_value *inputs, int count, struct text *out)
{
    const bool plan = strcmp(stage, "plan") == 0;
    if (json && !plan)
        return fail(PHASOR_ERROR_USAGE, "stage %s has no JSON form; plan has", stage);
    if (strcmp(stage, "loaded") == 0 || strcmp(stage, "real") == 0) {
        graph_print(*stage == 'l' ? program_logical(program) : program_real(program), out);
        return PHASOR_OK;
    }
    if (plan || strcmp(stage, "cuda") == 0 || strcmp(stage, "ptx") == 0)
        return show_planned(program, stage, json, inputs, count, out);
    return fail(PHASOR_ERROR_USAGE, "stage \"%s\"; there are loaded, real, plan, cuda and ptx",
                stage);
}

phasor_status phasor_program_show(phasor_program *program, const char *stage, bool json,
                                  const phasor_value *inputs, int count, char **text)
{
    NOT_NULL(program);
    NOT_NULL(stage);
    NOT_NULL(text);
    LOG_SCOPE(&program->runtime->first->log);
    struct text out = {0};
    *text = NULL;
    phasor_status status = show_stage(program, stage, json, inputs, count, &out);
    text_add(&out, "");
    if (status == PHASOR_OK)
        status = text_status(&out);
    if (status == PHASOR_OK)
        *text = out.at;
    else
        text_free(&out);
    return status;
}
