/* scan.c - see scan.h. */
#include "graph/scan.h"

#include "base/number.h"
#include "graph/print.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* -- failures ---------------------------------------------------------------------------------- */

phasor_status scan_fail_in(const struct scan *scan, phasor_status status)
{
    return status == PHASOR_ERROR_MEMORY ? status
                                         : fail_in(status, "%s:%d", scan->path, scan->line);
}

phasor_status scan_fail(const struct scan *scan, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(PHASOR_ERROR_FILE, "%s:%d: %s", scan->path, scan->line, text);
}

phasor_status scan_expected(const struct scan *scan, const char *what)
{
    char found[32];
    size_t length = 0;
    for (; scan->at[length] && length + 1 < sizeof found; length++)
        found[length] = (unsigned char)scan->at[length] < 0x20 ? '?' : scan->at[length];
    found[length] = '\0';
    if (length == 0)
        return scan_fail(scan, "expected %s, found the end of the line", what);
    return scan_fail(scan, "expected %s, found '%s'", what, found);
}

/* -- marks and words --------------------------------------------------------------------------- */

static void scan_blanks(struct scan *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t')
        scan->at++;
}

static bool is_word_byte(char c)
{
    return is_alphanumeric(c) || c == '_' || c == '.';
}

bool scan_at_end(struct scan *scan)
{
    scan_blanks(scan);
    return *scan->at == '\0' || *scan->at == '#';
}

bool scan_take(struct scan *scan, const char *mark)
{
    scan_blanks(scan);
    if (strncmp(scan->at, mark, strlen(mark)) != 0)
        return false;
    scan->at += strlen(mark);
    return true;
}

bool scan_take_word(struct scan *scan, const char *word)
{
    const char *before = scan->at;
    if (scan_take(scan, word) && !is_word_byte(*scan->at))
        return true;
    scan->at = before;
    return false;
}

phasor_status scan_expect(struct scan *scan, const char *mark)
{
    char what[16];
    snprintf(what, sizeof what, "'%s'", mark);
    return scan_take(scan, mark) ? PHASOR_OK : scan_expected(scan, what);
}

phasor_status scan_end(struct scan *scan)
{
    return scan_at_end(scan) ? PHASOR_OK : scan_expected(scan, "the end of the line");
}

/* The byte of an escape, whose backslash is behind. */
static phasor_status scan_escape(struct scan *scan, char *out)
{
    static const char from[] = "nrt\"\\", to[] = "\n\r\t\"\\";
    const char *known = *scan->at ? strchr(from, *scan->at) : NULL;
    char digits[3] = {0};
    if (known) {
        *out = to[known - from];
        scan->at++;
        return PHASOR_OK;
    }
    if (*scan->at != 'x' || !isxdigit((unsigned char)scan->at[1]) ||
        !isxdigit((unsigned char)scan->at[2]))
        return scan_expected(scan, "one of n r t \" \\ xHH after a backslash");
    memcpy(digits, scan->at + 1, 2);
    *out = (char)strtol(digits, NULL, 16);
    if (*out == '\0')
        return scan_fail(scan, "a string cannot hold \\x00");
    scan->at += 3;
    return PHASOR_OK;
}

phasor_status scan_string(struct scan *scan, const char *what)
{
    if (!scan_take(scan, "\""))
        return scan_expected(scan, what);
    scan->word.length = 0;
    text_add(&scan->word, "");
    while (*scan->at != '"') {
        char byte = *scan->at;
        if (byte == '\0')
            return scan_fail(scan, "a string does not end; expected '\"'");
        scan->at++;
        if (byte == '\\')
            TRY(scan_escape(scan, &byte));
        text_add_bytes(&scan->word, &byte, 1);
    }
    scan->at++;
    return text_status(&scan->word);
}

phasor_status scan_name(struct scan *scan, const char *what)
{
    scan_blanks(scan);
    if (*scan->at == '"')
        return scan_string(scan, what);
    size_t length = 0;
    while (is_word_byte(scan->at[length]))
        length++;
    if (length == 0 || isdigit((unsigned char)*scan->at) || *scan->at == '.')
        return scan_expected(scan, what);
    scan->word.length = 0;
    text_add_bytes(&scan->word, scan->at, length);
    scan->at += length;
    return text_status(&scan->word);
}

/* -- numbers ----------------------------------------------------------------------------------- */

phasor_status scan_integer(struct scan *scan, int64_t low, int64_t high, const char *what,
                           int64_t *out)
{
    scan_blanks(scan);
    const char *digits = scan->at + (*scan->at == '-');
    if (!isdigit((unsigned char)*digits))
        return scan_expected(scan, what);
    char *end;
    errno = 0;
    const long long number = strtoll(scan->at, &end, 10);
    if (errno || number < low || number > high)
        return scan_fail(scan, "%s is %.*s; it must be in %" PRId64 "..%" PRId64, what,
                         (int)(end - scan->at > 40 ? 40 : end - scan->at), scan->at, low, high);
    scan->at = end;
    *out = number;
    return PHASOR_OK;
}

