/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back: models become archives of arrays, arrays and checkpoints. What is written is read again by the readers
 * of this library, which refuse whatever two programs could read in two ways, and compared with the model; what torch
 * and NumPy make of it, the tests of the Python package ask them. Then everything that can fail while it is written.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIG ((uint64_t)9 << 20) /* more than is written at once */

static const coffer_export_format formats[] = { COFFER_EXPORT_NPZ, COFFER_EXPORT_TORCH };

/* ---- models ------------------------------------------------------------------------------------------------------ */

static const tensor_spec plain_specs[] = {
    { "f32", COFFER_F32, 2, { 2, 3 } },    { "scalar", COFFER_F64, 0, { 0 } },
    { "empty", COFFER_I64, 2, { 0, 4 } },  { "bf16", COFFER_BF16, 1, { 5 } },
    { "bool", COFFER_BOOL, 1, { 3 } },     { "c64", COFFER_C64, 1, { 2 } },
    { "u16", COFFER_U16, 3, { 1, 2, 1 } }, { "e5m2", COFFER_F8_E5M2, 1, { 4 } },
    { "big", COFFER_U8, 1, { BIG } },      { "a/b", COFFER_I8, 1, { 1 } },
    { "file", COFFER_I16, 1, { 1 } },      { "W", COFFER_F16, 1, { 1 } },
    { "w", COFFER_F16, 1, { 1 } },         { "x.npy", COFFER_U32, 1, { 1 } },
    { "", COFFER_U64, 1, { 1 } },          { "\xC3\xA9\xE2\x82\xAC", COFFER_I32, 1, { 1 } },
};
#define PLAIN_COUNT (sizeof plain_specs / sizeof plain_specs[0])

/* What torch has and NumPy has not. */
static const tensor_spec small_specs[] = {
    { "e4m3", COFFER_F8_E4M3, 1, { 3 } },
    { "e8m0", COFFER_F8_E8M0, 1, { 3 } },
    { "e4m3fnuz", COFFER_F8_E4M3FNUZ, 1, { 3 } },
    { "f4", COFFER_F4, 2, { 2, 6 } },
};

/* Writes a file of these tensors, byte k of which is pattern_byte(k), and pairs of metadata that end with NULL. */
static void write_model(const char *name, const tensor_spec *specs, size_t count, const char *const *pairs,
                        coffer_algorithm digests)
{
    coffer_header *header = header_of(specs, count, NULL);
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    coffer_error err;
    options.digests = digests;
    for (size_t i = 0; pairs != NULL && pairs[i] != NULL; i += 2) {
        assert_int_equal(
            coffer_header_set_metadata(header, pairs[i], strlen(pairs[i]), pairs[i + 1], strlen(pairs[i + 1]), &err),
            COFFER_OK);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), &options, &err), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_header_at(header, i);
        uint8_t *bytes = malloc((size_t)tensor->size + 1);
        assert_non_null(bytes);
        for (uint64_t k = 0; k < tensor->size; k++) {
            bytes[k] = specs[i].dtype == COFFER_BOOL ? k % 2 : pattern_byte(tensor->offset + k);
        }
        assert_int_equal(coffer_writer_write(writer, i, 0, bytes, tensor->size, &err), COFFER_OK);
        free(bytes);
    }
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static const char *const tied_pairs[] = {
    "format",   "w",          /* what every converter writes, although there is a tensor of that name */
    "tied",     "big",        /* a tie */
    "f32",      "w",          /* the name of a tensor */
    "licence",  "Apache-2.0", /* no tie */
    "tied too", "f32",        NULL,
};

static coffer *open_named(const char *name)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path(name), &options, NULL), COFFER_OK);
    return model;
}

static coffer *plain_model(void)
{
    write_model("model.safetensors", plain_specs, PLAIN_COUNT, tied_pairs, COFFER_NO_ALGORITHM);
    return open_named("model.safetensors");
}

/* ---- reading what was written ------------------------------------------------------------------------------------ */

typedef struct reading {
    coffer_input *input;
    coffer_import *import;
} reading;

