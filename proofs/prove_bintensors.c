/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header parser, whole, for bintensors: from the file's first byte to the table, which is walked and freed. Its inputs
 * are headers in which every question mark stands for any byte at all, where memory may run out; and others without one, where
 * it does not, some of them cut at every byte. All in both layouts.
 */
#include "format.h"
#include "prove.h"
#include "prove_edit.h"
#include "prove_window.h"

static const prove_piece prove_headers[] = {
    PROVE_PIECE("?"),
    PROVE_PIECE("\0?"),
    PROVE_PIECE("\0\0 ?"),
    PROVE_PIECE("\1\1\1?\1v\0"),
    PROVE_PIECE("\1\2\1k\0\1k\0\0"),
    PROVE_PIECE("\0\1\1a?\1\1\0\1"),
    PROVE_PIECE("\0\1\1a\1\1\1\0?"),
    PROVE_PIECE("\0\1\2\xC3?\1\0\0"),
    PROVE_PIECE("\0\1\1a\x0B\2\2\1\0\x08 "),
    PROVE_PIECE("\0\2\1a\x06\1\0\0\0\1a\1\0\0\1"),
    PROVE_PIECE("\0\1\1a\1\1\xFB?\0\0\1"),
    PROVE_PIECE("\0\1\1a\1\1\xFC\1\0\0\0\0\1"),
    PROVE_PIECE("\0\1\0\1\1\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\1"),
    PROVE_PIECE("\0\1\1\0\0\1\1\1a\0"),
    PROVE_PIECE("\0\1\1\0\0\1\1\1a?"),
    PROVE_PIECE("\0\2\1\0\0\1\1\0\1\2\2\1b\1\1a\0 "),
};

/* So many spaces that a tensor before them is far enough from the header's end to be read as a usual one. */
#define SPACES "                                                                                                    "

/* A number of eight bytes, most of them FF; and a tensor of 2^61-1 bytes between two of those. */
#define WIDE(low, high) "\xFD" low "\xFF\xFF\xFF\xFF\xFF" high
#define FAR(begin_low, begin_high, end_low, end_high)                                                                  \
    "\1a\1\1" WIDE("\xFF\xFF", "\x1F") WIDE(begin_low "\xFF", begin_high) WIDE(end_low "\xFF", end_high)

