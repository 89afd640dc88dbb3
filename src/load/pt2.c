/* pt2.c - from a .pt2 archive to a graph: the order of work.
 *
 *     rope.pt2
 *       models/model.json                        which program, its schema
 *       data/weights/model_weights_config.json   tables of weights
 *       inputs    symbols from the inputs' sizes, inputs and weights as leaves
 *       nodes     each call decoded and handed to aten_call()
 *       outputs   mutations written, then outputs taken
 *     -> loaded_program with its graph, weights and refusals
 *
 * Regions (wrap_with_set_grad_enabled, branches of cond) are graphs of the same form, loaded in
 * place by pt2_region().
 */
#include "load/pt2.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SCHEMA_MAJOR = 8, REGIONS_MAX = 64, TRACE_TEXT = 600 };

/* -- where a node comes from ------------------------------------------------------------------- */

/* The length of the line at `at`, and where the next one starts. */
static size_t line_length(const char *at, const char **next)
{
    const size_t length = strcspn(at, "\n");
    *next = at[length] ? at + length + 1 : at + length;
    return length;
}

static const char *indent_skip(const char *at)
{
    return at + strspn(at, " \t");
}

/* `File "/a/programs.py", line 29, in forward` -> the parts; false for another line. */
static bool frame_parse(const char *line, char *text, size_t size)
{
    static const char head[] = "File \"";
    const char *file = indent_skip(line), *end;
    const size_t length = line_length(line, &end);
    if (strncmp(file, head, sizeof head - 1) != 0)
        return false;
    file += sizeof head - 1;
    const char *quote = memchr(file, '"', (size_t)(line + length - file));
    int number, name_at = 0;
    if (!quote || sscanf(quote, "\", line %d, in %n", &number, &name_at) != 1)
        return false;
    for (const char *slash = file; slash < quote; slash++)
        if (*slash == '/' || *slash == '\\')
            file = slash + 1;
    const int name_length = name_at ? (int)(line + length - (quote + name_at)) : 0;
    snprintf(text, size, "%.*s:%d%s%.*s", (int)(quote - file), file, number,
             name_length > 0 ? " in " : "", name_length > 0 ? name_length : 0, quote + name_at);
    return true;
}

/* "rope.py:29 in forward, code: c * f" of the last frame of a stack trace; NULL when there is
 * none. */
static const char *trace_line(struct arena *arena, const char *trace, bool *failed)
{
    char frame[TRACE_TEXT], text[TRACE_TEXT] = "";
    const char *code = NULL, *next;
    for (const char *line = trace; line && *line; line = next) {
        line_length(line, &next);
        if (!frame_parse(line, frame, sizeof frame))
            continue;
        strcpy(text, frame);
        code = next;
    }
    if (!text[0])
        return NULL;
    code = indent_skip(code);
    const size_t length = line_length(code, &next);
    const char *line = length ? arena_format(arena, "%s, code: %.*s", text,
                                             length > TRACE_TEXT ? TRACE_TEXT : (int)length, code)
                              : arena_string(arena, text);
    *failed = !line;
    return line;
}

static phasor_status origin_new(struct pt2 *p, const json_t *node, const char *target,
                                const char *name, const struct origin **out)
{
    struct arena *arena = &p->program->arena;
    struct origin *origin = NEW(arena, struct origin, 1);
    bool failed = false;
    if (!origin)
        return fail_memory();
    origin->target = arena_string(arena, target);
    origin->node = arena_string(arena, name);
    origin->branch = p->loader.branch;
    origin->line = trace_line(
        arena, json_string_value(json_object_get(json_object_get(node, "metadata"), "stack_trace")),
        &failed);
    if (!origin->target || !origin->node || failed)
        return fail_memory();
    *out = origin;
    return PHASOR_OK;
}

/* -- one node ---------------------------------------------------------------------------------- */

/* Without "torch.ops." and "higher_order.": messages and tables name operators like that. */
static const char *target_short(const char *target)
{
    static const char *const heads[] = {"torch.ops.", "higher_order."};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(target, heads[i], strlen(heads[i])) == 0)
            target += strlen(heads[i]);
    return target;
}

/* The node's own name (schema 8.17 and newer), else its first result's, else its target. */
static const char *node_name(const json_t *node, const char *target)
{
    const json_t *first = json_array_get(json_object_get(node, "outputs"), 0);
    const char *name = json_string_value(json_object_get(node, "name"));
    if (!name)
        name = json_string_value(json_object_get(json_object_get(first, "as_tensor"), "name"));
    if (!name)
        name = json_string_value(
            json_object_get(json_array_get(json_object_get(first, "as_tensors"), 0), "name"));
    return name ? name : target;
}