static reading read_again(const char *name)
{
    reading made = { NULL, NULL };
    coffer_error err;
    memset(&err, 0, sizeof err);
    if (coffer_input_open(&made.input, work_path(name), NULL, &err) != COFFER_OK ||
        coffer_import_open(&made.import, made.input, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return made;
}

static void reading_free(reading *made)
{
    coffer_import_free(made->import);
    coffer_input_free(made->input);
}

/* The file has exactly the model's tensors with their bytes, and its CRCs are right. */
static void assert_holds(const char *name, const coffer *model, size_t aliases)
{
    reading made = read_again(name);
    const coffer_import_summary *summary = coffer_import_summarize(made.import);
    coffer_error err;
    assert_int_equal(summary->written_count, coffer_count(model));
    assert_int_equal(summary->alias_count, aliases);
    assert_int_equal(summary->danger_count + summary->opaque_count, 0);
    assert_int_equal(summary->unreferenced, 0);
    for (size_t i = 0; i < summary->tensor_count; i++) {
        const coffer_import_tensor *tensor = coffer_import_at(made.import, i);
        const coffer_tensor *own = coffer_find(model, tensor->name, tensor->name_len);
        assert_true(own != NULL || tensor->fate == COFFER_FATE_ALIAS);
        if (own != NULL) {
            assert_int_equal(tensor->dtype, own->dtype);
            assert_int_equal(tensor->rank, own->rank);
            assert_memory_equal(tensor->shape, own->shape, own->rank * sizeof *own->shape);
        }
    }
    assert_int_equal(coffer_import_verify(made.import, model, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_import_write(made.import, work_path("again.safetensors"), NULL, NULL, &err), COFFER_OK);
    reading_free(&made);
}

/* Offsets of tensors' bytes in the file are multiples of 64. */
static void assert_aligned(const char *name)
{
    size_t size = 0;
    size_t found = 0;
    uint8_t *bytes = file_read(name, &size);
    for (size_t at = 0; size - at > 30 && memcmp(bytes + at, "PK\3\4", 4) == 0; found++) {
        const size_t data = at + 30 + bytes[at + 26] + 256u * bytes[at + 27] + bytes[at + 28] + 256u * bytes[at + 29];
        uint32_t length = 0;
        for (unsigned k = 0; k < 4; k++) {
            length |= (uint32_t)bytes[at + 22 + k] << 8 * k;
        }
        assert_int_equal(data % 64, 0);
        at = data + length;
    }
    assert_true(found > 10);
    free(bytes);
}

static void test_archives_hold_the_model(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_export_options options = COFFER_EXPORT_OPTIONS_INIT;
    options.without_tied = true;
    for (size_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "model.npz" : "model.pt";
        uint64_t size = 0;
        coffer_error err;
        assert_int_equal(coffer_export_from_path(name), formats[i]);
        assert_int_equal(coffer_export(model, formats[i], work_path(name), &options, NULL, &err), COFFER_OK);
        assert_holds(name, model, 0);
        assert_aligned(name);
        struct stat info;
        assert_int_equal(stat(work_path(name), &info), 0);
        assert_int_equal(coffer_export_size(model, formats[i], &options, &size, &err), COFFER_OK);
        assert_int_equal(info.st_size, size);
    }
    coffer_close(model);
}

/* Names that were tied come back with the same storage, and what is written of that is the same file again. */
static void test_ties_come_back(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_error err;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_TORCH, work_path("model.pt"), NULL, NULL, &err), COFFER_OK);
    assert_holds("model.pt", model, 2);
    reading made = read_again("model.pt");
    size_t seen = 0;
    coffer_pair pair;
    for (size_t i = 0; coffer_import_metadata_at(made.import, i, &pair); i++) {
        seen += strcmp(pair.key, "tied") == 0 && strcmp(pair.value, "big") == 0;
        seen += strcmp(pair.key, "tied too") == 0 && strcmp(pair.value, "f32") == 0;
        assert_string_not_equal(pair.key, "licence");
    }
    assert_int_equal(seen, 2);
    reading_free(&made);
    coffer_close(model);

    model = open_named("again.safetensors");
    assert_int_equal(coffer_export(model, COFFER_EXPORT_TORCH, work_path("again.pt"), NULL, NULL, &err), COFFER_OK);
    size_t size = 0;
    size_t again_size = 0;
    uint8_t *bytes = file_read("model.pt", &size);
    uint8_t *again = file_read("again.pt", &again_size);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    free(again);
    free(bytes);
    coffer_close(model);
}

/* An archive of arrays has them as arrays of their own. */
static void test_ties_are_written_in_full(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_error err;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("model.npz"), NULL, NULL, &err), COFFER_OK);
    reading made = read_again("model.npz");
    assert_int_equal(coffer_import_summarize(made.import)->written_count, PLAIN_COUNT + 2);
    reading_free(&made);
    coffer_close(model);
}

