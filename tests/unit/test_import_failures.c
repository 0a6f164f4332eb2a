/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that are not carried out to the end (support_plan.h): inputs that fail, lie and change, outputs that are not what
 * they should be, and bytes of plans that somebody has damaged.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "coffer.h"
#include "decode.h"
#include "plan_bytes.h"
#include "reader.h"
#include "support_file.h"
#include "support_plan.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what goes wrong ----------------------------------------------------------------------------------------------- */

/* What coffer_import_write fails with, and what is there afterwards. */
static void expect(coffer_import *import, const coffer_import_write_options *options, coffer_status status,
                   const char *tensor, bool published)
{
    coffer_error err;
    (void)unlink(work_path("out.safetensors"));
    assert_int_equal(coffer_import_write(import, work_path("out.safetensors"), options, NULL, &err), status);
    assert_string_equal(err.tensor, tensor);
    assert_int_equal(access(work_path("out.safetensors"), F_OK) == 0, published);
}

/* A byte that contradicts its CRC, in a storage that is read once, one that is only gathered from, and one that is
   inflated. */
static void test_damage(void **state)
{
    (void)state;
    static const coffer__coding codings[] = { COFFER__CODING_STORED, COFFER__CODING_STORED, COFFER__CODING_DEFLATED };
    for (size_t k = 0; k < 3; k++) {
        made m;
        const coffer__import_plan_dimension whole[] = { { 1000, 1000, 4 } };
        const coffer__import_plan_dimension part[] = { { 10, 10, 8 } };
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        made_new(&m);
        (void)made_storage(&m, codings[k], 4000, 1);
        made_row(&m, "w", COFFER_F32, 0, 0, 1, k == 1 ? part : whole, 0, 0);
        m.file[m.size - 1] ^= 1;
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        expect(import, NULL, COFFER_ERR_CHECKSUM, "w", false);
        options.unchecked = true;
        coffer_error err;
        assert_int_equal(coffer_import_write(import, work_path("unchecked.safetensors"), &options, NULL, &err),
                         COFFER_OK);
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* Streams that end early or late, whichever library inflates them, and text that is none. */
static void test_streams(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 6; k++) {
        made m;
        const size_t size = k < 3 ? 4000 : 9 * MIB;
        const uint64_t items = size / 4;
        const coffer__import_plan_dimension whole[] = { { items, items, 4 } };
        made_new(&m);
        (void)made_storage(&m, k == 2 || k == 5 ? COFFER__CODING_LATIN1 : COFFER__CODING_DEFLATED, size, 1);
        made_row(&m, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
        coffer__import_plan_piece *piece = m.plan.pieces.items;
        if (k % 3 == 0) {
            piece->stored_size--; /* cut */
        } else if (k % 3 == 1) {
            made_put(&m, "?", 1);
            piece->stored_size++; /* a byte too many */
        } else {
            m.file[piece->offset] = 0xC5; /* U+0140 or more */
        }
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        const coffer_status of_stream = k < 3 || made_has_zlib() ? COFFER_ERR_DAMAGED : COFFER_ERR_UNSUPPORTED;
        expect(import, NULL, k % 3 == 2 ? COFFER_ERR_PICKLE : of_stream, "w", false);
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* The same bytes by each of the ways to inflate, in pieces of odd sizes. */
static void test_inflaters(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 65535, 65536, 200000 };
    made m;
    made_new(&m);
    for (size_t k = 0; k < 4; k++) {
        (void)made_storage(&m, COFFER__CODING_DEFLATED, sizes[k], 1);
    }
    coffer_input *input = made_input(&m);
    for (uint32_t k = 0; k < 8; k++) {
        coffer__inflaters inflaters = { .alone = k >= 4 };
        coffer__decoder decode;
        uint8_t bytes[1000];
        coffer__decode_begin(&decode, input, &m.plan, k % 4, &inflaters, &made_crcs, coffer_libc_allocator());
        for (size_t at = 0; at < sizes[k % 4];) {
            const size_t left = sizes[k % 4] - at;
            const size_t take = left < 999 ? left : 1 + made_below(999);
            assert_int_equal(coffer__decode_next(&decode, bytes, take, NULL), COFFER_OK);
            assert_memory_equal(bytes, m.plain[k % 4] + at, take);
            at += take;
        }
        assert_int_equal(coffer__decode_next(&decode, bytes, 1, NULL), COFFER_ERR_PLAN);
        coffer__decode_close(&decode);
        coffer__inflaters_close(&inflaters);
    }
    coffer_input_free(input);
    made_free(&m);
}

/* Every read that can fail does, once. */
static void test_failing_reads(void **state)
{
    (void)state;
    for (uint32_t fails = 1; fails < 8; fails++) {
        made m;
        coffer_error err;
        made_small(&m);
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        m.fails = fails;
        const coffer_status status = coffer_import_write(import, work_path("failing.safetensors"), NULL, NULL, &err);
        assert_true(status == COFFER_ERR_IO || (status == COFFER_OK && m.reads < fails));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

static int made_tell(void *ctx, uint64_t done, uint64_t total)
{
    made *m = ctx;
    assert_true(done >= m->reported && done <= total);
    m->reported = done;
    m->lies = m->lies_from > 0 && done >= m->lies_from;
    if (m->cancel_at > 0 && done >= m->cancel_at) {
        return 1;
    }
    return m->cancel_after > 0 && --m->cancel_after == 0;
}

/* What is told ascends to the total, once; and cancelling publishes nothing. */
static void test_progress(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    made_small(&m);
    coffer_input *input = made_input(&m);
    coffer_import *import = made_import(&m, input);
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = made_tell;
    reading.progress_ctx = &m;
    assert_int_equal(coffer_import_write(import, work_path("told.safetensors"), NULL, &reading, &err), COFFER_OK);
    assert_int_equal(m.reported, 200);
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    options.unverified = true;
    m.reported = 0;
    m.cancel_after = 1;
    assert_int_equal(coffer_import_write(import, work_path("cancelled.safetensors"), &options, &reading, &err),
                     COFFER_ERR_CANCELLED);
    assert_int_not_equal(access(work_path("cancelled.safetensors"), F_OK), 0);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* An input that somebody writes to, and one that would be overwritten. */
static void test_changed(void **state)
{
    (void)state;
    made m;
    made_small(&m);
    coffer_input *input = made_input_file(&m);
    coffer_import *import = made_import(&m, input);
    coffer_error err;
    assert_int_equal(coffer_import_write(import, work_path("input.bin"), NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    const int fd = open(work_path("input.bin"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, m.file, m.size, 0), m.size);
    assert_int_equal(ftruncate(fd, (off_t)m.size + 1), 0);
    assert_int_equal(close(fd), 0);
    expect(import, NULL, COFFER_ERR_CHANGED, "", false);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* How many files there are whose names begin with "kept". */
static size_t kept_files(void)
{
    size_t count = 0;
    DIR *folder = opendir(work_path("."));
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += strncmp(entry->d_name, "kept", 4) == 0 || strstr(entry->d_name, "coffer-") != NULL;
    }
    assert_int_equal(closedir(folder), 0);
    return count;
}

/* Writes an import of which comparing fails, by other bytes of the input or by cancelling, and looks at what is there
   then: what was there before. */
static void check_kept(made *m, coffer_import *import, const coffer_import_write_options *options, size_t files)
{
    coffer_error err;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = made_tell;
    reading.progress_ctx = m;
    for (unsigned k = 0; k < 3; k++) {
        m->reported = 0;
        m->lies_from = k == 0 ? 100 : 0;
        m->cancel_at = k == 0 ? 0 : k == 1 ? 100 : 200;
        assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), options, &reading, &err),
                         k == 0 ? COFFER_ERR_NOT_EQUAL : COFFER_ERR_CANCELLED);
        if (k == 0) {
            assert_string_equal(err.tensor, "v");
            assert_string_equal(err.path, work_path("kept.safetensors"));
        }
        assert_int_equal(kept_files(), files);
        m->lies = false;
    }
}

/* What cannot be verified is not published, and an older model stays: of one file or of several. */
static void test_verified_first(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 0, 1 << 20, 40 };
    for (size_t k = 0; k < 3; k++) {
        made m;
        const coffer__import_plan_dimension half[] = { { 10, 10, 4 } };
        const coffer__import_plan_dimension rest[] = { { 15, 15, 4 } };
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
        made_new(&m);
        (void)made_storage(&m, COFFER__CODING_STORED, 100, 1);
        made_row(&m, "v", COFFER_F32, 0, 0, 1, half, 0, 0);
        made_row(&m, "w", COFFER_F32, 0, 40, 1, rest, 0, 0);
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        options.unchecked = true; /* no pass for CRCs between writing and comparing */
        options.max_shard_size = limits[k];
        options.files = &files;
        const size_t files_of_model = k == 2 ? 3 : 1;
        check_kept(&m, import, &options, 0);
        assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, NULL, NULL), COFFER_OK);
        assert_int_equal(kept_files(), files_of_model);
        /* The second time with digests, which are in the header before it is looked at. */
        files.digests = COFFER_SHA256;
        check_kept(&m, import, &options, files_of_model);
        made_check(&m, k == 2 ? work_path("kept.safetensors.index.json") : work_path("kept.safetensors"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
        work_dir_remove();
        work_dir_make();
    }
}

/* A file that is written in place is compared when it is there. */
static void test_verified_in_place(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    made_small(&m);
    coffer_input *input = made_input(&m);
    coffer_import *import = made_import(&m, input);
    files.in_place = true;
    options.files = &files;
    reading.progress = made_tell;
    reading.progress_ctx = &m;
    assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, &reading, &err), COFFER_OK);
    made_check(&m, work_path("kept.safetensors"));
    m.reported = 0;
    m.lies_from = 100;
    assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, &reading, &err),
                     COFFER_ERR_NOT_EQUAL);
    assert_string_equal(err.path, work_path("kept.safetensors"));
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* A byte of the output that is not what it should be is found. */
static void test_verify(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer *written = NULL;
    made_small(&m);
    coffer_input *input = made_input(&m);
    coffer_import *import = made_import(&m, input);
    const char *path = work_path("verified.safetensors");
    assert_int_equal(coffer_import_write(import, path, NULL, NULL, &err), COFFER_OK);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const off_t last = lseek(fd, 0, SEEK_END) - 1;
    uint8_t byte = 0;
    assert_int_equal(pread(fd, &byte, 1, last), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, last), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(coffer_open(&written, path, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_verify(import, written, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_string_equal(err.tensor, "w");
    coffer_close(written);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* Any one byte that differs is found, in a tensor that is plain and in a view of what is decoded; and so is an output
   of other tensors. */
static void test_verify_finds(void **state)
{
    (void)state;
    made m;
    made few;
    coffer_error err;
    coffer *model = NULL;
    made_named(&m, "a", "b", "x");
    made_small(&few);
    coffer_input *inputs[] = { made_input(&m), made_input(&few) };
    coffer_import *imports[] = { made_import(&m, inputs[0]), made_import(&few, inputs[1]) };
    const char *path = work_path("verified.safetensors");
    assert_int_equal(coffer_import_write(imports[0], path, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t begin = coffer_table_data_offset(table);
    const uint64_t end = begin + coffer_table_data_size(table);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    for (uint64_t at = begin; at < end; at++) {
        uint8_t byte = 0;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        assert_int_equal(coffer_import_verify(imports[0], model, NULL, &err), COFFER_ERR_NOT_EQUAL);
        assert_non_null(strstr(err.message, "other bytes are there than in the input"));
        const coffer_tensor *tensor = coffer_find(model, err.tensor, strlen(err.tensor));
        assert_true(tensor != NULL && at >= tensor->offset && at < tensor->offset + tensor->size);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(coffer_import_verify(imports[0], model, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_import_verify(imports[1], model, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_non_null(strstr(err.message, "the output has 2 tensors instead of 1"));
    coffer_close(model);
    assert_int_equal(coffer_import_write(imports[1], path, NULL, NULL, &err), COFFER_OK);
    made other;
    const coffer__import_plan_dimension whole[] = { { 24, 24, 4 } };
    made_new(&other);
    (void)made_storage(&other, COFFER__CODING_STORED, 100, 1);
    made_row(&other, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
    coffer_input *input = made_input(&other);
    coffer_import *import = made_import(&other, input);
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_verify(import, model, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_non_null(strstr(err.message, "does not have it as it should be"));
    coffer_close(model);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&other);
    for (size_t i = 0; i < 2; i++) {
        coffer_import_free(imports[i]);
        coffer_input_free(inputs[i]);
    }
    made_free(&m);
    made_free(&few);
}

static coffer_status made_beside(void *ctx, const char *name, size_t name_len, uint64_t *size, coffer_error *err)
{
    (void)name;
    (void)name_len;
    (void)err;
    *size = ((const made *)ctx)->size;
    return COFFER_OK;
}

/* A failure, and what it says. */
static void refused(coffer_status status, coffer_status wanted, const coffer_error *err, const char *text)
{
    assert_int_equal(status, wanted);
    assert_int_equal(err->code, wanted);
    if (strstr(err->message, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err->message, text);
    }
}

/* Loads the plan as it is now, which is refused. */
static void refused_plan(const made *m, coffer_input *input, const char *format, coffer_status wanted, const char *text)
{
    coffer_import *import = NULL;
    coffer_error err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer__import_plan_save(&m->plan, format, &bytes, &size, NULL), COFFER_OK);
    refused(coffer_import_load(&import, input, bytes, size, NULL, &err), wanted, &err, text);
    assert_null(import);
    free(bytes);
}

/* What is refused says why: of plans that are of something else, and of calls that make no sense. */
static void test_refused_plans(void **state)
{
    (void)state;
    made m;
    uint32_t number = 0;
    coffer_error err;
    coffer_import *import = NULL;
    coffer_input *input = NULL;
    made_small(&m);
    const char *torch = coffer__reader_at(0)->id;
    const coffer_input_functions functions = { .read = made_read, .beside = made_beside, .ctx = &m, .size = m.size };
    coffer_input *alone = made_input(&m);
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, NULL), COFFER_OK);
    refused_plan(&m, alone, "nobody", COFFER_ERR_PLAN, "is by no reader of this version");
    assert_int_equal(coffer__import_plan_put_file(&m.plan, "x.bin", 5, &number, NULL), COFFER_OK);
    refused_plan(&m, alone, torch, COFFER_ERR_SHARD_MISSING, "there are no files next to this input, and \"x.bin\" is");
    assert_int_equal(coffer__import_plan_put_file(&m.plan, "x.bin", 5, &number, NULL), COFFER_OK);
    refused_plan(&m, input, torch, COFFER_ERR_PLAN, "is of other files than were opened");
    refused(coffer_import_load(&import, alone, NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT, &err, "are NULL");
    refused(coffer_import_open(&import, NULL, NULL, &err), COFFER_ERR_ARGUMENT, &err, "an import needs an input");
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.scalars = (coffer_scalars)(COFFER_SCALARS_ALL + 1);
    refused(coffer_import_open(&import, alone, &options, &err), COFFER_ERR_ARGUMENT, &err, "has no such value");
    refused(coffer_input_open(&input, NULL, NULL, &err), COFFER_ERR_ARGUMENT, &err, "opened from or into NULL");
    refused(coffer_input_read(alone, 7, 0, &number, 1, &err), COFFER_ERR_ARGUMENT, &err, "no such input or file");
    refused(coffer_input_read(alone, 0, m.size, &number, 1, &err), COFFER_ERR_ARGUMENT, &err,
            "do not lie within file 0");
    refused(coffer_input_beside(alone, NULL, 0, &number, NULL, &err), COFFER_ERR_ARGUMENT, &err, "is NULL");
    coffer_input_free(input);
    coffer_input_free(alone);
    made_free(&m);
}

static void test_refused_calls(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    made_sink to = { .capacity = 1000 };
    const coffer_sink sink = { made_sink_write, made_sink_finish, NULL, &to };
    const uint64_t shape[] = { 1 };
    made_small(&m);
    coffer_input *input = made_input_file(&m);
    coffer_import *import = made_import(&m, input);
    const coffer_status status = COFFER_ERR_ARGUMENT;
    to.bytes = malloc((size_t)to.capacity);
    assert_non_null(to.bytes);
    refused(coffer_import_write(import, work_path("input.bin"), NULL, NULL, &err), status, &err,
            "would replace a file");
    refused(coffer_import_write(import, NULL, NULL, NULL, &err), status, &err, "the path of the output is NULL");
    refused(coffer_import_save(import, &bytes, NULL, &err), status, &err, "got NULL");
    refused(coffer_import_save(NULL, &bytes, &size, &err), status, &err, "got NULL");
    refused(coffer_import_carry(import, NULL, false, NULL, &err), status, &err, "the writer is NULL");
    refused(coffer_import_carry_model(import, NULL, false, NULL, &err), status, &err, "the writer is NULL");
    refused(coffer_import_verify(import, NULL, NULL, &err), status, &err, "what was written is NULL");
    refused(coffer_import_add(import, NULL, &err), status, &err, "of another input");
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_declare(import, header, NULL), COFFER_OK);
    refused(coffer_import_declare(import, header, &err), status, &err, "in a header without tensors");
    assert_int_equal(coffer_header_add(header, "more", 4, COFFER_U8, shape, 1, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    refused(coffer_import_carry(import, writer, false, NULL, &err), status, &err, "does not declare this import");
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(to.bytes);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* The bytes of a plan, cut anywhere and with any byte changed: an error or an import, and nothing worse. */
static void test_hostile_bytes(void **state)
{
    (void)state;
    made m;
    uint8_t *bytes = NULL;
    size_t size = 0;
    coffer_import *import = NULL;
    made_small(&m);
    coffer_input *input = made_input(&m);
    assert_int_equal(coffer__import_plan_save(&m.plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(coffer_import_load(&import, input, bytes, cut, NULL, NULL), COFFER_ERR_PLAN);
        assert_null(import);
    }
    for (size_t at = 0; at < size; at++) {
        static const uint8_t changes[] = { 0x01, 0x80, 0xFF };
        for (size_t k = 0; k < sizeof changes; k++) {
            bytes[at] ^= changes[k];
            coffer_error err;
            if (coffer_import_load(&import, input, bytes, size, NULL, &err) == COFFER_OK) {
                coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
                options.unverified = true;
                (void)coffer_import_write(import, work_path("hostile.safetensors"), &options, NULL, &err);
            }
            coffer_import_free(import);
            bytes[at] ^= changes[k];
        }
    }
    /* A file beside it that is not there. */
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_put_file(&m.plan, "x", 1, &number, NULL), COFFER_OK);
    free(bytes);
    assert_int_equal(coffer__import_plan_save(&m.plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    assert_int_equal(coffer_import_load(&import, input, bytes, size, NULL, NULL), COFFER_ERR_SHARD_MISSING);
    free(bytes);
    coffer_input_free(input);
    made_free(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_damage),        TEST(test_streams),      TEST(test_inflaters),      TEST(test_failing_reads),
        TEST(test_progress),      TEST(test_changed),      TEST(test_verified_first), TEST(test_verified_in_place),
        TEST(test_verify),        TEST(test_verify_finds), TEST(test_refused_plans),  TEST(test_refused_calls),
        TEST(test_hostile_bytes),
    };
    return cmocka_run_group_tests(tests, made_set_up, NULL);
}
