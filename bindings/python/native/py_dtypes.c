/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others call the dtypes: frameworks, DLPack, and the buffer protocol. No dtype is named here: all is derived from the columns
 * of the library's one table, so that a dtype that is new there is known here, too.
 */
#include "py_native.h"

#include "dtype_table.h"

#include <stdio.h>
#include <string.h>

typedef struct dtypes_row {
    const char *name;
    coffer_kind kind;
    unsigned bits;
    unsigned exponent;
    unsigned mantissa;
    const char *suffix; /* of the name of a narrow float: what it has of infinities and NaNs */
} dtypes_row;

/* The suffixes, by the column `special` of the table. */
#define DTYPES_NONE ""
#define DTYPES_IEEE ""
#define DTYPES_FN "fn"
#define DTYPES_FNUZ "fnuz"
#define DTYPES_FINITE "fn"
#define DTYPES_SCALE "fnu"

#define DTYPES_ROW(id, rank, bits, alignment, kind, exponent, mantissa, special, bias)                                 \
    [COFFER_##id] = { #id, COFFER_KIND_##kind, bits, exponent, mantissa, DTYPES_##special },
#define DTYPES_TAGGED_ROW(tag, ...) DTYPES_ROW(__VA_ARGS__)

static const dtypes_row dtypes_rows[COFFER_DTYPE_COUNT + 1] = { COFFER__DTYPES(DTYPES_ROW, DTYPES_TAGGED_ROW) };

static bool dtypes_is_narrow(const dtypes_row *row)
{
    return row->kind == COFFER_KIND_FLOAT && row->bits < 16;
}

static bool dtypes_is_bfloat(const dtypes_row *row)
{
    return row->kind == COFFER_KIND_FLOAT && row->bits == 16 && row->exponent == 8;
}

/* ---- Frameworks ---------------------------------------------------------------------------------------------------- */

/* numpy (with ml_dtypes), torch, tensorflow, jax and mlx agree on these names: the kind and the bits, and of narrow floats the
   layout, as in "float8_e4m3fn". Two elements of four bits are one of a framework, "_x2". Of six bits there is none: frameworks
   give such an element a byte of its own. An empty text where no framework has the dtype. */
static void dtypes_put_name(const dtypes_row *row, char *text, size_t size)
{
    static const char *const kinds[] = {
        [COFFER_KIND_UNSIGNED] = "uint",
        [COFFER_KIND_SIGNED] = "int",
        [COFFER_KIND_FLOAT] = "float",
        [COFFER_KIND_COMPLEX] = "complex",
    };
    if (row->kind == COFFER_KIND_BOOL) {
        (void)snprintf(text, size, "bool");
    } else if (!dtypes_is_narrow(row)) {
        (void)snprintf(text, size, "%s%s%u", dtypes_is_bfloat(row) ? "b" : "", kinds[row->kind], row->bits);
    } else if (8 % row->bits == 0) {
        (void)snprintf(text, size, "float%u_e%um%u%s%s", row->bits, row->exponent, row->mantissa, row->suffix,
                       row->bits == 4 ? "_x2" : "");
    } else {
        *text = '\0';
    }
}

PyObject *py_dtypes_of_frameworks(void)
{
    PyObject *names = PyDict_New();
    for (size_t i = 1; names != NULL && i <= COFFER_DTYPE_COUNT; i++) {
        char text[32];
        dtypes_put_name(&dtypes_rows[i], text, sizeof text);
        if (*text == '\0') {
            continue;
        }
        PyObject *name = PyUnicode_InternFromString(text);
        if (name == NULL || PyDict_SetItemString(names, dtypes_rows[i].name, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

/* ---- Casts ---------------------------------------------------------------------------------------------------------- */

/* A complex number is a float to those that are to be in its parts. A float of as many bits of the exponent has to have the same
   infinities and NaNs. */
static bool dtypes_is_exact_float(const dtypes_row *from, const dtypes_row *to)
{
    return from->mantissa <= to->mantissa &&
           (from->exponent < to->exponent || (from->exponent == to->exponent && strcmp(from->suffix, to->suffix) == 0));
}

/* Whether `to` has every number of `from`: the bits of an integer are those of its greatest power of two and below. */
static bool dtypes_is_exact(const dtypes_row *from, const dtypes_row *to)
{
    const bool whole = from->kind == COFFER_KIND_UNSIGNED || from->kind == COFFER_KIND_SIGNED;
    const unsigned bits = from->kind == COFFER_KIND_SIGNED ? from->bits - 1 : from->bits;
    if (from == to || from->kind == COFFER_KIND_NONE || to->kind == COFFER_KIND_NONE) {
        return from == to;
    }
    switch (to->kind) {
    case COFFER_KIND_UNSIGNED:
        return from->kind == COFFER_KIND_BOOL || (from->kind == COFFER_KIND_UNSIGNED && bits <= to->bits);
    case COFFER_KIND_SIGNED:
        return from->kind == COFFER_KIND_BOOL || (whole && bits <= to->bits - 1);
    case COFFER_KIND_FLOAT:
    case COFFER_KIND_COMPLEX:
        if (from->kind == COFFER_KIND_COMPLEX) {
            return to->kind == COFFER_KIND_COMPLEX && dtypes_is_exact_float(from, to);
        }
        if (from->kind == COFFER_KIND_BOOL || whole) {
            return to->mantissa > 0 && (whole ? bits : 1) <= to->mantissa + 1;
        }
        return dtypes_is_exact_float(from, to);
    default:
        return false;
    }
}

PyObject *py_is_exact(PyObject *module, PyObject *args)
{
    (void)module;
    const char *from = NULL;
    const char *to = NULL;
    if (!PyArg_ParseTuple(args, "ss:is_exact", &from, &to)) {
        return NULL;
    }
    return PyBool_FromLong(dtypes_is_exact(&dtypes_rows[coffer_dtype_from_name(from, strlen(from))],
                                           &dtypes_rows[coffer_dtype_from_name(to, strlen(to))]));
}

/* ---- DLPack -------------------------------------------------------------------------------------------------------- */

/* The layouts of narrow floats that DLPack has codes for, in their order: the first is 7. */
enum { DTYPES_FIRST_NARROW = 7 };

static const struct {
    unsigned exponent;
    unsigned mantissa;
    const char *suffix;
} dtypes_narrow[] = {
    { 3, 4, "" },     { 4, 3, "" },    { 4, 3, "b11fnuz" }, { 4, 3, "fn" }, { 4, 3, "fnuz" }, { 5, 2, "" },
    { 5, 2, "fnuz" }, { 8, 0, "fnu" }, { 2, 3, "fn" },      { 3, 2, "fn" }, { 2, 1, "fn" },
};

/* 0, which is an integer's, where there is none. */
static uint8_t dtypes_narrow_code(const dtypes_row *row)
{
    for (size_t i = 0; i < sizeof dtypes_narrow / sizeof dtypes_narrow[0]; i++) {
        if (dtypes_narrow[i].exponent == row->exponent && dtypes_narrow[i].mantissa == row->mantissa &&
            strcmp(dtypes_narrow[i].suffix, row->suffix) == 0) {
            return (uint8_t)(DTYPES_FIRST_NARROW + i);
        }
    }
    return 0;
}

/* Elements that do not fill a byte are told in lanes of one that does. Those of six bits are left out: consumers do not agree on how
   they are packed. */
py_dlpack_type py_dlpack_type_of(coffer_dtype dtype)
{
    static const uint8_t codes[] = {
        [COFFER_KIND_SIGNED] = 0,  [COFFER_KIND_UNSIGNED] = 1, [COFFER_KIND_FLOAT] = 2,
        [COFFER_KIND_COMPLEX] = 5, [COFFER_KIND_BOOL] = 6,
    };
    enum { BFLOAT = 4 };
    const dtypes_row *row = &dtypes_rows[dtype];
    if (row->kind == COFFER_KIND_NONE || (row->bits < 8 && 8 % row->bits != 0)) {
        return (py_dlpack_type){ 0, 0, 0 };
    }
    const uint16_t lanes = row->bits < 8 ? (uint16_t)(8 / row->bits) : 1;
    if (dtypes_is_narrow(row)) {
        const uint8_t code = dtypes_narrow_code(row);
        return (py_dlpack_type){ code, code == 0 ? 0 : (uint8_t)row->bits, lanes };
    }
    return (py_dlpack_type){ dtypes_is_bfloat(row) ? BFLOAT : codes[row->kind], (uint8_t)row->bits, lanes };
}

/* ---- The buffer protocol ------------------------------------------------------------------------------------------- */

/* Formats of the struct module, by the kind and the bytes of a number (1, 2, 4, 8); NULL where it has none. Files are little-endian,
   which needs saying only on other machines. */
const char *py_buffer_format_of(coffer_dtype dtype)
{
    static const char *const formats[][4] = {
        [COFFER_KIND_NONE] = { NULL },
        [COFFER_KIND_BOOL] = { "<?" },
        [COFFER_KIND_UNSIGNED] = { "<B", "<H", "<I", "<Q" },
        [COFFER_KIND_SIGNED] = { "<b", "<h", "<i", "<q" },
        [COFFER_KIND_FLOAT] = { NULL, "<e", "<f", "<d" },
        [COFFER_KIND_COMPLEX] = { NULL, NULL, "<Zf", "<Zd" },
    };
    const dtypes_row *row = &dtypes_rows[dtype];
    const unsigned bits = row->kind == COFFER_KIND_COMPLEX ? row->bits / 2 : row->bits;
    if (dtypes_is_bfloat(row) || bits > 64) {
        return NULL;
    }
    unsigned step = 0;
    while ((8u << step) < bits) {
        step++;
    }
    const char *format = formats[row->kind][step];
    return format == NULL || !PY_LITTLE_ENDIAN ? format : format + 1;
}
