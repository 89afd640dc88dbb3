/* classes.h - plans of a program whose kernels serve many sizes (classes.c), and the tables that
 * such plans share (tables.c). */
#pragma once
#include "codegen/templates.h"
#include "executable/recipe.h"

#include <pthread.h>

struct memory;
struct loaded_kernel;
struct phasor_program;
struct phasor_runtime;

/* Tables that are computed for more rows than one call needs. */
struct shared_tables {
    pthread_mutex_t lock;
    bool possible;
    int symbol; /* whose value is the number of rows; -1: tables of one size */
    int64_t rows;
    struct memory *memory; /* NULL: not yet computed */
    int64_t *offsets;      /* by buffer, in bytes */
};

struct plan_class {
    struct plan_class *next;
    struct text signature;
    struct plan *plan; /* with kernels that codegen has filled in, and the guards of its pool */
    size_t planned;    /* expressions of the pool before codegen */
    struct recipe recipe;
    struct shared_tables tables;
    bool stored;                 /* it was in the cache: its kernels have no source */
    bool stale;                  /* one of them was not in the cache: serves no further call */
    int specialisations;         /* made of it so far; atomic, as is the next */
    bool any_asked;              /* kernels for any strides and alignments were asked for */
    struct loaded_kernel **held; /* its kernels, so that they stay loaded; NULL: not held */
};

struct plan_classes {
    pthread_mutex_t lock;
    struct plan_class *first;
};

void classes_init(struct plan_classes *classes);
/* No recipe made from them is alive. */
void classes_free(struct plan_classes *classes, struct phasor_runtime *runtime);
/* Keeps the kernels of a recipe of the class loaded as long as the program. */
phasor_status classes_hold(struct phasor_program *program, struct plan_class *class,
                           struct loaded_kernel *const *kernels);

/* A recipe that has the kernels of a class. */
struct class_recipe {
    struct plan_class *class;
    int64_t *symbols; /* values, in the recipe's arena */
    bool again;       /* what the cache has is of no use: plan and ask once more, without it */
};

/* How far to go for a class. */
enum class_effort {
    CLASS_KNOWN,    /* one that the program has, or out->class is NULL */
    CLASS_FOUND,    /* or is in the cache */
    CLASS_STORED,   /* or is generated now */
    CLASS_GENERATED /* the same, without asking the cache */
};

/* The recipe of a plan with symbols, with the kernels of its class. The first plan of a class, from
 * memory_new, is taken over, and *plan NULL. */
phasor_status classes_recipe(struct phasor_program *program, struct plan **plan,
                             enum class_effort effort, struct recipe *recipe,
                             struct class_recipe *out);
/* A kernel of the class is not in the cache, and there is no source of it. */
void classes_forget(struct plan_classes *classes, struct plan_class *class);

/* class_blob.c: a class as bytes, and back into one that has its plan. */
phasor_status class_write(const struct plan_class *class, struct text *out);
/* false: these bytes are no class of this plan, which is of no use then (or memory is out: then
 * *status says so). */
bool class_read(struct plan_class *class, const void *bytes, size_t nbytes, phasor_status *status);

/* tables.c: whether tables of a class can be shared, once it has its sources. */
void shared_tables_init(struct shared_tables *tables, const struct plan *plan);
void shared_tables_free(struct shared_tables *tables);
