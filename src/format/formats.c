/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of formats. A format's number is its row's, counted from 1, and part of the ABI:
   new formats come last. A new one needs a row here and a file of its own. */
#include "formats.h"

#include "text.h"

#include <string.h>

/* Each name stands for a coffer__NAME that the format's own file defines; the two macros below
   declare it and point to it. */
#define FORMAT_ROWS(ROW)                                                                                               \
    ROW(safetensors)                                                                                                   \
    ROW(bintensors)                                                                                                    \
    ROW(bintensors_alpha)

#define FORMAT_DECLARE(name) extern const coffer__format_ops coffer__##name;
#define FORMAT_POINT(name) &coffer__##name,

FORMAT_ROWS(FORMAT_DECLARE)

static const coffer__format_ops *const format_rows[] = { FORMAT_ROWS(FORMAT_POINT) };
#define FORMAT_COUNT (sizeof format_rows / sizeof format_rows[0])

/* NULL for COFFER_FORMAT_ANY and for a number that no format has; 0 wraps around to the largest row. */
static const coffer__format_ops *format_row(coffer_format number)
{
    const size_t row = (size_t)number - 1;
    return row < FORMAT_COUNT ? format_rows[row] : NULL;
}

const coffer__format_ops *coffer__format_at(coffer_format number)
{
    return number == COFFER_FORMAT_ANY ? format_rows[0] : format_row(number);
}

coffer_format coffer__format_sniff(const uint8_t *bytes, size_t size)
{
    /* Nearly any bytes could be a frame of the first formats, so these are asked last; the first is
       not asked at all. */
    for (size_t row = FORMAT_COUNT; row > 1; row--) {
        const coffer__format_ops *format = format_rows[row - 1];
        if (format->sniff != NULL && format->sniff(bytes, size)) {
            return (coffer_format)row;
        }
    }
    return (coffer_format)1;
}

/* ---- for everybody ---- */

const char *coffer_format_name(coffer_format format)
{
    const coffer__format_ops *row = format_row(format);
    return row != NULL ? row->name : "";
}

const char *coffer_format_id(coffer_format format)
{
    const coffer__format_ops *row = format_row(format);
    return row != NULL ? row->id : "";
}

coffer_format coffer_format_from_id(const char *id, size_t id_len)
{
    for (size_t row = 0; row < FORMAT_COUNT; row++) {
        const char *own = format_rows[row]->id;
        if (coffer__text_len(own) == id_len && memcmp(own, id, id_len) == 0) {
            return (coffer_format)(row + 1);
        }
    }
    return COFFER_FORMAT_ANY;
}

/* Counts up to the NULL after the last one, so that any `i` may be asked for. */
const char *coffer_format_ending(coffer_format format, size_t i)
{
    const coffer__format_ops *row = format_row(format);
    for (size_t at = 0; row != NULL && row->endings[at] != NULL; at++) {
        if (at == i) {
            return row->endings[at];
        }
    }
    return NULL;
}

/* A path that is only an ending is the name of a hidden file, not of that format. */
static bool format_has_ending(const coffer__format_ops *format, const char *path)
{
    for (size_t i = 0; format->endings[i] != NULL; i++) {
        if (coffer__text_has_ending(path, format->endings[i])) {
            return true;
        }
    }
    return false;
}

/* The first format that has the ending. Endings are compared with case, as names of files are. */
coffer_format coffer_format_from_path(const char *path)
{
    for (size_t row = 0; row < FORMAT_COUNT; row++) {
        if (format_has_ending(format_rows[row], path)) {
            return (coffer_format)(row + 1);
        }
    }
    return COFFER_FORMAT_ANY;
}

/* What a file of this format is written as: itself, or its successor when it is only read. */
coffer_format coffer_format_to_write(coffer_format format)
{
    const coffer__format_ops *row = format_row(format);
    if (row == NULL) {
        return COFFER_FORMAT_ANY;
    }
    return row->put != NULL ? format : row->successor;
}