static void test_small_floats(void **state)
{
    (void)state;
    const size_t count = sizeof small_specs / sizeof small_specs[0];
    coffer_export_options options = COFFER_EXPORT_OPTIONS_INIT;
    coffer_error err;
    write_model("small.safetensors", small_specs, count, NULL, COFFER_NO_ALGORITHM);
    coffer *model = open_named("small.safetensors");
    assert_int_equal(coffer_export(model, COFFER_EXPORT_TORCH, work_path("small.pt"), NULL, NULL, &err), COFFER_OK);
    assert_holds("small.pt", model, 0);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("small.npz"), NULL, NULL, &err),
                     COFFER_ERR_NO_EQUIVALENT);
    assert_non_null(strstr(err.message, "NumPy"));
    assert_true(err.tensor[0] != '\0');
    assert_int_not_equal(access(work_path("small.npz"), F_OK), 0);
    options.bytes_as = COFFER_U8;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("small.npz"), &options, NULL, &err), COFFER_OK);
    reading made = read_again("small.npz");
    const uint64_t shape[2] = { 2, 3 };
    for (size_t i = 0; i < count; i++) {
        const coffer_import_tensor *tensor = coffer_import_at(made.import, i);
        assert_int_equal(tensor->dtype, COFFER_U8);
        if (strcmp(tensor->name, "f4") == 0) {
            assert_memory_equal(tensor->shape, shape, sizeof shape);
        }
    }
    reading_free(&made);
    coffer_close(model);
}

/* Two of torch's elements of four bits cannot be one and a half bytes; those of six bits it has not. */
static void test_rows_of_whole_bytes(void **state)
{
    (void)state;
    static const tensor_spec odd = { "odd", COFFER_F4, 2, { 2, 3 } };
    static const tensor_spec six = { "six", COFFER_F6_E2M3, 2, { 2, 4 } };
    coffer_export_options options = COFFER_EXPORT_OPTIONS_INIT;
    coffer_error err;
    options.bytes_as = COFFER_I8;
    for (size_t i = 0; i < 2; i++) {
        write_model("model.safetensors", i == 0 ? &odd : &six, 1, NULL, COFFER_NO_ALGORITHM);
        coffer *model = open_named("model.safetensors");
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(coffer_export_size(model, formats[k], NULL, NULL, &err), COFFER_ERR_NO_EQUIVALENT);
            assert_int_equal(coffer_export_size(model, formats[k], &options, NULL, &err),
                             i == 0 ? COFFER_ERR_NO_EQUIVALENT : COFFER_OK);
        }
        coffer_close(model);
    }
}

/* ---- one array --------------------------------------------------------------------------------------------------- */

