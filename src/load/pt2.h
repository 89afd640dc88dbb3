/* pt2.h - what the parts of the .pt2 reader share.
 *
 *     pt2.c            the order of work: archive, JSON, inputs, calls, outputs
 *     pt2_json.c       fields of JSON objects, with messages that name archive, entry, node and
 *       field
 *     pt2_values.c     dtypes, sizes and names: what a name stands for in a graph
 *     pt2_arguments.c  arguments and results of a call, every tag of the format
 *     pt2_weights.c    weights and constants: tables, storages, bounds
 *     pt2_slots.c      inputs and outputs of the program
 */
#pragma once
#include "load/archive.h"
#include "load/load.h"
#include "load/loader.h"
#include "load/string_map.h"

#include <jansson.h>

/* What a name of the file stands for. */
struct binding {
    enum result_kind kind;
    tensor tensor; /* TENSOR; FLOAT and BOOL: 0-dim */
    dim size;      /* INT; BOOL with size_known */
    bool size_known;
};

/* The names of one graph; a region has its own. */
struct scope {
    const json_t *graph;
    struct string_map names;
    ARRAY(struct binding) bindings;
};

/* The file's description of a tensor. */
struct meta {
    enum dtype dtype;
    int rank;
    const dim *sizes, *strides;
    bool has_strides;
};

struct pt2 {
    struct loader loader; /* the first: loader.inline_region gets a pointer to it */
    struct loaded_program *program;
    struct archive *archive;
    struct arena scratch;                /* until the end of loading */
    const char *entry, *node;            /* for messages; node NULL: outside of nodes */
    json_t *model, *weights, *constants; /* documents */
    const json_t *weights_table, *constants_table, *ranges, *input_specs, *output_specs;
    const char *weights_entry, *constants_entry;
    struct scope *scope;
    struct string_map storages; /* entry name -> index in storage_list */
    ARRAY(struct storage *) storage_list;
    struct string_map targets; /* "buffer:cache" -> tensor: what mutation outputs name */
    int depth;                 /* of regions */
    int output_count;          /* user outputs so far */
};

/* -- pt2_json.c -------------------------------------------------------------------------------- */

/* PHASOR_ERROR_FILE with "PATH: ENTRY: node NODE: " before the message. */
phasor_status pt2_fail(const struct pt2 *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts the same before the message of a failure from below; what is neither memory nor a refusal
 * becomes ERROR_FILE. */
phasor_status pt2_fail_in(const struct pt2 *p, phasor_status status);
phasor_status pt2_field(const struct pt2 *p, const json_t *object, const char *field,
                        json_type type, const json_t **out);
/* NULL when it is absent or null. */
phasor_status pt2_optional(const struct pt2 *p, const json_t *object, const char *field,
                           json_type type, const json_t **out);
phasor_status pt2_string(const struct pt2 *p, const json_t *object, const char *field,
                         const char **out);
phasor_status pt2_type(const struct pt2 *p, const json_t *json, const char *what, json_type type);
phasor_status pt2_integer(const struct pt2 *p, const json_t *json, const char *what, int64_t *out);
phasor_status pt2_float(const struct pt2 *p, const json_t *json, const char *what, double *out);
phasor_status pt2_boolean(const struct pt2 *p, const json_t *json, const char *what, bool *out);
/* The only key of a union and its content. */
phasor_status pt2_union(const struct pt2 *p, const json_t *json, const char *what, const char **tag,
                        const json_t **content);
/* Reads and parses an entry of the archive. */
phasor_status pt2_document(struct pt2 *p, const char *entry, json_t **out);

/* -- pt2_values.c ------------------------------------------------------------------------------ */

phasor_status pt2_dtype(const struct pt2 *p, const json_t *json, enum dtype *out);
/* Keeps a refusal when the dtype can only be named; one for an origin. */
phasor_status pt2_refuse_dtype(struct pt2 *p, enum dtype dtype, const struct origin *origin);
phasor_status pt2_refuse(struct pt2 *p, const struct origin *origin, const char *reason);
/* A SymInt: a number or an expression. */
phasor_status pt2_size(struct pt2 *p, const json_t *json, const char *what, dim *out);
/* tensor_values[name]. hint: an expression that cannot be read is replaced by its example, and
 * strides are left out. */
phasor_status pt2_meta(struct pt2 *p, const char *name, bool hint, struct meta *out);
/* Makes the symbols that the inputs bind, with ranges and example values. */
phasor_status pt2_symbols(struct pt2 *p, const json_t *inputs);

phasor_status pt2_bind(struct pt2 *p, const char *name, struct binding binding);
phasor_status pt2_lookup(const struct pt2 *p, const char *name, struct binding *out);
phasor_status pt2_lookup_tensor(struct pt2 *p, const char *name, tensor *out);
phasor_status pt2_lookup_size(const struct pt2 *p, const char *name, dim *out);
void pt2_scope_free(struct scope *scope);

/* -- pt2_arguments.c --------------------------------------------------------------------------- */

phasor_status pt2_argument(struct pt2 *p, const json_t *json, struct argument *out);
phasor_status pt2_results(struct pt2 *p, const json_t *outputs, struct result **results,
                          int *count);

/* -- pt2_weights.c ----------------------------------------------------------------------------- */

phasor_status pt2_weights_open(struct pt2 *p, const char *model);
/* The weight of that name; constant: the table of constants is looked in first. */
phasor_status pt2_weight(struct pt2 *p, const char *name, bool constant, const struct data **out);

/* -- pt2_slots.c ------------------------------------------------------------------------------- */

phasor_status pt2_inputs(struct pt2 *p, const json_t *inputs);
phasor_status pt2_outputs(struct pt2 *p);

/* -- pt2.c ------------------------------------------------------------------------------------- */

phasor_status pt2_region(struct loader *loader, const void *graph, const struct argument *operands,
                         int operand_count, struct result *results, int result_count);
