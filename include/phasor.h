/* phasor.h - run PyTorch exported programs that compute with complex numbers on NVIDIA GPUs, in C.
 *
 *     phasor_runtime *runtime;
 *     phasor_program *program;
 *     phasor_value inputs[2], outputs[2];            inputs: kind PHASOR_TENSOR, tensor = &q and &k
 *
 *     phasor_open(&runtime, NULL);                                the first GPU, the user's cache
 *     phasor_program_load(runtime, "rope.pt2", NULL, &program);   complex numbers become pairs
 *     phasor_run(program, NULL, inputs, 2, outputs, 2, stream);   new sizes: compiles
 *     phasor_run(program, NULL, inputs, 2, outputs, 2, stream);   from here on it only launches
 *     outputs[0].owned->deleter(outputs[0].owned);                any time, any thread, any order
 *     phasor_program_close(program);
 *     phasor_close(runtime);
 *
 * Errors. Every function that can fail returns a phasor_status. When it is not PHASOR_OK,
 * phasor_message() gives a sentence for this thread with the file, operator, node, source line and
 * values; nothing was written to outputs or state.
 *
 * Threads. All functions may be called from any thread at any time, with three exceptions:
 * phasor_close and phasor_program_close must be the last call on their object, and one phasor_state
 * serves one call at a time.
 *
 * Tensors are borrowed DLPack DLTensors: any strides (in elements; NULL means row-major; on a CUDA
 * device not negative), byte_offset is honoured. Numbers in device memory lie at multiples of their
 * size, those of complex numbers at multiples of half of it. DLPack 0.6 has no code for bool: Phasor
 * uses PHASOR_DL_BOOL with 8 bits, and takes uint8 for a bool input too. Complex tensors have
 * kDLComplex with 64 or 128 bits.
 *
 * Structs. One that begins with `size` may have more fields in a later version: set it to its
 * sizeof, also in those that a function fills in. 0, or more than this library knows, is
 * PHASOR_ERROR_USAGE. The others stay as they are.
 *
 * NULL, where it is not said to be fine, is PHASOR_ERROR_USAGE; functions that return no status
 * return 0, false or NULL for it.
 *
 * A declaration that is not here is not part of the interface. */
#ifndef PHASOR_H
#define PHASOR_H

#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PHASOR_API __attribute__((visibility("default")))
#else
#define PHASOR_API
#endif

/* Before what C99 and C++ know as an extension only: an unnamed union. */
#if defined(__GNUC__)
#define PHASOR_EXTENSION __extension__
#else
#define PHASOR_EXTENSION
#endif

#define PHASOR_VERSION_MAJOR 0
#define PHASOR_VERSION_MINOR 1
#define PHASOR_VERSION_PATCH 0

#define PHASOR_DL_BOOL 6 /* DLDataTypeCode of bool, as in DLPack 0.8 and newer */

/* -- status ------------------------------------------------------------------------------------ */

/* The values are also the exit codes of the command phasor. */
typedef enum phasor_status {
    PHASOR_OK = 0,
    PHASOR_ERROR_USAGE =
        2, /* a wrong argument or option, of a kind that no program or input can cause */
    PHASOR_ERROR_REFUSED =
        3, /* the program has an operator or dtype that cannot be rewritten or run */
    PHASOR_ERROR_FILE = 4, /* a file is missing, unreadable, damaged or of another kind */
    PHASOR_ERROR_INPUT =
        5, /* inputs that this program does not take: count, dtype, rank, size, range */
    PHASOR_ERROR_COMPILE = 6,     /* NVRTC is missing or failed; the message has its log */
    PHASOR_ERROR_DEVICE = 7,      /* no device, or the driver reported an error */
    PHASOR_ERROR_MEMORY = 8,      /* out of host or device memory; a smaller call may succeed */
    PHASOR_ERROR_INTERRUPTED = 9, /* the interrupt callback asked to stop */
    PHASOR_NOT_READY = 10         /* a compile or load would be needed and is forbidden now */
} phasor_status;

/* A short name, "ok", "bad inputs". Never NULL. */
PHASOR_API const char *phasor_status_name(phasor_status status);

/* Why the last failing call of this thread failed. Valid until this thread's next call. Never NULL.
 */
PHASOR_API const char *phasor_message(void);