static void test_array(void **state)
{
    (void)state;
    static const char head[] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    coffer *model = plain_model();
    coffer_export_options options = COFFER_EXPORT_OPTIONS_INIT;
    coffer_error err;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPY, work_path("a.npy"), NULL, NULL, &err),
                     COFFER_ERR_UNSUPPORTED);
    options.tensor = "none";
    options.tensor_len = 4;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPY, work_path("a.npy"), &options, NULL, &err),
                     COFFER_ERR_NO_TENSOR);
    options.tensor = "f32";
    options.tensor_len = 3;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPY, work_path("a.npy"), &options, NULL, &err), COFFER_OK);
    size_t size = 0;
    uint8_t *bytes = file_read("a.npy", &size);
    uint8_t expected[24];
    assert_int_equal(size, 128 + 24);
    assert_memory_equal(bytes, head, sizeof head - 1);
    for (size_t i = sizeof head - 1; i < 127; i++) {
        assert_int_equal(bytes[i], ' ');
    }
    assert_int_equal(bytes[127], '\n');
    assert_int_equal(coffer_read(model, coffer_find(model, "f32", 3), expected, 24, NULL, &err), COFFER_OK);
    assert_memory_equal(bytes + 128, expected, 24);
    free(bytes);
    coffer_close(model);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void test_names_that_no_archive_has(void **state)
{
    (void)state;
    static const char *const names[] = { "/a", "a\\b", "../a", "a/../b" };
    coffer_error err;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const tensor_spec spec = { names[i], COFFER_U8, 1, { 1 } };
        write_model("model.safetensors", &spec, 1, NULL, COFFER_NO_ALGORITHM);
        coffer *model = open_named("model.safetensors");
        assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("a.npz"), NULL, NULL, &err),
                         COFFER_ERR_NAME);
        assert_true(err.tensor[0] != '\0');
        assert_int_equal(coffer_export(model, COFFER_EXPORT_TORCH, work_path("a.pt"), NULL, NULL, &err), COFFER_OK);
        assert_holds("a.pt", model, 0);
        coffer_close(model);
    }
}

static void test_names_that_numpy_confuses(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "x", COFFER_U8, 1, { 1 } }, { "x.npy", COFFER_U8, 1, { 1 } } };
    coffer_error err;
    write_model("model.safetensors", specs, 2, NULL, COFFER_NO_ALGORITHM);
    coffer *model = open_named("model.safetensors");
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("a.npz"), NULL, NULL, &err), COFFER_ERR_NAME);
    assert_string_equal(err.tensor, "x.npy");
    coffer_close(model);
}

static void test_long_names(void **state)
{
    (void)state;
    coffer_error err;
    char *name = malloc(70001);
    assert_non_null(name);
    memset(name, 'n', 70000);
    name[70000] = '\0';
    const tensor_spec spec = { name, COFFER_U8, 1, { 1 } };
    write_model("model.safetensors", &spec, 1, NULL, COFFER_NO_ALGORITHM);
    coffer *model = open_named("model.safetensors");
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("a.npz"), NULL, NULL, &err), COFFER_ERR_NAME);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_TORCH, work_path("a.pt"), NULL, NULL, &err), COFFER_OK);
    coffer_close(model);
    free(name);
}

static void test_formats(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++) {
        const coffer_export_format format = (coffer_export_format)i;
        const char *name = coffer_export_name(format);
        char path[64];
        assert_int_equal(coffer_export_from_name(name, strlen(name)), format);
        const char *ending = NULL;
        for (size_t k = 0; (ending = coffer_export_ending(format, k)) != NULL; k++) {
            snprintf(path, sizeof path, "folder/model%s", ending);
            assert_int_equal(coffer_export_from_path(path), format);
            assert_int_equal(coffer_export_from_path(ending), COFFER_EXPORT_NOTHING);
        }
    }
    assert_string_equal(coffer_export_name(COFFER_EXPORT_NOTHING), "");
    assert_string_equal(coffer_export_name((coffer_export_format)99), "");
    assert_null(coffer_export_ending((coffer_export_format)99, 0));
    assert_int_equal(coffer_export_from_path("model.safetensors"), COFFER_EXPORT_NOTHING);
    assert_int_equal(coffer_export_from_name("np", 2), COFFER_EXPORT_NOTHING);
}

/* ---- where it goes ----------------------------------------------------------------------------------------------- */

