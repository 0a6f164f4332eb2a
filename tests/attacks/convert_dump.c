/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of other programs' files see, as lines for the tests in Python, which compile this with the static
 * library.
 *
 *   convert_dump pickle FILE...           the graph of a pickle
 *   convert_dump plan FILE...             the plan that the reader of a file makes, checked and added up
 *   convert_dump scan FILE...             what a scan finds
 *
 * A file's lines begin with "status CODE MESSAGE" and end with "end". Texts and bytes are in hexadecimal.
 */
#include "coffer.h"
#include "error.h"
#include "model_dir_name.h"
#include "pickle.h"
#include "plan.h"
#include "reader.h"
#include "readers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_BUDGET ((uint64_t)256 << 20)

typedef struct dump_file {
    uint8_t *bytes;
    size_t size;
    uint64_t bytes_read; /* by readers */
} dump_file;

static coffer_status dump_read(dump_file *file, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    (void)err;
    if (offset > file->size || size > file->size - offset) {
        fprintf(stderr, "a read beyond the file\n");
        abort();
    }
    memcpy(bytes, file->bytes + offset, size);
    file->bytes_read += size;
    return COFFER_OK;
}

static coffer_status dump_read_input(void *ctx, uint32_t number, uint64_t offset, void *bytes, size_t size,
                                     coffer_error *err)
{
    (void)number;
    return dump_read(ctx, offset, bytes, size, err);
}

static coffer_status dump_read_stream(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    return dump_read(ctx, offset, bytes, size, err);
}

static bool dump_load(dump_file *file, const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL || fseek(stream, 0, SEEK_END) != 0) {
        return false;
    }
    const long size = ftell(stream);
    rewind(stream);
    *file = (dump_file){ .bytes = malloc(size > 0 ? (size_t)size : 1), .size = size > 0 ? (size_t)size : 0 };
    const bool good = file->bytes != NULL && fread(file->bytes, 1, file->size, stream) == file->size;
    fclose(stream);
    return good;
}

static void dump_hex(const char *bytes, size_t size)
{
    putchar('x');
    for (size_t i = 0; i < size; i++) {
        printf("%02x", (unsigned)(uint8_t)bytes[i]);
    }
}

static void dump_status(coffer_status status, const coffer_error *err)
{
    const bool has_place = status != COFFER_OK && err->offset != COFFER_NO_OFFSET;
    printf("status %s %s%" PRIu64 " %s\n", coffer_status_name(status), has_place ? "" : "-",
           has_place ? err->offset : 0, status == COFFER_OK ? "" : err->message);
}

/* ---- pickles ---- */

static void dump_bytes(const coffer__pickle *pickle, coffer__value value, const coffer__node *node)
{
    size_t size = 0;
    const char *bytes = coffer__pickle_bytes_of(pickle, value, &size);
    printf(" %d %d %d %" PRIu64 " %" PRIu64 " ", node->python2, node->as.bytes.latin1, node->as.bytes.escaped,
           node->as.bytes.at, node->as.bytes.size);
    if (bytes != NULL) {
        dump_hex(bytes, size);
    } else {
        putchar('-');
    }
}

static void dump_leaf(const coffer__pickle *pickle, coffer__value value, const coffer__node *node)
{
    uint64_t bits = 0;
    switch (node->kind) {
    case COFFER__VALUE_BOOL:
    case COFFER__VALUE_INT:
        printf(" %" PRId64, node->as.integer);
        break;
    case COFFER__VALUE_FLOAT:
        memcpy(&bits, &node->as.real, sizeof bits);
        printf(" %016" PRIx64, bits);
        break;
    case COFFER__VALUE_TEXT:
    case COFFER__VALUE_BYTES:
        dump_bytes(pickle, value, node);
        break;
    case COFFER__VALUE_GLOBAL:
        putchar(' ');
        dump_hex(coffer__pickle_module(pickle, value), strlen(coffer__pickle_module(pickle, value)));
        putchar(' ');
        dump_hex(coffer__pickle_name(pickle, value), strlen(coffer__pickle_name(pickle, value)));
        break;
    default:
        break;
    }
}

static coffer_status dump_seen(void *ctx, const coffer__pickle *pickle, coffer__value value, coffer_error *err)
{
    (void)ctx;
    (void)err;
    printf("seen %" PRIu32 " %d\n", value, (int)coffer__pickle_node(pickle, value)->kind);
    return COFFER_OK;
}

static void dump_pickle(dump_file *file)
{
    coffer_error err;
    coffer__pickle *pickle = NULL;
    uint64_t end = 0;
    const coffer__pickle_bytes bytes = { file, dump_read_stream, file->size };
    const coffer__pickle_watch watch = { .seen = dump_seen };
    const coffer_status status =
        coffer__pickle_run(&pickle, &bytes, 0, coffer_libc_allocator(), DUMP_BUDGET, &watch, &end, &err);
    dump_status(status, &err);
    printf("root %" PRIu32 " %" PRIu64 "\n", coffer__pickle_root(pickle), end);
    for (coffer__value value = 1; value <= coffer__pickle_count(pickle); value++) {
        const coffer__node *node = coffer__pickle_node(pickle, value);
        printf("node %" PRIu32 " %d %d %" PRIu32 " %" PRIu32, value, (int)node->kind, (int)node->call,
               coffer__node_state(node), coffer__node_attributes(node));
        dump_leaf(pickle, value, node);
        uint32_t count = 0;
        for (uint32_t link = node->first; link != 0; count++) {
            printf(" %" PRIu32, coffer__pickle_item(pickle, &link));
        }
        if (count != node->count) {
            abort();
        }
        putchar('\n');
    }
    coffer__pickle_free(pickle);
}