static phasor_status results_bind(struct pt2 *p, const struct call *call)
{
    for (int i = 0; i < call->result_count; i++) {
        const struct result *r = &call->results[i];
        if (r->kind == RESULT_NONE || !r->name)
            continue;
        if (r->kind != RESULT_INT && !r->tensor && !r->size_known)
            return pt2_fail(p, "%s gives nothing for its result \"%s\"", call->target, r->name);
        TRY(pt2_bind(p, r->name, (struct binding){r->kind, r->tensor, r->size, r->size_known}));
    }
    return PHASOR_OK;
}

static phasor_status node_call(struct pt2 *p, const json_t *node, struct call *call)
{
    const json_t *inputs, *outputs, *item;
    size_t at;
    TRY(pt2_field(p, node, "inputs", JSON_ARRAY, &inputs));
    TRY(pt2_field(p, node, "outputs", JSON_ARRAY, &outputs));
    struct argument *arguments = NEW(&p->scratch, struct argument, json_array_size(inputs));
    if (!arguments)
        return fail_memory();
    call->arguments = arguments;
    call->argument_count = (int)json_array_size(inputs);
    json_array_foreach(inputs, at, item) TRY(pt2_argument(p, item, &arguments[at]));
    TRY(pt2_results(p, outputs, &call->results, &call->result_count));
    TRY(pt2_fail_in(p, aten_call(&p->loader, call)));
    return results_bind(p, call);
}

static phasor_status node_load(struct pt2 *p, const json_t *node)
{
    struct call call = {0};
    const char *target;
    struct graph *graph = p->loader.graph;
    const struct origin *outer = graph->origin;
    TRY(pt2_type(p, node, "nodes", JSON_OBJECT));
    TRY(pt2_string(p, node, "target", &target));
    call.target = target_short(target);
    p->node = node_name(node, call.target);
    TRY(origin_new(p, node, call.target, p->node, &call.origin));
    call.target = call.origin->target; /* copies: others may keep them */
    call.name = call.origin->node;
    graph->origin = call.origin;
    TRY(node_call(p, node, &call));
    graph->origin = outer;
    p->node = NULL;
    return PHASOR_OK;
}

static phasor_status nodes_load(struct pt2 *p)
{
    const json_t *nodes, *node;
    size_t at;
    TRY(pt2_field(p, p->scope->graph, "nodes", JSON_ARRAY, &nodes));
    json_array_foreach(nodes, at, node) TRY(node_load(p, node));
    return PHASOR_OK;
}

/* -- regions ----------------------------------------------------------------------------------- */

static phasor_status region_input(struct pt2 *p, const json_t *input,
                                  const struct argument *operand)
{
    const char *tag;
    const json_t *content;
    struct binding binding = {0};
    TRY(pt2_union(p, input, "inputs", &tag, &content));
    const char *name = json_string_value(
        json_object_get(content, strcmp(tag, "as_tensor") == 0 ? "name" : "as_name"));
    if (!name) /* a constant that the body has inside */
        return PHASOR_OK;
    if (operand->kind == ARGUMENT_TENSOR)
        binding = (struct binding){.kind = RESULT_TENSOR, .tensor = operand->tensors[0]};
    else if (operand->kind == ARGUMENT_INT)
        binding =
            (struct binding){.kind = RESULT_INT, .size = operand->sizes[0], .size_known = true};
    else if (operand->kind == ARGUMENT_BOOL)
        binding = (struct binding){.kind = RESULT_BOOL, .size = operand->flag, .size_known = true};
    else if (operand->kind == ARGUMENT_FLOAT)
        binding = (struct binding){
            .kind = RESULT_FLOAT,
            .tensor =
                tensor_new(&p->loader, graph_scalar(p->loader.graph, DT_f64, operand->numbers[0]))};
    else
        return pt2_fail(p, "the operand for \"%s\" of a region is of a kind that cannot be passed",
                        name);
    TRY(graph_status(p->loader.graph));
    return pt2_bind(p, name, binding);
}

static phasor_status region_inputs(struct pt2 *p, const struct argument *operands,
                                   int operand_count)
{
    const json_t *inputs, *input;
    size_t at;
    TRY(pt2_field(p, p->scope->graph, "inputs", JSON_ARRAY, &inputs));
    if (json_array_size(inputs) != (size_t)operand_count)
        return pt2_fail(p, "a region has %zu inputs and gets %d", json_array_size(inputs),
                        operand_count);
    json_array_foreach(inputs, at, input) TRY(region_input(p, input, &operands[at]));
    return PHASOR_OK;
}

