/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes writing, and reading what was written. The input declares tensors and metadata, names the options, and then says in
 * which pieces and in which order the bytes come. A plain model of the same (lists, and a flag for every byte) says what must
 * be refused, and what the file must hold.
 *
 *   alignment u8, slack u8, largest header u8, tensors u8, pairs u8
 *   tensor     dtype u8, rank u8, dimension u8 each, length of the name u8, name
 *   pair       length of the key u8, length of the value u8, key, value
 *   piece      tensor u8, offset u8, size u8; a tensor of 0xFF: everything that is missing still
 */
#include "coffer.h"
#include "fuzz_input.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 8
#define MAX_PAIRS 4
#define MAX_DIMENSIONS 5
#define MAX_DATA 4096 /* bytes, of files that are written */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- the input ---- */

/* As many of `wanted` bytes as are left. */
static const char *next_text(fuzz_input *in, size_t wanted, size_t *taken)
{
    const char *text = (const char *)in->bytes + in->at;
    const size_t left = in->size - in->at;
    *taken = wanted < left ? wanted : left;
    in->at += *taken;
    return text;
}

/* ---- the plain model of a file ---- */

typedef struct plain_tensor {
    const char *name;
    size_t name_len;
    coffer_dtype dtype;
    size_t rank;
    uint64_t shape[MAX_DIMENSIONS];
    uint64_t size;
    size_t at; /* in `data`, once the header is built */
} plain_tensor;

typedef struct plain_pair {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
} plain_pair;

typedef struct plain_file {
    size_t tensor_count;
    size_t pair_count;
    plain_tensor tensors[MAX_TENSORS];
    plain_pair pairs[MAX_PAIRS];
    uint8_t written[MAX_DATA]; /* of the data: 1 where a byte was written */
} plain_file;

/* Negative, 0 or positive as the bytes of `a` come before, are, or come after those of `b`. */
static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const size_t common = a_len < b_len ? a_len : b_len;
    const int order = common == 0 ? 0 : memcmp(a, b, common);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* Whether a text is UTF-8: the standard's table of what may follow which byte, written down. */
static bool is_utf8(const char *text, size_t text_len)
{
    const uint8_t *bytes = (const uint8_t *)text;
    for (size_t i = 0; i < text_len;) {
        const uint8_t lead = bytes[i++];
        const size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || more > text_len - i) {
            return false;
        }
        uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        for (size_t k = 0; k < more; k++, i++) {
            if (bytes[i] < least || bytes[i] > most) {
                return false;
            }
            least = 0x80;
            most = 0xBF;
        }
    }
    return true;
}

/* Why a declaration must be refused; several reasons count in the order in which they are written here. */
static coffer_status judge_tensor(plain_tensor *tensor)
{
    static const char reserved[] = "__metadata__";
    if (!is_utf8(tensor->name, tensor->name_len)) {
        return COFFER_ERR_UTF8;
    }
    if (compare(tensor->name, tensor->name_len, reserved, sizeof reserved - 1) == 0) {
        return COFFER_ERR_NAME;
    }
    const uint32_t bits = coffer_dtype_bits(tensor->dtype);
    if (bits == 0) {
        return COFFER_ERR_DTYPE;
    }
    uint64_t product = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] != 0 && product > UINT64_MAX / tensor->shape[i]) {
            return COFFER_ERR_OVERFLOW;
        }
        product *= tensor->shape[i];
    }
    if (product > UINT64_MAX / bits) {
        return COFFER_ERR_OVERFLOW;
    }
    tensor->size = product * bits / 8;
    return product * bits % 8 == 0 ? COFFER_OK : COFFER_ERR_PARTIAL_BYTE;
}

/* ---- declaring ---- */

static void declare_tensor(fuzz_input *in, coffer_header *header, plain_file *file)
{
    plain_tensor tensor = { .size = 0 };
    tensor.dtype = (coffer_dtype)(next_byte(in) % (COFFER_DTYPE_COUNT + 2));
    tensor.rank = next_byte(in) % (MAX_DIMENSIONS + 1);
    for (size_t i = 0; i < tensor.rank; i++) {
        const uint8_t dimension = next_byte(in);
        tensor.shape[i] = dimension < 0xC0 ? dimension % 16 : UINT64_MAX >> (dimension % 64);
    }
    const size_t wanted = next_byte(in) % 20;
    tensor.name = next_text(in, wanted, &tensor.name_len);
    const coffer_status due = judge_tensor(&tensor);
    coffer_error err;
    const coffer_status status =
        coffer_header_add(header, tensor.name, tensor.name_len, tensor.dtype, tensor.shape, tensor.rank, &err);
    expect(status == due, "a declaration is refused for the right reason, or taken");
    expect(status == COFFER_OK || err.code == status, "the error has the code");
    if (status == COFFER_OK) {
        file->tensors[file->tensor_count++] = tensor;
    }
    expect(coffer_header_count(header) == file->tensor_count, "what was taken is counted");
}