/* ---- plans ---- */

static void dump_row(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    size_t len = 0;
    const char *name = coffer__import_plan_text(plan, row->name, &len);
    printf("row ");
    dump_hex(name, len);
    printf(" %s %d %" PRIu64 " %" PRIu64 " %u %d", coffer_dtype_name(row->dtype), (int)row->fate, row->offset,
           row->item_size, row->swap, (int)row->storage);
    for (uint32_t i = 0; i < row->rank; i++) {
        const coffer__import_plan_dimension *dimension = coffer__import_plan_dimensions(plan, row) + i;
        printf(" %" PRIu64 ":%" PRIu64 ":%" PRId64, dimension->size, dimension->count, dimension->stride);
    }
    putchar('\n');
}

static coffer_status dump_plan_of(const dump_file *file, coffer__import_plan *plan, coffer_error *err)
{
    coffer__import_plan_account account;
    const uint64_t size = file->size;
    const coffer_status status = coffer__import_plan_check(plan, &size, false, err);
    if (status != COFFER_OK || coffer__import_plan_add_up(plan, &account, err) != COFFER_OK) {
        return status != COFFER_OK ? status : err->code;
    }
    if (account.total != account.written + account.aliased + account.skipped + account.unreferenced) {
        abort();
    }
    for (size_t i = 0; i < plan->storages.count; i++) {
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + i;
        for (uint32_t j = 0; j < coffer__import_plan_piece_count(storage); j++) {
            const coffer__import_plan_piece *piece = coffer__import_plan_pieces(plan) + storage->first + j;
            printf("piece %zu %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu32 "\n", i, (int)piece->coding,
                   piece->offset, piece->stored_size, piece->size, piece->crc_kind != COFFER__CRC_NONE, piece->crc);
        }
    }
    for (size_t i = 0; i < plan->rows.count; i++) {
        dump_row(plan, coffer__import_plan_rows(plan) + i);
    }
    printf("account %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", account.total, account.written,
           account.aliased, account.skipped, account.unreferenced);
    return COFFER_OK;
}

/* There is nothing beside a file, whatever its name; what is no plain name is refused first, as everywhere. */
static coffer_status dump_open_beside(void *ctx, const char *name, size_t name_len, uint32_t *number, uint64_t *size,
                                      coffer_error *err)
{
    (void)ctx;
    (void)number;
    (void)size;
    const coffer_status status = coffer__model_dir_check_name(name, name_len, COFFER_NO_OFFSET, err);
    return status == COFFER_OK ? coffer__fail(err, COFFER_ERR_SHARD_MISSING, "there is no file %q", name, name_len)
                               : status;
}

static void dump_plan(dump_file *file, const char *path, bool scan)
{
    coffer_error err;
    coffer__import_plan plan;
    const coffer__reader *reader = NULL;
    const coffer__wants wants = { .root = "auto", .strip_prefix = "", .scan = scan };
    const coffer__input_files input = {
        .ctx = file,
        .read = dump_read_input,
        .open = dump_open_beside,
        .size = file->size,
        .path = path,
        .path_len = strlen(path),
    };
    coffer_status status = coffer__import_plan_begin(&plan, coffer_libc_allocator(), DUMP_BUDGET, &err);
    if (status == COFFER_OK && scan) {
        status = coffer__scan_input(&input, &wants, &plan, &reader, &err);
    } else if (status == COFFER_OK) {
        status = coffer__reader_for(&input, coffer_libc_allocator(), &reader, &err);
        status = status == COFFER_OK ? reader->read(&input, &wants, &plan, &err) : status;
    }
    if (status == COFFER_OK) {
        status = dump_plan_of(file, &plan, &err);
    }
    dump_status(status, &err);
    printf("reader %s %" PRIu64 "\n", reader != NULL ? reader->id : "-", file->bytes_read);
    for (size_t i = 0; i < plan.findings.count; i++) {
        const coffer__import_plan_finding *finding = coffer__import_plan_findings(&plan) + i;
        printf("finding %d %s\n", (int)finding->weight, coffer__import_plan_text(&plan, finding->text, NULL));
    }
    coffer__import_plan_free(&plan);
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        dump_file file;
        if (!dump_load(&file, argv[i])) {
            return 3;
        }
        if (strcmp(argv[1], "pickle") == 0) {
            dump_pickle(&file);
        } else {
            dump_plan(&file, argv[i], strcmp(argv[1], "scan") == 0);
        }
        puts("end");
        free(file.bytes);
    }
    return 0;
}