/* A place in memory that may fail. */
typedef struct place {
    uint8_t *bytes;
    size_t size;
    unsigned writes;
    unsigned fail_at; /* the number of the write that fails, from 1 */
    unsigned finished;
    unsigned discarded;
} place;

static coffer_status place_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    place *to = ctx;
    (void)err;
    if (++to->writes == to->fail_at) {
        return COFFER_ERR_IO;
    }
    assert_true(offset <= to->size && size <= to->size - offset);
    memcpy(to->bytes + offset, bytes, size);
    return COFFER_OK;
}

static coffer_status place_finish(void *ctx, coffer_error *err)
{
    (void)err;
    ((place *)ctx)->finished++;
    return COFFER_OK;
}

static void place_discard(void *ctx)
{
    ((place *)ctx)->discarded++;
}

static coffer_status export_to_place(const coffer *model, coffer_export_format format, place *to, coffer_error *err)
{
    const coffer_sink sink = { place_write, place_finish, place_discard, to };
    return coffer_export_sink(model, format, &sink, NULL, NULL, err);
}

typedef struct drain {
    int fd;
    uint8_t *bytes;
    size_t size;
    size_t got;
} drain;

static void *drain_run(void *ctx)
{
    drain *in = ctx;
    for (ssize_t got = 1; got > 0;) {
        got = read(in->fd, in->bytes + in->got, in->size - in->got);
        in->got += got > 0 ? (size_t)got : 0;
    }
    return NULL;
}

/* Through a pipe; the bytes have to be these. */
static void assert_pipe(const coffer *model, coffer_export_format format, const uint8_t *bytes, size_t size)
{
    int ends[2];
    pthread_t thread;
    coffer_error err;
    drain in = { .bytes = malloc(size + 1), .size = size + 1 };
    assert_non_null(in.bytes);
    assert_int_equal(pipe(ends), 0);
    in.fd = ends[0];
    assert_int_equal(pthread_create(&thread, NULL, drain_run, &in), 0);
    assert_int_equal(coffer_export_fd(model, format, ends[1], NULL, NULL, &err), COFFER_OK);
    close(ends[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(ends[0]);
    assert_int_equal(in.got, size);
    assert_memory_equal(in.bytes, bytes, size);
    free(in.bytes);
}

/* The same bytes whatever it is written to, and by how many threads. */
static void test_same_bytes_everywhere(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_read_options one = COFFER_READ_OPTIONS_INIT;
    coffer_error err;
    one.threads = 1;
    for (size_t i = 0; i < 2; i++) {
        size_t size = 0;
        size_t other_size = 0;
        assert_int_equal(coffer_export(model, formats[i], work_path("one"), NULL, NULL, &err), COFFER_OK);
        uint8_t *bytes = file_read("one", &size);
        place to = { .bytes = calloc(size, 1), .size = size };
        assert_non_null(to.bytes);
        assert_int_equal(export_to_place(model, formats[i], &to, &err), COFFER_OK);
        assert_int_equal(to.finished, 1);
        assert_int_equal(to.discarded, 0);
        assert_memory_equal(to.bytes, bytes, size);
        assert_pipe(model, formats[i], bytes, size);
        const int fd = open(work_path("two"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(coffer_export_fd(model, formats[i], fd, NULL, &one, &err), COFFER_OK);
        close(fd);
        uint8_t *other = file_read("two", &other_size);
        assert_int_equal(other_size, size);
        assert_memory_equal(other, bytes, size);
        free(other);
        free(to.bytes);
        free(bytes);
    }
    coffer_close(model);
}

/* Several files are one model. */
static void test_several_files(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(model_save(9, 5, 100, NULL, NULL, &err), COFFER_OK);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors.index.json"), NULL, &err), COFFER_OK);
    assert_true(coffer_shard_count(model) > 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer_export(model, formats[i], work_path("all"), NULL, NULL, &err), COFFER_OK);
        assert_holds("all", model, 0);
    }
    coffer_close(model);
}

/* ---- many, and large --------------------------------------------------------------------------------------------- */

/* More members than the end record of an archive without ZIP64 can count. */
static void test_many_tensors(void **state)
{
    (void)state;
    enum { COUNT = 66000 };
    tensor_spec *specs = calloc(COUNT, sizeof *specs);
    char(*names)[16] = calloc(COUNT, sizeof *names);
    coffer_error err;
    assert_non_null(specs);
    assert_non_null(names);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        specs[i] = (tensor_spec){ names[i], COFFER_U8, 1, { 3 } };
    }
    write_model("many.safetensors", specs, COUNT, NULL, COFFER_NO_ALGORITHM);
    coffer *model = open_named("many.safetensors");
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer_export(model, formats[i], work_path("many"), NULL, NULL, &err), COFFER_OK);
        reading made = read_again("many");
        assert_int_equal(coffer_import_summarize(made.import)->written_count, COUNT);
        assert_int_equal(coffer_import_verify(made.import, model, NULL, &err), COFFER_OK);
        reading_free(&made);
    }
    coffer_close(model);
    free(names);
    free(specs);
}