static const prove_piece prove_chosen[] = {
    /* usual tensors: every width of a number, and what makes a tensor unusual after all */
    PROVE_PIECE("\0\2\1a\1\1\4\0\4\2bc\x0B\2\1\1\4\x08" SPACES),
    PROVE_PIECE("\0\2\1a\1\1\xFB\x2C\1\0\xFB\x2C\1\1b\x0B\0\xFB\x2C\1\xFB\x30\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\xFC\0\0\1\0\0\xFC\0\0\1\0" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\xFD\0\0\0\0\1\0\0\0\0\xFD\0\0\0\0\1\0\0\0" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\xFB\1\0\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\xFC\1\0\0\0\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\xFE\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\1\xFE\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\1\0\xFE" SPACES),
    PROVE_PIECE("\0\1\1a\1\xFE\1\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\x0F\1\1\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\xFB\1\0\1\1\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\xFD\1\0\0\0\0\0\0\0\1\1\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\x09\1\1\1\1\1\1\1\1\1\0\1" SPACES),
    PROVE_PIECE("\0\1\x12"
                "eighteen letters a\1\1\1\0\1" SPACES),
    PROVE_PIECE("\0\1\x04\xC3\xA9\x01x\1\1\1\0\1" SPACES),
    /* layout A, where the names are behind the tensors, in any order; and what may be wrong with them */
    PROVE_PIECE("\1\2\1k\1v\1l\0\2\1\1\1\0\1\1\0\1\2\2\1b\1\3\1xy\0" SPACES),
    PROVE_PIECE("\0\2\1\0\0\0\1\0\0\0\2\1b\1\1b\0" SPACES),
    PROVE_PIECE("\0\2\1\0\0\0\1\0\0\0\2\1b\0\1c\0" SPACES),
    PROVE_PIECE("\0\2\1\0\0\0\1\0\0\0\2\1b\0\1c\2" SPACES),
    PROVE_PIECE("\0\2\1\0\0\0\1\0\0\0\2\1b\2\1c\0" SPACES),
    PROVE_PIECE("\0\2\1\0\0\0\1\0\0\0\1\1b\0\1c\2" SPACES),
    PROVE_PIECE("\0\1\1\1\1\0\2\1\1b\0"),
    /* ranges that are not right */
    PROVE_PIECE("\0\1\1a\1\1\1\1\2" SPACES),
    PROVE_PIECE("\0\2\1a\1\1\2\0\2\1b\1\1\1\1\2" SPACES),
    PROVE_PIECE("\0\2\1a\1\1\2\0\2\1b\1\1\1\4\2" SPACES),
    PROVE_PIECE("\0\2\1a\1\1\2\0\2\1b\1\1\1\2\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\1\2\0\1" SPACES),
    PROVE_PIECE("\0\1\1a\1\2\xFC\0\0\0\1\xFD\0\0\0\0\0\0\0\1\0\0"),
    PROVE_PIECE("\0\1\1a\1\1\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
    PROVE_PIECE("\0\1\1a\1\1\xFD\0\0\0\0\0\0\0\x10\0\xFD\0\0\0\0\0\0\0\x10"),
    /* what comes twice, in other case, not at a multiple of its size, without a name */
    PROVE_PIECE("\1\2\1k\1v\1k\1w\0"),
    PROVE_PIECE("\0\2\1a\1\0\0\1\1a\1\0\1\2"),
    PROVE_PIECE("\0\3\1a\1\0\0\1\0\x0B\0\1\5\1A\1\0\5\6" SPACES),
    /* data that reach to 2^64-1 and beyond it */
    PROVE_PIECE("\0\x09\1a\1\1" WIDE("\xFF\xFF", "\x1F") "\0" WIDE("\xFF\xFF", "\x1F") FAR(
        "\xFF", "\x1F", "\xFE", "\x3F") FAR("\xFE", "\x3F", "\xFD", "\x5F") FAR("\xFD", "\x5F", "\xFC", "\x7F")
                    FAR("\xFC", "\x7F", "\xFB", "\x9F") FAR("\xFB", "\x9F", "\xFA", "\xBF")
                        FAR("\xFA", "\xBF", "\xF9", "\xDF") "\1a\1\1" WIDE("\xFF\xFB", "\x1F") WIDE("\xF9\xFF", "\xDF")
                            WIDE("\xF8\xFB", "\xFF") "\1a\1\1\xFB\xD0\x07" WIDE("\xF8\xFB", "\xFF") "\xFB\xC8\3"),
    PROVE_PIECE("\0\x08\1a\1\1" WIDE("\xFF\xFF", "\x1F") "\0" WIDE("\xFF\xFF", "\x1F") FAR(
        "\xFF", "\x1F", "\xFE", "\x3F") FAR("\xFE", "\x3F", "\xFD", "\x5F") FAR("\xFD", "\x5F", "\xFC", "\x7F")
                    FAR("\xFC", "\x7F", "\xFB", "\x9F") FAR("\xFB", "\x9F", "\xFA", "\xBF")
                        FAR("\xFA", "\xBF", "\xF9", "\xDF") FAR("\xF9", "\xDF", "\xF8", "\xFF")),
    /* several items, the first of them wrong */
    PROVE_PIECE("\1\2\1k\xFEv\1k\1v\0"),
    PROVE_PIECE("\0\2\1a\1\2\xFE\1\1\1\1" SPACES),
    PROVE_PIECE("\0\2\1\1\1\0\1\1\1\1\0\1\2\1a\1\1b\xFE" SPACES),
    /* hidden bytes, and none of the two layouts */
    PROVE_PIECE("\0\0  x "),
    PROVE_PIECE("\0\0\0 x"),
    PROVE_PIECE("\2\0"),
};

/* Cut at every byte. */
static const prove_piece prove_cut[] = {
    PROVE_PIECE("\1\1\1k\xFB\1\0v\1\1a\1\1\xFC\1\0\0\0\0\xFD\1\0\0\0\0\0\0\0"),
    PROVE_PIECE("\1\1\1k\1v\1\1\1\xFC\1\0\0\0\0\1\1\2bc\0"),
};

/* What takes more of the table than of the header, so that the table has to grow: pairs, dimensions, usual tensors. */
static const prove_repetition prove_growing[] = {
    { PROVE_PIECE("\1\x46"), PROVE_PIECE("\0\0"), 70, PROVE_PIECE("\0") },
    { PROVE_PIECE("\0\1\1a\1\x8C"), PROVE_PIECE("\1"), 140, PROVE_PIECE("\0\1") },
    { PROVE_PIECE("\0\x0E"), PROVE_PIECE("\1a\1\x08\1\1\1\1\1\1\1\1\0\1"), 14, PROVE_PIECE(SPACES) },
    { PROVE_PIECE("\0\2\1\x8C"), PROVE_PIECE("\1"), 140, PROVE_PIECE("\0\1\1\0\1\2\2\1a\0\1b\1") },
};

/* ---- reading them ---- */

static void prove_file(const uint8_t *bytes, size_t size, coffer_format format, bool hidden_bytes,
                       const coffer_allocator *allocator)
{
    coffer_error err;
    coffer_table *table = NULL;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = format;
    options.hidden_bytes = hidden_bytes;
    options.all_notes = true;
    if (coffer__parse_header(&table, NULL, bytes, size, allocator, &options, &err) == COFFER_OK) {
        //@ loop unroll 30;
        for (size_t i = 0; i < coffer_table_count(table); i++) {
            const coffer_tensor *tensor = coffer_table_at(table, i);
            coffer_table_find(table, tensor->name, tensor->name_len);
        }
        coffer_table_metadata_get(table, "absent", 6, NULL);
        prove_edit(table, bytes);
    }
    coffer_table_free(table);
}

/* The header's first `size` bytes. */
static void prove_header(const prove_piece *header, size_t size, coffer_format format)
{
    const prove_repetition once = { { header->bytes, size }, PROVE_PIECE(""), 0, PROVE_PIECE("") };
    size_t file_size;
    uint8_t *bytes = prove_repeat(&once, &file_size);
    prove_file(bytes, file_size, format, format == COFFER_FORMAT_BINTENSORS_ALPHA, &prove_certain_allocator);
    free(bytes);
}

static void prove_any(const prove_piece *header, coffer_format format)
{
    uint8_t *bytes = prove_template(header->bytes, header->size, 8);
    bytes[0] = (uint8_t)header->size;
    prove_file(bytes, 8 + header->size, format, format == COFFER_FORMAT_BINTENSORS_ALPHA, &prove_allocator);
    free(bytes);
}

/* With memory for all of it, and with memory that runs out at one request or another; whole, and through a window. */
static void prove_growth(const prove_repetition *what, coffer_format format)
{
    size_t size;
    uint8_t *bytes = prove_repeat(what, &size);
    //@ loop unroll 4;
    for (size_t granted = 1; granted <= 4; granted++) {
        prove_granted = granted < 4 ? granted : SIZE_MAX;
        prove_file(bytes, size, format, true, &prove_failing_allocator);
    }
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = format;
    //@ loop unroll 2;
    for (size_t granted = 0; granted < 2; granted++) {
        prove_granted = granted;
        prove_window(bytes, size, 60, false, SIZE_MAX, &prove_failing_allocator, &options);
    }
    free(bytes);
}

#define PROVE_COUNT(list) (sizeof(list) / sizeof(list)[0])
#define PROVE_CUTS (PROVE_COUNT(prove_cut) * 32)

int main(void)
{
    static const coffer_format formats[] = { COFFER_FORMAT_BINTENSORS, COFFER_FORMAT_BINTENSORS_ALPHA };
    //@ loop unroll 2;
    for (size_t f = 0; f < PROVE_COUNT(formats); f++) {
        //@ loop unroll 100;
        for (size_t i = 0; i < PROVE_COUNT(prove_headers); i++) {
            if (prove_is_mine(i)) {
                prove_any(&prove_headers[i], formats[f]);
            }
        }
        //@ loop unroll 100;
        for (size_t i = 0; i < PROVE_COUNT(prove_chosen); i++) {
            if (prove_is_mine(i)) {
                prove_header(&prove_chosen[i], prove_chosen[i].size, formats[f]);
            }
        }
        //@ loop unroll 100;
        for (size_t i = 0; i < PROVE_CUTS; i++) {
            const prove_piece *cut = &prove_cut[i % PROVE_COUNT(prove_cut)];
            if (prove_is_mine(i) && i / PROVE_COUNT(prove_cut) <= cut->size) {
                prove_header(cut, i / PROVE_COUNT(prove_cut), formats[f]);
            }
        }
        //@ loop unroll 10;
        for (size_t i = 0; i < PROVE_COUNT(prove_growing); i++) {
            if (prove_is_mine(i)) {
                prove_growth(&prove_growing[i], formats[f]);
            }
        }
    }
    return 0;
}