static void declare_pair(fuzz_input *in, coffer_header *header, plain_file *file)
{
    plain_pair pair;
    const size_t key_len = next_byte(in) % 12;
    const size_t value_len = next_byte(in) % 24;
    pair.key = next_text(in, key_len, &pair.key_len);
    pair.value = next_text(in, value_len, &pair.value_len);
    const bool good = is_utf8(pair.key, pair.key_len) && is_utf8(pair.value, pair.value_len);
    const coffer_status status =
        coffer_header_set_metadata(header, pair.key, pair.key_len, pair.value, pair.value_len, NULL);
    expect(status == (good ? COFFER_OK : COFFER_ERR_UTF8), "metadata are taken when they are UTF-8");
    if (!good) {
        return;
    }
    size_t at = 0;
    while (at < file->pair_count &&
           compare(pair.key, pair.key_len, file->pairs[at].key, file->pairs[at].key_len) != 0) {
        at++;
    }
    file->pairs[at] = pair;
    file->pair_count += at == file->pair_count;
}

/* ---- the header ---- */

static bool has_duplicates(const plain_file *file)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (compare(file->tensors[i].name, file->tensors[i].name_len, file->tensors[k].name,
                        file->tensors[k].name_len) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Whether all sizes, and `more`, add up within 64 bits; then *sum is that of the sizes. */
static bool sizes_fit(const plain_file *file, uint64_t more, uint64_t *sum)
{
    *sum = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (file->tensors[i].size > UINT64_MAX - more - *sum) {
            return false;
        }
        *sum += file->tensors[i].size;
    }
    return true;
}

static bool comes_before(const coffer_tensor *a, const coffer_tensor *b)
{
    return a->dtype != b->dtype ? a->dtype > b->dtype : compare(a->name, a->name_len, b->name, b->name_len) < 0;
}

static void check_table(const coffer_table *table, const plain_file *file)
{
    expect(coffer_table_count(table) == file->tensor_count, "every tensor is there");
    for (size_t i = 0; i < file->tensor_count; i++) {
        const plain_tensor *plain = &file->tensors[i];
        const coffer_tensor *tensor = coffer_table_find(table, plain->name, plain->name_len);
        expect(tensor != NULL && tensor->dtype == plain->dtype && tensor->size == plain->size, "tensors are the same");
        expect(tensor->rank == plain->rank, "ranks are the same");
        expect(plain->rank == 0 || memcmp(tensor->shape, plain->shape, plain->rank * sizeof plain->shape[0]) == 0,
               "shapes are the same");
    }
    expect(coffer_table_metadata_count(table) == file->pair_count, "every key is there");
    for (size_t i = 0; i < file->pair_count; i++) {
        const plain_pair *plain = &file->pairs[i];
        size_t value_len = 0;
        const char *value = coffer_table_metadata_get(table, plain->key, plain->key_len, &value_len);
        expect(value != NULL && compare(value, value_len, plain->value, plain->value_len) == 0, "values are the same");
    }
}

static void check_layout(const coffer_header *header, const coffer_table *table, const plain_file *file,
                         const coffer_header_options *options)
{
    const uint64_t alignment = options->alignment == 0 ? 8 : options->alignment;
    expect(coffer_table_data_offset(table) % alignment == 0, "the data begin where they should");
    expect(coffer_table_slack(table) >= options->slack, "there is as much slack as was asked for");
    for (size_t i = 0; i < file->tensor_count; i++) {
        const plain_tensor *plain = &file->tensors[i];
        const coffer_tensor *tensor = coffer_header_at(header, i);
        expect(tensor == coffer_table_find(table, plain->name, plain->name_len), "tensors keep their numbers");
        const coffer_tensor *second = coffer_table_at(table, i + 1);
        /* Empty tensors share their place with what follows, and the table has them first. */
        if (second != NULL && coffer_table_at(table, i)->size > 0 && second->size > 0) {
            expect(comes_before(coffer_table_at(table, i), second), "tensors are in the canonical order");
        }
    }
    expect(coffer_header_at(header, file->tensor_count) == NULL, "there is nothing behind the last");
}