/* What the region's result `from` stands for becomes the result `to` of the call. */
static phasor_status region_result(struct pt2 *p, const struct result *from, struct result *to)
{
    struct binding binding;
    if (!from->name || to->kind == RESULT_NONE)
        return PHASOR_OK;
    TRY(pt2_lookup(p, from->name, &binding));
    to->size = binding.size;
    to->size_known = binding.size_known;
    to->tensor = binding.tensor;
    if (to->kind == RESULT_INT)
        return pt2_lookup_size(p, from->name, &to->size);
    return to->kind == RESULT_TENSOR ? pt2_lookup_tensor(p, from->name, &to->tensor) : PHASOR_OK;
}

static phasor_status region_results(struct pt2 *p, struct result *results, int result_count)
{
    const json_t *outputs;
    struct result *inner;
    int count;
    TRY(pt2_field(p, p->scope->graph, "outputs", JSON_ARRAY, &outputs));
    TRY(pt2_results(p, outputs, &inner, &count));
    if (count != result_count)
        return pt2_fail(p, "a region has %d results, its operator %d", count, result_count);
    for (int i = 0; i < count; i++)
        TRY(region_result(p, &inner[i], &results[i]));
    return PHASOR_OK;
}

phasor_status pt2_region(struct loader *loader, const void *graph, const struct argument *operands,
                         int operand_count, struct result *results, int result_count)
{
    struct pt2 *p = (struct pt2 *)loader;
    struct scope *outer = p->scope, inner = {.graph = graph};
    const char *node = p->node;
    if (p->depth == REGIONS_MAX)
        return pt2_fail(p, "regions are nested deeper than %d", REGIONS_MAX);
    p->depth++;
    loader->regions++;
    p->scope = &inner;
    phasor_status status = region_inputs(p, operands, operand_count);
    if (status == PHASOR_OK)
        status = nodes_load(p);
    if (status == PHASOR_OK)
        status = region_results(p, results, result_count);
    if (status == PHASOR_OK)
        p->node = node;
    p->scope = outer;
    loader->regions--;
    p->depth--;
    pt2_scope_free(&inner);
    return status;
}

/* -- the program ------------------------------------------------------------------------------- */

/* The next entry models/NAME.json from *entry on: NAME with its length; NULL when there is none. */
static const char *model_next(const struct pt2 *p, size_t *entry, int *length)
{
    static const char head[] = "models/", tail[] = ".json";
    while (*entry < archive_count(p->archive)) {
        const char *name = archive_name(p->archive, (*entry)++);
        const size_t whole = strlen(name);
        if (strncmp(name, head, sizeof head - 1) != 0 || whole <= sizeof head + sizeof tail - 2 ||
            strcmp(name + whole - (sizeof tail - 1), tail) != 0)
            continue;
        *length = (int)(whole - sizeof head - sizeof tail + 2);
        return name + sizeof head - 1;
    }
    return NULL;
}

static phasor_status model_choose(struct pt2 *p, const char *wanted, const char **out)
{
    char list[512] = "";
    size_t count = 0, entry = 0;
    int length;
    *out = NULL;
    for (const char *at; (at = model_next(p, &entry, &length)); count++) {
        const char *name = arena_format(&p->scratch, "%.*s", length, at);
        if (!name)
            return fail_memory();
        if (!wanted || strcmp(name, wanted) == 0)
            *out = name;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "", name);
    }
    if (count == 0)
        return fail(PHASOR_ERROR_FILE, "%s: the archive has no program (models/NAME.json)",
                    p->loader.path);
    if (!wanted && count > 1)
        return fail(PHASOR_ERROR_FILE, "%s: the archive has %zu programs; name one: %s",
                    p->loader.path, count, list);
    if (!*out)
        return fail(PHASOR_ERROR_FILE, "%s: the archive has no program \"%s\"; it has %s",
                    p->loader.path, wanted, list);
    return PHASOR_OK;
}

static phasor_status schema_check(struct pt2 *p)
{
    const json_t *version;
    int64_t major;
    TRY(pt2_type(p, p->model, "(all)", JSON_OBJECT));
    TRY(pt2_field(p, p->model, "schema_version", JSON_OBJECT, &version));
    TRY(pt2_integer(p, json_object_get(version, "major"), "major", &major));
    if (major != SCHEMA_MAJOR)
        return pt2_fail(p,
                        "schema version %" PRId64
                        "; this Phasor reads %d: export the program again with "
                        "torch.export.save of torch 2.9 or newer",
                        major, SCHEMA_MAJOR);
    return PHASOR_OK;
}