/* A tensor of more than 4 GiB and one after it, most of it a hole. The copy has the hole, too. */
static void test_large_tensor(void **state)
{
    (void)state;
    static const char header[] = "{\"large\":{\"dtype\":\"U8\",\"shape\":[5000000000],\"data_offsets\":[0,5000000000]},"
                                 "\"last\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5000000000,5000000004]}}";
    const uint8_t frame[8] = { sizeof header - 1 };
    struct stat info;
    coffer_error err;
    const int fd = open(work_path("large.safetensors"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const off_t data = 8 + sizeof header - 1;
    assert_int_equal(ftruncate(fd, data + (off_t)INT64_C(5000000004)), 0);
    assert_int_equal(pwrite(fd, frame, 8, 0), 8);
    assert_int_equal(pwrite(fd, header, sizeof header - 1, 8), sizeof header - 1);
    assert_int_equal(pwrite(fd, "ends", 4, data + (off_t)INT64_C(5000000000)), 4);
    assert_int_equal(fstat(fd, &info), 0);
    const bool holes = info.st_blocks < 10000;
    assert_int_equal(close(fd), 0);
    coffer *model = holes ? open_named("large.safetensors") : NULL;
    for (size_t i = 0; model != NULL && i < 2; i++) {
        assert_int_equal(coffer_export(model, formats[i], work_path("large"), NULL, NULL, &err), COFFER_OK);
        assert_int_equal(stat(work_path("large"), &info), 0);
        assert_true(info.st_size > INT64_C(5000000004));
        assert_true(info.st_blocks < 100000);
        reading made = read_again("large");
        assert_int_equal(coffer_import_summarize(made.import)->output, UINT64_C(5000000004));
        reading_free(&made);
    }
    coffer_close(model);
}

/* ---- what can go wrong ------------------------------------------------------------------------------------------- */

static void test_arguments(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_export_options options = COFFER_EXPORT_OPTIONS_INIT;
    coffer_error err;
    const char *path = work_path("out");
    assert_int_equal(coffer_export(NULL, COFFER_EXPORT_NPZ, path, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NOTHING, path, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export(model, (coffer_export_format)99, path, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export_fd(NULL, COFFER_EXPORT_NPZ, 1, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export_sink(model, COFFER_EXPORT_NPZ, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export_size(NULL, COFFER_EXPORT_NPZ, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_GGUF, path, NULL, NULL, &err), COFFER_ERR_UNSUPPORTED);
    options.bytes_as = COFFER_F32;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, path, &options, NULL, &err), COFFER_ERR_ARGUMENT);
    options.struct_size = 0;
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, path, &options, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("model.safetensors"), NULL, NULL, &err),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(work_dir_count(), 1);
    assert_int_not_equal(coffer_export(model, COFFER_EXPORT_NPZ, work_path("no/folder"), NULL, NULL, &err), COFFER_OK);
    assert_non_null(strstr(err.path, "no/folder"));
    coffer_close(model);
}

static void test_places_that_fail(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_error err;
    for (size_t i = 0; i < 2; i++) {
        uint64_t size = 0;
        assert_int_equal(coffer_export_size(model, formats[i], NULL, &size, &err), COFFER_OK);
        place to = { .bytes = calloc((size_t)size, 1), .size = (size_t)size };
        assert_non_null(to.bytes);
        coffer_status status = COFFER_ERR_IO;
        for (unsigned k = 1; status != COFFER_OK; k++) {
            to.fail_at = k;
            to.writes = to.finished = to.discarded = 0;
            status = export_to_place(model, formats[i], &to, &err);
            assert_int_equal(status, to.writes >= k ? COFFER_ERR_IO : COFFER_OK);
            assert_int_equal(to.finished, status == COFFER_OK);
            assert_int_equal(to.discarded, status != COFFER_OK);
        }
        assert_true(to.writes > 2);
        free(to.bytes);
    }
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_not_equal(coffer_export_fd(model, COFFER_EXPORT_NPZ, full, NULL, NULL, &err), COFFER_OK);
    close(full);
    coffer_close(model);
}

/* A callback that stops at its k-th call. */
typedef struct stopping {
    unsigned calls;
    unsigned stop_at;
    uint64_t last;
    uint64_t total;
} stopping;

static int stopping_tell(void *ctx, uint64_t done, uint64_t total)
{
    stopping *reported = ctx;
    assert_true(done >= reported->last && done <= total);
    reported->last = done;
    reported->total = total;
    return ++reported->calls == reported->stop_at;
}

static void test_cancelling(void **state)
{
    (void)state;
    coffer *model = plain_model();
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    coffer_error err;
    options.progress = stopping_tell;
    for (size_t i = 0; i < 2; i++) {
        coffer_status status = COFFER_ERR_CANCELLED;
        for (unsigned k = 1; status != COFFER_OK; k++) {
            stopping reported = { .stop_at = k };
            options.progress_ctx = &reported;
            status = coffer_export(model, formats[i], work_path("out"), NULL, &options, &err);
            assert_int_equal(status, reported.calls >= k ? COFFER_ERR_CANCELLED : COFFER_OK);
            assert_int_equal(work_dir_count(), status == COFFER_OK ? 2 : 1);
            if (status == COFFER_OK) {
                assert_int_equal(reported.last, reported.total);
            }
        }
        assert_int_equal(unlink(work_path("out")), 0);
    }
    coffer_close(model);
}

static void test_no_memory(void **state)
{
    (void)state;
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    coffer_error err;
    options.allocator = &allocator;
    options.access = COFFER_READ;
    write_model("model.safetensors", plain_specs, PLAIN_COUNT, tied_pairs, COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, &err), COFFER_OK);
    const size_t held = meter.held;
    for (int format = 1; format <= 3; format++) {
        coffer_export_options wanted = COFFER_EXPORT_OPTIONS_INIT;
        wanted.tensor = format == 2 ? "big" : NULL;
        wanted.tensor_len = 3;
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t k = 1; status != COFFER_OK; k++) {
            meter.requests = 0;
            meter.fail_at = k;
            status = coffer_export(model, (coffer_export_format)format, work_path("out"), &wanted, NULL, &err);
            assert_int_equal(status, meter.requests >= k ? COFFER_ERR_MEMORY : COFFER_OK);
            assert_int_equal(meter.held, held);
            assert_int_equal(work_dir_count(), status == COFFER_OK ? 2 : 1);
        }
        assert_int_equal(unlink(work_path("out")), 0);
    }
    meter.fail_at = 0;
    assert_true(meter.peak < (size_t)24 << 20);
    coffer_close(model);
    assert_int_equal(meter.held, 0);
}

/* ---- sources that change ----------------------------------------------------------------------------------------- */

/* A file in memory as functions of the caller's. */
typedef struct unstable {
    uint8_t *bytes;
    size_t size;
    size_t changes_at; /* a byte of the file that is another one each time it is read; 0: none */
} unstable;

static coffer_status unstable_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    unstable *from = ctx;
    (void)err;
    memcpy(buffer, from->bytes + offset, size);
    if (from->changes_at > offset && from->changes_at - offset < size) {
        from->bytes[from->changes_at]++;
    }
    return COFFER_OK;
}

