/* parse.h - what parse.c (lines and nodes) and parse_slots.c (the header's statements) share. */
#pragma once
#include "graph/scan.h"

/* A statement that names a value and may stand before it; read at the end of the text. */
struct parse_later {
    const char *text;
    int line;
};

struct parser {
    struct graph *graph;
    graph_find_data *find;
    void *context;
    struct scan scan;
    const char *source;    /* where the present line stands in the text */
    struct text line;      /* its copy, without its end */
    ARRAY(value) operands; /* of the present node */
    ARRAY(struct parse_later) later;
    uint32_t *names; /* hash table of values by name */
    size_t names_size;
    bool started; /* the first line was read */
};

/* A copy of the scanned word that lives as long as the graph; NULL when memory is out. */
const char *parse_word(struct parser *parser);
/* The value of that name; 0: none so far. */
value parse_find(const struct parser *parser, const char *name);
/* The value called as the next name says. */
phasor_status parse_value(struct parser *parser, value *out);
/* Adds a node of a name that must be new. */
phasor_status parse_add(struct parser *parser, enum op op, enum dtype dtype,
                        const struct attributes *attributes, const char *name, value *out);
/* "#: aten.mul.Tensor of mul_ @ rope.py:29", or nothing: NULL. node: the name without an `of`. */
phasor_status parse_origin(struct parser *parser, const char *node, const struct origin **out);

/* The statements, after their first word. */
phasor_status parse_symbol(struct parser *parser);
phasor_status parse_input(struct parser *parser);
phasor_status parse_state(struct parser *parser);
phasor_status parse_data(struct parser *parser);
phasor_status parse_check(struct parser *parser);
phasor_status parse_output(struct parser *parser);
phasor_status parse_write(struct parser *parser);