/* "0.1.0" */
PHASOR_API const char *phasor_version(void);
/* 32 hexadecimal digits: a hash of the sources that decide plans and code. Plans in a cache are used
 * by the generator that made them alone; kernels by all that give the same source. */
PHASOR_API const char *phasor_generator(void);

/* -- runtime ----------------------------------------------------------------------------------- */

typedef struct phasor_runtime phasor_runtime; /* a device, the cache, the compiler */
typedef struct phasor_program phasor_program; /* a loaded program and its specialisations */
typedef struct phasor_state phasor_state;     /* the buffers that a program changes */

typedef enum phasor_device_kind {
    PHASOR_DEVICE_DEFAULT = 0, /* CUDA where there is a device, else the CPU. Of several CUDA
                                  devices each call uses that of its tensors, see phasor_run */
    PHASOR_DEVICE_CPU,         /* the evaluator: slow, needs nothing, runs every program */
    PHASOR_DEVICE_CUDA,        /* the device with this ordinal and no other; fails without it */
    PHASOR_DEVICE_NONE /* compiles for `arch`, runs nothing: for prewarming and inspection */
} phasor_device_kind;

typedef enum phasor_rules { PHASOR_RULES_ALL = 0, PHASOR_RULES_EXECUTORCH } phasor_rules;
/* What a call with sizes that no call had before does. Results have the same bits in every mode.
 *
 * EXACT     waits until kernels for just these sizes are compiled, or found in the cache.
 * GENERIC   uses kernels that take the dynamic sizes as arguments. They serve all sizes of a class:
 *           which tensors are aligned to 16 bytes, which strides have gaps, where a dim of 1 is
 *           broadcast, whether addresses fit in 31 bits, whether 8 divides a dynamic dim that is
 *           the innermost of an input or output. Only the first call of a class compiles.
 * AUTO      the same, and threads in the background compile, from the second call on, kernels for
 *           any strides and alignments, which serve a new class until it has its own; and when
 *           sizes come again, exact kernels in place of those that are faster with literal sizes
 *           (loops along a dynamic dim, vectors across one, 64-bit divisions).
 *           phasor_program_prepare compiles exact ones too. Where nothing can be compiled and the
 *           cache has exact kernels only, these are used. */
typedef enum phasor_mode {
    PHASOR_MODE_DEFAULT = 0, /* AUTO */
    PHASOR_MODE_EXACT,
    PHASOR_MODE_GENERIC,
    PHASOR_MODE_AUTO
} phasor_mode;

/* The functions of the caller.
 *
 * log and compiled are called at the end of the call in which there was something to tell, when
 * nothing is locked or being made (of work in the background, after it): they may call any function,
 * but not close what the call uses. Calls of several threads may be in them at the same time.
 * phasor_message() is still that of the call.
 *
 * interrupted is asked in the middle of a call, and phasor_program_prepare_many calls the other two
 * between its compiles. No lock is held then, but something is being made: asking for just that (the
 * same program for the same sizes, or a kernel of it) is PHASOR_ERROR_USAGE; all else works. Waiting
 * there for a thread that needs it is a deadlock.
 *
 * resize and free may be called anywhere and by any thread, and must not call Phasor.
 *
 * No callback may leave by longjmp or an exception. */

/* Told of every compile: entry names of the unit, for which arch and why it was needed (the stored
 * key that is most like it, and what differs), milliseconds. */
typedef void phasor_compile_callback(void *context, const char *kernels, const char *reason,
                                     double milliseconds);
typedef enum phasor_log_level {
    PHASOR_LOG_DEFAULT = 0, /* that of PHASOR_LOG, or WARNING */
    PHASOR_LOG_ERROR,
    PHASOR_LOG_WARNING,
    PHASOR_LOG_INFO,
    PHASOR_LOG_DEBUG,
    PHASOR_LOG_OFF
} phasor_log_level;
/* level: a phasor_log_level, of the line. */
typedef void phasor_log_callback(void *context, int level, const char *line);
/* Asked between compiles; true stops the call with PHASOR_ERROR_INTERRUPTED. */
typedef bool phasor_interrupt_callback(void *context);