static phasor_status program_build(struct pt2 *p)
{
    const json_t *module, *graph, *signature, *inputs;
    struct scope scope = {0};
    TRY(pt2_field(p, p->model, "graph_module", JSON_OBJECT, &module));
    TRY(pt2_field(p, module, "graph", JSON_OBJECT, &graph));
    TRY(pt2_field(p, module, "signature", JSON_OBJECT, &signature));
    TRY(pt2_field(p, signature, "input_specs", JSON_ARRAY, &p->input_specs));
    TRY(pt2_field(p, signature, "output_specs", JSON_ARRAY, &p->output_specs));
    TRY(pt2_field(p, graph, "inputs", JSON_ARRAY, &inputs));
    TRY(pt2_optional(p, p->model, "range_constraints", JSON_OBJECT, &p->ranges));
    scope.graph = graph;
    p->scope = &scope;
    phasor_status status = pt2_inputs(p, inputs);
    if (status == PHASOR_OK)
        status = nodes_load(p);
    if (status == PHASOR_OK)
        status = pt2_outputs(p);
    if (status == PHASOR_OK)
        status = graph_status(p->loader.graph);
    if (status == PHASOR_OK)
        status = sizes_status(&p->program->sizes);
    if (status != PHASOR_OK)
        status = pt2_fail_in(p, status);
    pt2_scope_free(&scope);
    p->scope = NULL;
    return status;
}

static phasor_status refusals_take(struct pt2 *p)
{
    for (size_t i = 0; i < p->loader.refusals.count; i++) {
        const struct loader_refusal *r = &p->loader.refusals.at[i];
        static const struct origin nowhere = {.target = "", .node = ""};
        const struct origin *origin = r->origin ? r->origin : &nowhere;
        const struct refusal refusal = {.origin = origin,
                                        .target = origin->target,
                                        .node = origin->node,
                                        .reason = r->reason,
                                        .line = origin->line,
                                        .unknown = true};
        if (!array_push(&p->program->refusals, refusal))
            return fail_memory();
    }
    return PHASOR_OK;
}

/* "dir/rope.pt2" -> "rope" */
static char *program_name(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
               *dot = strrchr(base, '.');
    return arena_format(arena, "%.*s", dot && dot != base ? (int)(dot - base) : (int)strlen(base),
                        base);
}

static phasor_status program_read(struct pt2 *p, const char *wanted)
{
    const char *model, *entry, *name = program_name(&p->program->arena, p->loader.path);
    TRY(archive_check_program(p->archive));
    TRY(model_choose(p, wanted, &model));
    entry = arena_format(&p->scratch, "models/%s.json", model);
    if (!entry || !name)
        return fail_memory();
    TRY(sizes_init(&p->program->sizes, &p->program->arena));
    TRY(graph_init(&p->program->graph, &p->program->arena, &p->program->sizes, name));
    p->loader.graph = &p->program->graph;
    if (!array_push(&p->loader.tensors, (struct loader_tensor){0}))
        return fail_memory();
    TRY(pt2_document(p, entry, &p->model));
    TRY(schema_check(p));
    TRY(pt2_weights_open(p, model));
    p->entry = entry;
    TRY(program_build(p));
    return refusals_take(p);
}

static void pt2_free(struct pt2 *p)
{
    json_decref(p->model);
    json_decref(p->weights);
    json_decref(p->constants);
    string_map_free(&p->storages);
    string_map_free(&p->targets);
    array_free(&p->storage_list);
    loader_free(&p->loader);
    arena_free(&p->scratch);
    archive_close(p->archive);
}

/* Takes the archive. */
static phasor_status archive_load(struct archive *archive, const char *path, const char *model,
                                  struct loaded_program *out)
{
    struct pt2 p = {.loader = {.path = path, .inline_region = pt2_region},
                    .program = out,
                    .archive = archive,
                    .entry = ""};
    *out = (struct loaded_program){0};
    fenv_t host;
    arithmetic_enter(&host);
    phasor_status status = program_read(&p, model);
    if (status == PHASOR_OK)
        status = graph_verify_after(&out->graph, "load");
    arithmetic_leave(&host);
    if (status != PHASOR_OK && out->sizes.status == PHASOR_ERROR_MEMORY)
        status = fail_memory(); /* sizes of 0 that stand for none misled it */
    if (p.loader.graph)
        p.loader.graph->origin = NULL;
    pt2_free(&p);
    if (status != PHASOR_OK)
        load_free(out);
    return status;
}

phasor_status load_pt2(const char *path, const char *model, struct loaded_program *out)
{
    struct archive *archive;
    *out = (struct loaded_program){0};
    TRY(archive_open(path, &archive));
    return archive_load(archive, path, model, out);
}

phasor_status load_pt2_memory(const void *bytes, size_t nbytes, const char *name, const char *model,
                              struct loaded_program *out)
{
    struct archive *archive;
    *out = (struct loaded_program){0};
    TRY(archive_open_memory(bytes, nbytes, name, &archive));
    return archive_load(archive, name, model, out);
}