/* Builds the header, and checks that it could be or could not. NULL when it could not. */
static const coffer_table *build(coffer_header *header, const plain_file *file, const coffer_header_options *options,
                                 const void **bytes, uint64_t *size)
{
    const coffer_table *table = NULL;
    coffer_error err;
    const coffer_status status = coffer_header_build(header, options, bytes, size, &table, &err);
    uint64_t sum = 0;
    if (status == COFFER_ERR_HEADER_TOO_LARGE) {
        expect(options->max_header_size != 0 && err.actual > options->max_header_size, "it is larger than the limit");
        return NULL;
    }
    if (status == COFFER_ERR_OVERFLOW) {
        expect(!sizes_fit(file, 0, &sum), "sizes overflow when they add up to too much");
        return NULL;
    }
    if (status == COFFER_ERR_RANGE) {
        expect(!sizes_fit(file, 16, &sum), "the file's end overflows when the sizes add up to nearly too much");
        return NULL;
    }
    if (status == COFFER_ERR_DUPLICATE_NAME) {
        expect(has_duplicates(file), "there are duplicates");
        return NULL;
    }
    expect(status == COFFER_OK && !has_duplicates(file), "what can be built is built");
    expect(sizes_fit(file, *size, &sum) && sum == coffer_table_data_size(table),
           "the data are as large as the tensors");
    expect(*size == coffer_table_data_offset(table), "the header's bytes end where the data begin");
    check_table(table, file);
    check_layout(header, table, file, options);
    coffer_table *copy = NULL;
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.file_size = *size + sum;
    expect(coffer_parse(&copy, NULL, *bytes, (size_t)*size, coffer_libc_allocator(), &parse, NULL) == COFFER_OK,
           "what was built can be read");
    check_table(copy, file);
    coffer_table_free(copy);
    return table;
}

/* ---- the data ---- */

static uint8_t data_byte(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + 1);
}

/* One piece: refused when the model says so. Returns whether the writer lives. */
static bool write_piece(coffer_writer *writer, plain_file *file, size_t i, uint64_t offset, uint64_t size)
{
    uint8_t bytes[256] = { 0 };
    const plain_tensor *tensor = i < file->tensor_count ? &file->tensors[i] : NULL;
    coffer_status due = tensor == NULL ? COFFER_ERR_ARGUMENT : COFFER_OK;
    if (tensor != NULL && (offset > tensor->size || size > tensor->size - offset)) {
        due = COFFER_ERR_WRITE_RANGE;
    }
    for (size_t k = 0; due == COFFER_OK && k < size; k++) {
        const size_t at = tensor->at + (size_t)offset + k;
        bytes[k] = data_byte(at);
        due = file->written[at] ? COFFER_ERR_WRITE_RANGE : COFFER_OK;
    }
    coffer_error err;
    const coffer_status status = coffer_writer_write(writer, i, offset, bytes, size, &err);
    expect(status == due, "a piece is taken when it is inside and new, and only then");
    if (status != COFFER_OK) {
        expect(err.code == status, "the error has the code");
        expect(coffer_writer_write(writer, 0, 0, bytes, 0, NULL) == COFFER_ERR_ARGUMENT, "what failed has failed");
        expect(coffer_writer_finish(writer, NULL) == COFFER_ERR_ARGUMENT, "what failed cannot be finished");
        return false;
    }
    if (size > 0) {
        memset(file->written + tensor->at + (size_t)offset, 1, (size_t)size);
    }
    return true;
}

/* Writes what is missing, from the last run of missing bytes to the first. */
static void write_missing(coffer_writer *writer, plain_file *file)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        const plain_tensor *tensor = &file->tensors[i];
        for (uint64_t end = tensor->size; end > 0;) {
            if (file->written[tensor->at + end - 1]) {
                end--;
                continue;
            }
            uint64_t begin = end - 1;
            while (begin > 0 && end - begin < 256 && !file->written[tensor->at + begin - 1]) {
                begin--;
            }
            expect(write_piece(writer, file, i, begin, end - begin), "what is missing can be written");
            end = begin;
        }
    }
}