/* All zero but size means defaults. Strings are copied. */
typedef struct phasor_options {
    size_t size; /* sizeof(phasor_options): lets fields be added */
    phasor_device_kind device;
    int ordinal;          /* of the CUDA device; with DEFAULT of the first one, which is used where
                             no tensor says another */
    const char *arch;     /* "sm_90"; NULL: the device's, or sm_90 without one */
    const char *cache;    /* directory, or ":memory:"; NULL: PHASOR_CACHE_DIR, XDG, HOME */
    bool trust_cache_dir; /* accept a cache directory that others own or can write */
    bool no_compile;      /* never compile: serve what the cache has (kernels made for less
                             alignment or in another mode too), else PHASOR_NOT_READY. Also
                             PHASOR_NO_COMPILE=1 */
    bool no_fma; /* products of complex numbers without fused multiply-add: eager CPU's bits, not
                    eager CUDA's */
    bool own_outputs; /* outputs that would point into an input are copied instead */
    phasor_rules rules;
    phasor_mode mode;
    int specialisations;    /* kept for a program, on each device; default 256, or 4096 where they
                               share kernels */
    int background_threads; /* at most, for mode AUTO; default 1, or PHASOR_BACKGROUND_THREADS */
    int64_t cache_bytes;    /* cap of the cache, default 1 GiB */
    int64_t
        table_bytes; /* cap of memory of each device for tables that depend on sizes alone, default
                        1 GiB */
    phasor_log_callback *log; /* of this runtime; NULL: stderr. See log_level */
    void *log_context;
    phasor_compile_callback *compiled;
    void *compiled_context;
    phasor_interrupt_callback *interrupted;
    void *interrupted_context;
    /* The allocator for all host memory, for the whole process; set by the first phasor_open. NULL:
     * malloc. */
    void *(*resize)(void *context, void *block, size_t nbytes);
    void (*free)(void *context, void *block);
    void *allocator_context;
    /* Wait, at most 10 seconds, for another process that compiles the same kernel into the same
     * cache. Without it a runtime that runs programs compiles for itself; one with the device
     * "none" always waits. */
    bool wait_for_others;
    /* A command, as a list of words that ends with NULL, whose processes compile by
     * phasor_compile_serve. NULL: NVRTC is called in this process, where threads wait for each
     * other during most of a compile, and where a crash of it is a crash of the process. */
    const char *const *compiler;
    int unit_kernels; /* phasor_program_prepare_many compiles about as many at once, default 32 */
    phasor_log_level log_level; /* what is told to log, or written to stderr */
} phasor_options;

/* options may be NULL. The CUDA device's primary context is retained, or the caller's current
 * context used when it is of the same device. The same goes for each further device, at the first
 * call that uses it. */
PHASOR_API phasor_status phasor_open(phasor_runtime **out, const phasor_options *options);

/* Programs must be closed before; outputs may live on. NULL is fine. */
PHASOR_API void phasor_close(phasor_runtime *runtime);

/* Counters of this process, since phasor_open, of all devices together. */
typedef struct phasor_counters {
    size_t size;            /* sizeof(phasor_counters) */
    uint64_t compiled;      /* kernels compiled */
    uint64_t compile_units; /* NVRTC calls */
    uint64_t cache_hits;    /* kernels found in the cache */
    uint64_t cache_misses;
    uint64_t foreign; /* hits made by another NVRTC version */
    uint64_t specialisations;
    uint64_t launches;
    uint64_t compile_failures; /* kernels that could not be compiled */
} phasor_counters;
PHASOR_API phasor_status phasor_stats(phasor_runtime *runtime, phasor_counters *out);

/* The device in use, the first one of several: "cpu", "cuda:0", "none". Valid as long as the
 * runtime. */
PHASOR_API const char *phasor_device_name(const phasor_runtime *runtime);
/* "sm_90". Valid as long as the runtime. */
PHASOR_API const char *phasor_arch_name(const phasor_runtime *runtime);

/* -- values ------------------------------------------------------------------------------------ */

typedef enum phasor_kind {
    PHASOR_NONE = 0, /* Python's None, and an input slot to be left out */
    PHASOR_TENSOR,   /* .tensor: borrowed */
    PHASOR_OWNED,    /* .owned: a tensor output of phasor_run; call its deleter once */
    PHASOR_INT,
    PHASOR_FLOAT,
    PHASOR_BOOL,
    PHASOR_STRING
} phasor_kind;