static coffer *open_unstable(unstable *from, bool verify)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    const coffer_source source = { .read_at = unstable_read, .ctx = from, .size = from->size };
    options.verify = verify ? COFFER_VERIFY_RECORDED : COFFER_VERIFY_NOTHING;
    assert_int_equal(coffer_open_source(&model, &source, &options, NULL), COFFER_OK);
    return model;
}

/* What is verified is what is written, also when it has to be in memory for that; damage is written nowhere. */
static void test_verified_models(void **state)
{
    (void)state;
    coffer_error err;
    unstable from = { NULL, 0, 0 };
    coffer_hasher *hasher = NULL;
    if (coffer_hasher_new(&hasher, COFFER_SHA256, NULL, &err) != COFFER_OK) {
        return; /* without a library that computes digests nothing is verified */
    }
    coffer_hasher_free(hasher);
    write_model("model.safetensors", plain_specs, PLAIN_COUNT, NULL, COFFER_SHA256);
    coffer *plain = open_named("model.safetensors");
    from.bytes = file_read("model.safetensors", &from.size);
    for (size_t i = 0; i < 2; i++) {
        coffer *model = open_unstable(&from, true);
        assert_int_equal(coffer_export(model, formats[i], work_path("out"), NULL, NULL, &err), COFFER_OK);
        coffer_close(model);
        assert_holds("out", plain, 0);
        const size_t at = (size_t)coffer_find(plain, i == 0 ? "big" : "f32", 3)->offset;
        from.bytes[at] ^= 1;
        model = open_unstable(&from, true);
        assert_int_equal(unlink(work_path("out")), 0);
        assert_int_equal(coffer_export(model, formats[i], work_path("out"), NULL, NULL, &err),
                         COFFER_ERR_TENSOR_DIGEST);
        assert_int_not_equal(access(work_path("out"), F_OK), 0);
        coffer_close(model);
        from.bytes[at] ^= 1;
    }
    free(from.bytes);
    coffer_close(plain);
}