static void check_file(const uint8_t *image, size_t image_size, const plain_file *file, size_t data_offset)
{
    coffer *model = NULL;
    expect(coffer_open_memory(&model, image, image_size, NULL, NULL) == COFFER_OK, "what was written can be opened");
    check_table(coffer_shard_table(model, 0), file);
    for (size_t i = data_offset; i < image_size; i++) {
        expect(image[i] == data_byte(i - data_offset), "every byte is where it should be");
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        const plain_tensor *plain = &file->tensors[i];
        const coffer_tensor *tensor = coffer_find(model, plain->name, plain->name_len);
        uint8_t bytes[MAX_DATA];
        expect(tensor != NULL && coffer_data(model, tensor, NULL) == image + tensor->offset, "data are where they are");
        expect(tensor->offset == data_offset + plain->at, "tensors are where they were said to be");
        expect(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL) == COFFER_OK, "tensors can be read");
        expect(memcmp(bytes, image + tensor->offset, (size_t)tensor->size) == 0, "what is read is what was written");
    }
    coffer_close(model);
}

/* Writes the pieces that the rest of the input names. */
static void write_file(fuzz_input *in, coffer_header *header, plain_file *file, size_t data_offset, size_t data_size)
{
    const size_t image_size = data_offset + data_size;
    uint8_t *image = malloc(image_size);
    expect(image != NULL, "there is memory");
    coffer_writer *writer = NULL;
    expect(coffer_writer_open_memory(&writer, header, image, image_size - 1, NULL, NULL) != COFFER_OK,
           "a file needs its size");
    expect(coffer_writer_open_memory(&writer, header, image, image_size, NULL, NULL) == COFFER_OK, "a file is opened");
    bool lives = true;
    while (lives && in->at < in->size) {
        const uint8_t i = next_byte(in);
        if (i == 0xFF) {
            write_missing(writer, file);
            continue;
        }
        const uint64_t offset = next_byte(in);
        const uint8_t size = next_byte(in);
        const bool beyond = offset == 0xFF && size == 0xFF;
        lives = write_piece(writer, file, i, beyond ? UINT64_MAX : offset, size);
    }
    if (lives) {
        const bool complete = data_size == 0 || memchr(file->written, 0, data_size) == NULL;
        coffer_error err;
        const coffer_status status = coffer_writer_finish(writer, &err);
        expect(status == (complete ? COFFER_OK : COFFER_ERR_MISSING_DATA), "a file is finished when it is complete");
        if (complete) {
            check_file(image, image_size, file, data_offset);
        } else {
            const uint8_t *gap = memchr(file->written, 0, data_size);
            expect(err.offset == data_offset + (size_t)(gap - file->written),
                   "the first byte that is missing is named");
        }
    }
    coffer_writer_free(writer);
    free(image);
}

/* ---- the target ---- */

static coffer_header_options next_options(fuzz_input *in)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    const uint8_t alignment = next_byte(in);
    /* Mostly small: every byte of padding is read again and again. */
    options.alignment = alignment == 0xFF ? 4096 : alignment % 8 < 3 ? 0 : (uint64_t)1 << alignment % 8;
    options.slack = next_byte(in) % 64;
    const uint8_t limit = next_byte(in);
    options.max_header_size = limit < 0xC0 ? 0 : (uint64_t)(limit - 0xC0) * 8 + 16;
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input in = { bytes, size, 0 };
    plain_file file;
    file.tensor_count = 0;
    file.pair_count = 0;
    coffer_header *header = NULL;
    expect(coffer_header_new(&header, coffer_libc_allocator(), NULL) == COFFER_OK, "there is memory");
    const coffer_header_options options = next_options(&in);
    const size_t tensors = next_byte(&in) % (MAX_TENSORS + 1);
    const size_t pairs = next_byte(&in) % (MAX_PAIRS + 1);
    for (size_t i = 0; i < tensors; i++) {
        declare_tensor(&in, header, &file);
    }
    for (size_t i = 0; i < pairs; i++) {
        declare_pair(&in, header, &file);
    }
    const void *text = NULL;
    uint64_t data_offset = 0;
    const coffer_table *table = build(header, &file, &options, &text, &data_offset);
    if (table != NULL && coffer_table_data_size(table) <= MAX_DATA) {
        const size_t data_size = (size_t)coffer_table_data_size(table);
        memset(file.written, 0, data_size);
        for (size_t i = 0; i < file.tensor_count; i++) {
            file.tensors[i].at = (size_t)(coffer_header_at(header, i)->offset - data_offset);
        }
        write_file(&in, header, &file, (size_t)data_offset, data_size);
    }
    coffer_header_free(header);
    return 0;
}