static phasor_status scan_real(struct scan *scan, double *out)
{
    scan_blanks(scan);
    const char *first = scan->at + (*scan->at == '-' || *scan->at == '+');
    const bool named = strncmp(first, "inf", 3) == 0 || strncmp(first, "nan", 3) == 0;
    if (!named && !isdigit((unsigned char)*first) && *first != '.')
        return scan_expected(scan, "a number");
    char *end;
    *out = number_read(scan->at, &end);
    if (end == scan->at)
        return scan_expected(scan, "a number");
    if (isinf(*out) && !named)
        return scan_fail(scan, "the number %.*s is too large",
                         (int)(end - scan->at > 40 ? 40 : end - scan->at), scan->at);
    scan->at = end;
    return PHASOR_OK;
}

/* "1.5", "1.5-2j" or "2j" */
static phasor_status scan_complex(struct scan *scan, struct number *out)
{
    TRY(scan_real(scan, &out->re));
    if (*scan->at == 'j') {
        scan->at++;
        out->im = out->re;
        out->re = 0;
    } else if (*scan->at == '+' || *scan->at == '-') {
        TRY(scan_real(scan, &out->im));
        if (*scan->at++ != 'j')
            return scan->at--, scan_expected(scan, "'j' after an imaginary part");
    }
    return PHASOR_OK;
}

phasor_status scan_number(struct scan *scan, enum dtype dtype, struct number *out)
{
    *out = (struct number){0};
    if (dtype == DT_bool && (scan_take_word(scan, "true") || scan_take_word(scan, "false"))) {
        out->i = scan->at[-2] == 'u';
        return PHASOR_OK;
    }
    if (dtype_is_integer(dtype))
        TRY(scan_integer(scan, INT64_MIN, INT64_MAX, "a whole number", &out->i));
    else if (dtype_is_complex(dtype))
        TRY(scan_complex(scan, out));
    else
        TRY(scan_real(scan, &out->re));
    return is_word_byte(*scan->at) ? scan_expected(scan, "the end of the number") : PHASOR_OK;
}

/* -- sizes ------------------------------------------------------------------------------------- */

static phasor_status size_comparison(struct scan *scan, dim *out);

/* What went wrong in the pool since it was last well. */
static phasor_status size_check(const struct scan *scan)
{
    const phasor_status status = sizes_status(scan->sizes);
    return status == PHASOR_OK ? PHASOR_OK : scan_fail_in(scan, status);
}

static phasor_status size_call(struct scan *scan, enum size_kind kind, dim *out)
{
    dim a = 0, b = 0;
    TRY(size_comparison(scan, &a));
    TRY(scan_expect(scan, ","));
    TRY(size_comparison(scan, &b));
    TRY(scan_expect(scan, ")"));
    *out = size_binary(scan->sizes, kind, a, b);
    return size_check(scan);
}

static phasor_status size_of_symbol(struct scan *scan, dim *out)
{
    bool found;
    const char *name = text_get(&scan->word);
    *out = size_find_symbol(scan->sizes, name, &found);
    if (found)
        return PHASOR_OK;
    if (!scan->declare)
        return scan_fail(
            scan,
            "no symbol '%s'; declare it (symbol %s in 1..512 = 33) or use it in a dim of an input",
            name, name);
    if (scan->sizes->symbols.count >= SCAN_SYMBOLS_MAX)
        return scan_fail(scan, "more than %d symbols", SCAN_SYMBOLS_MAX);
    *out = size_symbol(scan->sizes, name, 0, INT64_MAX, 2);
    return size_check(scan);
}

static phasor_status size_word(struct scan *scan, dim *out)
{
    static const struct {
        const char *name;
        enum size_kind kind;
    } calls[] = {{"floordiv", SIZE_FLOORDIV},
                 {"mod", SIZE_MOD},
                 {"min", SIZE_MINIMUM},
                 {"max", SIZE_MAXIMUM},
                 {"eq", SIZE_EQ},
                 {"ne", SIZE_NE},
                 {"lt", SIZE_LT},
                 {"le", SIZE_LE},
                 {"and", SIZE_AND},
                 {"or", SIZE_OR},
                 {"pow", SIZE_POW}};
    TRY(scan_name(scan, "a size"));
    if (*scan->at != '(')
        return size_of_symbol(scan, out);
    scan->at++;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(text_get(&scan->word), calls[i].name) == 0)
            return size_call(scan, calls[i].kind, out);
    return scan_fail(scan,
                     "no function '%s' of sizes; floordiv, mod, min, max, eq, ne, lt, le, and, or, "
                     "pow are known",
                     text_get(&scan->word));
}