typedef struct phasor_value {
    phasor_kind kind;
    PHASOR_EXTENSION union {
        DLTensor *tensor;
        DLManagedTensor *owned;
        int64_t integer;
        double real;
        bool boolean;
        const char *string; /* outputs: valid as long as the program */
    };
} phasor_value;

/* -- programs ---------------------------------------------------------------------------------- */

/* Loads a .pt2 (torch 2.9 or newer) or a .phasor text file. model: which one of an archive with
 * several; NULL for the only one. PHASOR_ERROR_FILE: not such a file. PHASOR_ERROR_REFUSED is not
 * returned here: see phasor_program_refused. */
PHASOR_API phasor_status phasor_program_load(phasor_runtime *runtime, const char *path,
                                             const char *model, phasor_program **out);
/* The same from memory (a .pt2); the bytes may be freed afterwards. name is used in messages. */
PHASOR_API phasor_status phasor_program_load_memory(phasor_runtime *runtime, const void *bytes,
                                                    size_t nbytes, const char *name,
                                                    const char *model, phasor_program **out);
PHASOR_API void phasor_program_close(phasor_program *program);
/* Where the program runs: the runtime's (first) device, or "cpu" where that is the default device
 * and the program could not be rewritten. Valid as long as the runtime. */
PHASOR_API const char *phasor_program_device(const phasor_program *program);

typedef struct phasor_dim {
    int64_t size;       /* -1 when it is dynamic */
    const char *symbol; /* "s25", "2*s25"; NULL when it is static */
    int64_t min, max;   /* inclusive range; equal to size when it is static */
    int64_t example;    /* what the program was exported with */
    int64_t step;       /* its sizes are among min, min + step, min + 2 * step, ...: 2 for 2*s25 */
} phasor_dim;

/* What an input or output is. Valid as long as the program. Sizes are logical: a complex tensor has
 * no pair dim. */
typedef struct phasor_spec {
    size_t size;      /* sizeof(phasor_spec) */
    const char *name; /* the program's own: "q", "type_as_1" */
    phasor_kind kind; /* PHASOR_TENSOR for all tensors */
    DLDataType dtype; /* tensors */
    int rank;         /* tensors */
    const phasor_dim *dims;
    const phasor_dim *integer;    /* an integer that is a size symbol: its range; else NULL */
    const phasor_value *constant; /* the only value that this slot can have; else NULL */
} phasor_spec;

PHASOR_API int phasor_program_input_count(const phasor_program *program);
PHASOR_API int phasor_program_output_count(const phasor_program *program);
PHASOR_API phasor_status phasor_program_input(const phasor_program *program, int index,
                                              phasor_spec *out);
PHASOR_API phasor_status phasor_program_output(const phasor_program *program, int index,
                                               phasor_spec *out);

/* One place that keeps the program from being rewritten or run. */
typedef struct phasor_refusal {
    size_t size;        /* sizeof(phasor_refusal) */
    const char *node;   /* "add_3" */
    const char *target; /* "aten.add.Tensor"; "input" or "output" for those */
    const char *reason;
    const char *line; /* the source line it came from; NULL when the file has none */
    bool unknown; /* the operator or dtype is unknown: the CPU device cannot run the program either
                   */
} phasor_refusal;

/* 0 when the program was rewritten. Otherwise all refusals, in the program's order; the program is
 * as it was and runs on the CPU device unless one of them is unknown. Strings are valid as long as
 * the program. */
PHASOR_API int phasor_program_refused_count(const phasor_program *program);
PHASOR_API phasor_status phasor_program_refused(const phasor_program *program, int index,
                                                phasor_refusal *out);

/* Sizes by name. NAME is an input and an axis ("q.1"), an input that is an integer ("start"), or a
 * symbol of the file. A size that is an expression ("2*s25 + 1") gives the symbol in it that no
 * other name gives. */
typedef struct phasor_binding {
    const char *name;
    int64_t size;
} phasor_binding;

/* The shapes of all tensor inputs for these sizes; example sizes fill what stays unbound. dims: in
 * the order of the inputs, rank numbers for each tensor and one number for each input of kind
 * PHASOR_INT. PHASOR_ERROR_INPUT: an unknown name, two values for one symbol (both names are in the
 * message), a size out of range, one that its expression cannot be. */
