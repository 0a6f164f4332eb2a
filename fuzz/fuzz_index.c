/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of indices. The input is an index, or nearly one, and lies at the edge of what may be touched. What is
 * accepted must hold together: every tensor once, every file once and in order, every number in its range, and no file whose
 * name leads anywhere else. What is refused is refused at a byte of the input. The input's last byte chooses which files are
 * left out afterwards.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "index.h"
#include "model_dir.h"
#include "sort.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool same(coffer__name a, coffer__name b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static void expect_files(const coffer__model_index *index)
{
    for (size_t i = 0; i < index->shard_count; i++) {
        const coffer__name file = index->shards[i].file;
        expect(coffer__model_dir_check_name(file.text, file.len, 0, NULL) == COFFER_OK, "a file is a plain name");
        expect(memchr(file.text, '/', file.len) == NULL && file.len > 0, "it leads nowhere else");
        if (i > 0) {
            const coffer__name before = index->shards[i - 1].file;
            expect(coffer__compare_names(before.text, before.len, file.text, file.len) < 0, "files are in order");
        }
    }
}

static void expect_entries(const coffer__model_index *index, size_t size)
{
    for (size_t i = 0; i < index->count; i++) {
        const coffer__index_entry *entry = &index->entries[i];
        expect(entry->position < size, "an entry is in the text");
        expect(i == 0 || entry->position > entry[-1].position, "entries are in the order of the text");
        expect(coffer__names_find(&index->names, entry->name.text, entry->name.len) == i, "a tensor is named once");
        if (entry->shard != COFFER__INDEX_LEFT_OUT) {
            expect(entry->shard < index->shard_count, "its file has a number");
            expect(same(index->shards[entry->shard].file, entry->file), "which is that of its file");
        }
    }
}

static void select_some(coffer__model_index *index, size_t size, uint8_t choice)
{
    static const char *const patterns[] = { "*", "*a*", "[!a-m]*", "?", "*.weight", "\\*" };
    const char *const pattern = patterns[choice % (sizeof patterns / sizeof patterns[0])];
    const size_t before = index->shard_count;
    const coffer_status status = coffer__index_select(index, &pattern, 1, NULL);
    expect(status == COFFER_OK || status == COFFER_ERR_NO_TENSOR, "selecting finds something or nothing");
    expect(index->shard_count <= before && index->shard_count > 0, "files are only left out, and not all");
    expect_files(index);
    expect_entries(index, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    const uint8_t *edge = guarded_copy(bytes, size);
    coffer__model_index index;
    coffer_error err;
    const coffer_status status =
        coffer__index_read(&index, edge, size, coffer__model_dir_check_name, coffer_libc_allocator(), &err);
    if (status != COFFER_OK) {
        expect(err.code == status, "the error has the code that was returned");
        expect(err.offset <= size || err.offset == COFFER_NO_OFFSET, "and a place in the text");
    } else {
        expect(index.count > 0 && index.shard_count > 0, "an index names something");
        expect_files(&index);
        expect_entries(&index, size);
        select_some(&index, size, bytes[size - 1]);
    }
    coffer__index_free(&index);
    return 0;
}