/* A number, a symbol, a call or brackets, without signs before it. */
static phasor_status size_plain(struct scan *scan, dim *out)
{
    int64_t number = 0;
    if (isdigit((unsigned char)*scan->at) ||
        (*scan->at == '-' && isdigit((unsigned char)scan->at[1]))) {
        TRY(scan_integer(scan, INT64_MIN, INT64_MAX, "a size", &number));
        *out = size_literal(scan->sizes, number);
        return size_check(scan);
    }
    if (scan_take(scan, "(")) {
        TRY(size_comparison(scan, out));
        return scan_expect(scan, ")");
    }
    return size_word(scan, out);
}

static phasor_status size_atom(struct scan *scan, dim *out)
{
    bool negative = false;
    for (scan_blanks(scan); *scan->at == '-' && !isdigit((unsigned char)scan->at[1]);
         scan_blanks(scan)) {
        negative = !negative;
        scan->at++;
    }
    TRY(size_plain(scan, out));
    if (negative)
        *out = size_sub(scan->sizes, 0, *out);
    return size_check(scan);
}

static phasor_status size_term(struct scan *scan, dim *out)
{
    dim right = 0;
    TRY(size_atom(scan, out));
    for (;;) {
        const char mark = scan_take(scan, "*")    ? '*'
                          : scan_take(scan, "//") ? '/'
                          : scan_take(scan, "%")  ? '%'
                                                  : 0;
        if (!mark)
            return PHASOR_OK;
        TRY(size_atom(scan, &right));
        *out = mark == '*'   ? size_mul(scan->sizes, *out, right)
               : mark == '/' ? size_floordiv(scan->sizes, *out, right)
                             : size_binary(scan->sizes, SIZE_MOD, *out, right);
        TRY(size_check(scan));
    }
}

static phasor_status size_sum(struct scan *scan, dim *out)
{
    dim right = 0;
    TRY(size_term(scan, out));
    for (;;) {
        const char mark = scan_take(scan, "+") ? '+' : scan_take(scan, "-") ? '-' : 0;
        if (!mark)
            return PHASOR_OK;
        TRY(size_term(scan, &right));
        *out =
            mark == '+' ? size_add(scan->sizes, *out, right) : size_sub(scan->sizes, *out, right);
        TRY(size_check(scan));
    }
}

static phasor_status size_compared(struct scan *scan, dim *out)
{
    static const struct {
        const char *mark;
        enum size_kind kind;
        bool swapped; /* a > b is b < a */
    } marks[] = {{"==", SIZE_EQ, false}, {"!=", SIZE_NE, false}, {"<=", SIZE_LE, false},
                 {">=", SIZE_LE, true},  {"<", SIZE_LT, false},  {">", SIZE_LT, true}};
    dim right = 0;
    TRY(size_sum(scan, out));
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (scan_take(scan, marks[i].mark)) {
            TRY(size_sum(scan, &right));
            *out = marks[i].swapped ? size_binary(scan->sizes, marks[i].kind, right, *out)
                                    : size_binary(scan->sizes, marks[i].kind, *out, right);
            return size_check(scan);
        }
    return PHASOR_OK;
}

static phasor_status size_comparison(struct scan *scan, dim *out)
{
    if (scan->depth == DEPTH_MAX)
        return scan_fail(scan, "a size has more than %d brackets in one another", DEPTH_MAX);
    scan->depth++;
    const phasor_status status = size_compared(scan, out);
    scan->depth--;
    return status;
}

phasor_status scan_size(struct scan *scan, dim *out)
{
    scan->depth = 0;
    return size_comparison(scan, out);
}

phasor_status scan_sizes(struct scan *scan, dim *sizes, int room, int *count)
{
    *count = 0;
    TRY(scan_expect(scan, "["));
    if (scan_take(scan, "]"))
        return PHASOR_OK;
    do {
        if (*count == room)
            return scan_fail(scan, "more than %d sizes", room);
        TRY(scan_size(scan, &sizes[(*count)++]));
    } while (scan_take(scan, ","));
    return scan_take(scan, "]") ? PHASOR_OK : scan_expected(scan, "',' or ']'");
}

phasor_status scan_type(struct scan *scan, struct scan_tensor *out)
{
    TRY(scan_name(scan, "a type (f32[2, s0])"));
    if (!dtype_parse(text_get(&scan->word), scan->word.length, &out->dtype))
        return scan_fail(
            scan,
            "no dtype '%s'; bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128 are known",
            text_get(&scan->word));
    TRY(scan_sizes(scan, out->shape, RANK_MAX, &out->rank));
    for (int d = 0; d < out->rank; d++)
        if (size_value(scan->sizes, out->shape[d]) < 0)
            return scan_fail(scan, "dim %d of a tensor is %" PRId64 "; sizes are not negative", d,
                             size_value(scan->sizes, out->shape[d]));
    return PHASOR_OK;
}