PHASOR_API phasor_status phasor_program_sizes(const phasor_program *program,
                                              const phasor_binding *bindings, int count,
                                              int64_t *dims, int capacity);

/* What such a name stands for; its symbol is valid as long as the program. PHASOR_ERROR_INPUT: an
 * unknown name. */
PHASOR_API phasor_status phasor_program_dim(const phasor_program *program, const char *name,
                                            phasor_dim *out);

enum { PHASOR_RANK_MAX = 16 };

/* An output for given inputs. */
typedef struct phasor_output_info {
    size_t size;      /* sizeof(phasor_output_info), set in each of an array */
    phasor_kind kind; /* PHASOR_TENSOR for all tensors */
    DLDataType dtype; /* tensors */
    int rank;         /* tensors */
    int64_t sizes[PHASOR_RANK_MAX];
    int64_t strides[PHASOR_RANK_MAX]; /* of phasor_run, in elements: eager PyTorch's */
    int64_t integer;                  /* PHASOR_INT, where inputs alone decide it; else 0 */
} phasor_output_info;

/* What all outputs will be for these inputs. Nothing is compiled or run, and no device is needed;
 * pointers of tensors may be NULL. For buffers of phasor_run_into sizes and dtypes are what counts.
 * PHASOR_ERROR_INPUT: inputs that the program does not take. */
PHASOR_API phasor_status phasor_program_output_sizes(phasor_program *program,
                                                     const phasor_value *inputs, int input_count,
                                                     phasor_output_info *outputs, int output_count);

/* Plans and compiles for inputs of these shapes without running; data pointers may be NULL (taken
 * as aligned to 16 bytes), inputs of kind PHASOR_NONE are not allowed for tensors. Addresses are
 * looked at for their alignment only and never followed, so that one that is no memory stands for
 * "a tensor aligned like this". Both forms of a call are made ready, phasor_run_into for buffers in
 * which dims have the order that phasor_run gives them, without gaps, aligned to 16 bytes. It is
 * for the runtime's (first) device, wherever tensors are; another one of the same arch finds the
 * kernels in the cache, and loads them at its first call. */
PHASOR_API phasor_status phasor_program_prepare(phasor_program *program, const phasor_value *inputs,
                                                int count);

/* The same for many shapes: shapes[i] are the inputs of one of them, `count` values each. Kernels
 * of several shapes are compiled in one unit of NVRTC, which takes about half of the time of as
 * many units; their machine code is the same. Each unit is stored when it is compiled, and a shape
 * that fails stops no other: a call that was interrupted or killed goes on where it was. Where
 * several threads call it, each with shapes of its own, and phasor_options.compiler is set, all
 * processors are used.
 *
 *     const phasor_value *shapes[3] = {at_length_1, at_length_2, at_length_3};
 *     phasor_program_prepare_many(program, shapes, 2, 3, NULL);
 *
 * statuses: one for each shape, or NULL. Returns the first failure of a shape, with its message. */
PHASOR_API phasor_status phasor_program_prepare_many(phasor_program *program,
                                                     const phasor_value *const *shapes, int count,
                                                     int shape_count, phasor_status *statuses);

/* The inside of a process of phasor_options.compiler: compiles what comes over its standard input,
 * a socket, and returns when that is closed. A program that does nothing else but call this is
 * enough; the command phasor has it as `phasor --compile-server`. */
PHASOR_API phasor_status phasor_compile_serve(void);

/* The text of a stage: "loaded", "real", "plan", "cuda", "ptx". inputs: shapes for the last three,
 * as in prepare; may be NULL for the first two. json: only "plan". Free the text with phasor_free.
 */
PHASOR_API phasor_status phasor_program_show(phasor_program *program, const char *stage, bool json,
                                             const phasor_value *inputs, int count, char **text);
/* Writes stage "loaded" or "real" as a .phasor file with its weights beside it (NAME.safetensors).
 */
PHASOR_API phasor_status phasor_program_write(phasor_program *program, const char *stage,
                                              const char *path);
PHASOR_API void phasor_free(void *text);

/* The text as it may be printed on a terminal: names, source lines and messages can hold what a file
 * holds, escape sequences included. Control characters but newlines and tabs, and bytes that are no
 * UTF-8, become \x1b; the rest stays. Free with phasor_free; NULL: out of memory. */