/* A pipe has the CRC before the bytes: they must be the same both times. */
static void test_bytes_that_change(void **state)
{
    (void)state;
    coffer_error err;
    int ends[2];
    pthread_t thread;
    unstable from = { NULL, 0, 0 };
    coffer_close(plain_model());
    from.bytes = file_read("model.safetensors", &from.size);
    coffer *model = open_unstable(&from, false);
    from.changes_at = (size_t)coffer_find(model, "big", 3)->offset + 5;
    drain in = { .bytes = malloc(from.size * 3), .size = from.size * 3 };
    assert_non_null(in.bytes);
    assert_int_equal(pipe(ends), 0);
    in.fd = ends[0];
    assert_int_equal(pthread_create(&thread, NULL, drain_run, &in), 0);
    assert_int_equal(coffer_export_fd(model, COFFER_EXPORT_TORCH, ends[1], NULL, NULL, &err), COFFER_ERR_CHANGED);
    assert_string_equal(err.tensor, "big");
    close(ends[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(ends[0]);
    free(in.bytes);
    coffer_close(model);
    free(from.bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_archives_hold_the_model),
        TEST(test_ties_come_back),
        TEST(test_ties_are_written_in_full),
        TEST(test_small_floats),
        TEST(test_rows_of_whole_bytes),
        TEST(test_array),
        TEST(test_names_that_no_archive_has),
        TEST(test_names_that_numpy_confuses),
        TEST(test_long_names),
        TEST(test_formats),
        TEST(test_same_bytes_everywhere),
        TEST(test_several_files),
        TEST(test_many_tensors),
        TEST(test_large_tensor),
        TEST(test_arguments),
        TEST(test_places_that_fail),
        TEST(test_cancelling),
        TEST(test_no_memory),
        TEST(test_verified_models),
        TEST(test_bytes_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