PHASOR_API char *phasor_printable(const char *text);

/* -- running ----------------------------------------------------------------------------------- */

/* A set of the buffers that the program changes, as the file has them. Needed only for more than
 * one: without a state (NULL) a call uses the program's own, of which there is one on each device.
 *
 * A state belongs to one device. Where the runtime has several, that is the device of the first
 * call with the state, which makes the buffers; a call with tensors on another one is
 * PHASOR_ERROR_INPUT. */
PHASOR_API phasor_status phasor_state_new(phasor_program *program, phasor_state **out);
PHASOR_API void phasor_state_free(phasor_state *state);
/* Puts the buffers back to the values in the file; for NULL those of the program's own on every
 * device. */
PHASOR_API phasor_status phasor_state_reset(phasor_program *program, phasor_state *state);
/* Waits for the work of this state and reports an index that was out of range in it
 * (PHASOR_ERROR_INPUT), once. The next run on the state reports it too. NULL: the program's own, on
 * every device. */
PHASOR_API phasor_status phasor_state_check(phasor_program *program, phasor_state *state);

/* Runs the program on a CUstream (NULL: the default stream; ignored on the CPU device, which is
 * done on return).
 *
 * The device: that of the first tensor in CUDA memory, inputs before outputs, by its
 * DLTensor.device; without any, that of the state, else the runtime's first one. The stream is of
 * that device, and so are all other tensors in CUDA memory: two devices in one call are
 * PHASOR_ERROR_INPUT. Host and managed memory goes with any. The first call on a further device
 * opens it; a kernel is compiled once for each arch, whichever devices have it. A runtime that was
 * opened with PHASOR_DEVICE_CUDA has one device, and takes no memory of others.
 *
 * inputs: all slots of the program in order. Device tensors are read in place, host tensors are
 * copied on the stream. A mutated input is written where it is; its elements overlap neither each
 * other nor another input (PHASOR_ERROR_INPUT).
 *
 * outputs: each tensor slot gets kind PHASOR_OWNED and its own DLManagedTensor, with the strides
 * eager PyTorch would give. Slots that are one tensor or views of one share its memory, which is
 * freed with the last of them: any order, any thread, also after program, runtime and stream are
 * closed. A slot that is an input or a view of one points into the caller's memory (see
 * own_outputs). Slots that view weights are read-only; slots that view state change with the next
 * run. Freeing an output is ordered after the work of `stream` issued before the deleter is called.
 *
 * In each slot, dl_tensor.data is the start of the memory that it shares (of the caller's tensor,
 * for a view of an input) and byte_offset is where the slot's first element lies in it: slots with
 * equal data share memory. Strides are given, never NULL. dl_tensor.device says where it is;
 * phasor_copy_to_host reads any of them. */
PHASOR_API phasor_status phasor_run(phasor_program *program, phasor_state *state,
                                    const phasor_value *inputs, int input_count,
                                    phasor_value *outputs, int output_count, void *stream);

/* The same into the caller's buffers: outputs of kind PHASOR_TENSOR with right shape and dtype and
 * any strides that do not overlap themselves; slots that are no tensors are filled in. Each gets
 * its own copy. Device, dtype, rank, every size and overlaps are checked before anything is
 * launched or written (PHASOR_ERROR_INPUT, with both shapes). Once warm it allocates nothing and
 * does not synchronise; while the stream is capturing it compiles and loads nothing, and opens no
 * device: sizes that no call had are served by generic kernels that another call has made ready
 * (modes GENERIC and AUTO), else it returns PHASOR_NOT_READY. An output may be exactly an input's
 * memory where each element is read only by its writer; any other overlap is PHASOR_ERROR_INPUT.
 * phasor_program_output_sizes tells which buffers are needed. */
PHASOR_API phasor_status phasor_run_into(phasor_program *program, phasor_state *state,
                                         const phasor_value *inputs, int input_count,
                                         phasor_value *outputs, int output_count, void *stream);

/* Copies a tensor, on the device or in host memory, of any strides, to nbytes of host memory in
 * row-major order. Waits for the work that was issued before on any stream of the tensor's device.
 * PHASOR_ERROR_USAGE: nbytes is not the tensor's number of elements times their size. */
PHASOR_API phasor_status phasor_copy_to_host(phasor_runtime *runtime, const DLTensor *from,
                                             void *to, size_t nbytes);

/* What the latest call of this thread on the program did. */
typedef struct phasor_run_info {
    size_t size;       /* sizeof(phasor_run_info) */
    int kernels;       /* launches of a warm call */
    int setup_kernels; /* launches once for these sizes */
    const char *mode;  /* "exact", "generic"; "cpu" on the CPU device */
} phasor_run_info;
PHASOR_API phasor_status phasor_program_info(const phasor_program *program, phasor_run_info *out);

/* -- measuring --------------------------------------------------------------------------------- */

/* Microseconds: the middle, what 90 and 99 of 100 stay below, the largest. count: how many were
 * timed; 0: not measured, and the rest is 0 then. */
typedef struct phasor_times {
    int64_t count;
    double p50, p90, p99, max;
} phasor_times;

/* All zero but size means defaults. */
typedef struct phasor_bench_options {
    size_t size;        /* sizeof(phasor_bench_options) */
    uint64_t seed;      /* of the random inputs: normal floats, integers 0 or 1 */
    double seconds;     /* spent on each figure, default 0.3 */
    bool first_only;    /* only what the first call costs */
    bool open_compiler; /* NVRTC is opened and has compiled something before the first call */
} phasor_bench_options;

/* What calls of phasor_run_into with the caller's device memory cost, all measured in one run.
 *
 * The first call with these sizes: its host time, from call to return, the kernels that it compiled
 * or found in the cache, and, where it compiled, NVRTC alone on the same sources one by one.
 *
 * Bytes: those that a call must move (what it reads once, what it writes once), and those that its
 * kernels move (with what one writes and another reads). Sets of inputs and outputs are taken in
 * turn; with 2 MiB or more in a set they are several times as large as the GPU's L2 cache.
 *
 * Host times: a warm call, from call to return, and the bare launches of its kernels one after the
 * other with arguments that are ready. The launch queue is never full.
 *
 * Device times: by events around a batch of calls that follow each other without a gap; the mean of
 * a batch counts as one. A copy of as many bytes, half read and half written, is timed in the same
 * way: by cuMemcpyAsync, and by a kernel (16 bytes a thread) where there is NVRTC. */
typedef struct phasor_bench_result {
    size_t size;         /* sizeof(phasor_bench_result) */
    double first;        /* microseconds */
    uint64_t compiled;   /* kernels, by the first call */
    uint64_t cache_hits; /* kernels, by the first call */
    double compiler;     /* microseconds; 0: the first call compiled nothing */

    int kernels, setup_kernels; /* launches of a warm call; launches once for these sizes */
    const char *mode;           /* "exact", "generic"; "cpu" on the CPU device */
    int64_t bytes, kernel_bytes;
    int64_t set_bytes;
    int sets;

    phasor_times host, launch;
    phasor_times device;
    phasor_times copy_driver, copy_kernel;
    phasor_times copy; /* the faster of the two */
} phasor_bench_result;

/* Measures the program for inputs of these shapes. Memory and values of tensors are made here,
 * row-major; what the given tensors point to is not looked at. Values that are no tensors are used
 * as they are. Outputs get eager's order of dims without gaps. On the CPU device there is host time
 * alone. options may be NULL. PHASOR_ERROR_USAGE: the runtime runs nothing. */
PHASOR_API phasor_status phasor_program_bench(phasor_program *program, const phasor_value *inputs,
                                              int count, const phasor_bench_options *options,
                                              phasor_bench_result *out);

/* One call of a series. */
typedef struct phasor_bench_call {
    const phasor_value *inputs; /* shapes, as above */
    double host;                /* out: microseconds from call to return */
    bool first;                 /* out: no earlier call of the series had these sizes */
    uint64_t compiled;          /* out: kernels compiled meanwhile */
} phasor_bench_call;

/* Calls with one set of shapes after the other, each timed: what a server of varying lengths sees.
 * input_count: of each call. options->seed is used. */
PHASOR_API phasor_status phasor_program_bench_calls(phasor_program *program,
                                                    phasor_bench_call *calls, int count,
                                                    int input_count,
                                                    const phasor_bench_options *options);

/* -- the cache --------------------------------------------------------------------------------- */

/* Where the runtime's cache is; ":memory:" when nothing is kept. */
PHASOR_API const char *phasor_cache_path(const phasor_runtime *runtime);
/* For those whose purpose is the store: PHASOR_OK when what is compiled from now on is kept in it,
 * else PHASOR_ERROR_FILE and why not. */
PHASOR_API phasor_status phasor_cache_require(phasor_runtime *runtime);
/* "stats", "list", or the key of a row or its first digits: a table for people, or a JSON document.
 * Of a key: what went into it in words, resources, compile time, source; all rows that have it when
 * options.arch was not given. Free with phasor_free. PHASOR_ERROR_USAGE: no row, or several keys,
 * begin so. PHASOR_ERROR_FILE: unusable store. */
PHASOR_API phasor_status phasor_cache_show(phasor_runtime *runtime, const char *what, bool json,
                                           char **text);
/* Writes the cubin (an ELF file) of the kernel with this key, or the bytes of the plan. */
PHASOR_API phasor_status phasor_cache_extract(phasor_runtime *runtime, const char *key,
                                              const char *path);
PHASOR_API phasor_status phasor_cache_clear(phasor_runtime *runtime);

/* The next four give their figures as text, as phasor_cache_show does. PHASOR_ERROR_FILE: the store
 * or the file cannot be used.
 *
 * verify checks every row, those of read-only layers too: schema, checksums, keys, rows without
 * those they belong to. recompile: compiles the source of each unit of the cache again, where this
 * NVRTC made it, and compares byte for byte. *good is false when something is wrong; the text names
 * each bad row.
 *
 * gc deletes damaged rows, the oldest ones over the cap, and files that repairs set aside, and
 * makes the file as small as its rows.
 *
 * export writes all whole rows to one read-only file (mode 0444), in one step; what is at `path` is
 * replaced only if it is such a file. It serves as a layer (PHASOR_CACHE_READONLY_DIRS) or for an
 * import.
 *
 * import takes rows that are missing here. Each is checked before any byte of it is used; *good is
 * false when some were refused. */
PHASOR_API phasor_status phasor_cache_verify(phasor_runtime *runtime, bool recompile, bool json,
                                             bool *good, char **text);
PHASOR_API phasor_status phasor_cache_gc(phasor_runtime *runtime, bool json, char **text);
PHASOR_API phasor_status phasor_cache_export(phasor_runtime *runtime, const char *path, bool json,
                                             char **text);
PHASOR_API phasor_status phasor_cache_import(phasor_runtime *runtime, const char *path, bool json,
                                             bool *good, char **text);

/* Versions, libraries found and where, devices, cache health, and what to do about what is missing.
 */
PHASOR_API phasor_status phasor_doctor(const phasor_options *options, bool json, char **text);

/* -- tensor files ------------------------------------------------------------------------------ */

/* A .safetensors file. Complex tensors: dtype C64, or a real view with a last dim of 2 that
 * __metadata__ names
 * ("output_0": "torch.complex64"). Values that are no tensors stand in __metadata__ as Python
 * writes them. */
typedef struct phasor_tensors phasor_tensors;

PHASOR_API phasor_status phasor_tensors_read(const char *path, phasor_tensors **out);
PHASOR_API void phasor_tensors_close(phasor_tensors *tensors);
PHASOR_API int phasor_tensors_count(const phasor_tensors *tensors);
PHASOR_API const char *phasor_tensors_name(const phasor_tensors *tensors, int index);
/* Borrowed host tensor or other value; false when there is none of that name, or a tensor of a dtype
 * that this library does not know: phasor_message() says which. */
PHASOR_API bool phasor_tensors_find(const phasor_tensors *tensors, const char *name,
                                    phasor_value *out);
/* Host tensors of any strides and other values. Complex tensors are written as real views that
 * __metadata__ names. A regular file is replaced when all is written and keeps its mode; links stay,
 * and into devices and pipes is written. What phasor_tensors_read would refuse (a name given twice,
 * text that is no UTF-8, ...) is PHASOR_ERROR_USAGE, and nothing is written. */
PHASOR_API phasor_status phasor_tensors_write(const char *path, const char *const *names,
                                              const phasor_value *values, int count);

#ifdef __cplusplus
}
#endif
#endif
