/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which reader takes a file.
 *
 * Every reader looks at the same beginning and end of the file, which are read once. The end is there for archives,
 * whose directory may be the only place that names their members.
 */
#include "readers.h"

#include "alloc.h"
#include "error.h"
#include "kinds.h"
#include "sniff.h"
#include "text.h"

/* As much as any signature needs: a block of tar, or the first members of an archive. */
#define READERS_HEAD ((size_t)4096)
#define READERS_TAIL ((size_t)16 * 1024)

#define READERS_ROW(name) &coffer__reader_##name,

static const coffer__reader *const readers_table[] = { COFFER__READERS(READERS_ROW) NULL };

/* What files are that have no reader, by the codes of coffer__sniff. */
static const struct readers_noun {
    coffer_status code;
    const char *noun;
} readers_nouns[] = {
    { COFFER_ERR_IS_LFS_POINTER, "a Git LFS pointer: run `git lfs pull`, or download the file" },
    { COFFER_ERR_IS_HTML, "a web page, perhaps what a server said in the place of the file" },
    { COFFER_ERR_IS_JSON, "JSON" },
    { COFFER_ERR_IS_ZIP, "an archive (zip) with neither a checkpoint nor arrays" },
    { COFFER_ERR_IS_PICKLE, "a pickle of a protocol that is not known" },
    { COFFER_ERR_IS_HDF5, "an HDF5 file" },
    { COFFER_ERR_IS_ZEROS, "zeros: a download that never came" },
    { COFFER_ERR_IS_TEXT, "text" },
    { COFFER_ERR_IS_TAR, "an archive (tar) without a checkpoint" },
    { COFFER_ERR_IS_ELF, "a program or library" },
    { COFFER_ERR_IS_CONVERTIBLE, "a file of a format that can be converted" },
};

/* For lists of formats, in the order in which they are tried. */
const coffer__reader *coffer__reader_at(size_t i)
{
    return i < sizeof readers_table / sizeof readers_table[0] ? readers_table[i] : NULL;
}

const coffer__reader *coffer__reader_named(const char *id)
{
    size_t i = 0;
    while (readers_table[i] != NULL && (id == NULL || !coffer__same_text(readers_table[i]->id, id))) {
        i++;
    }
    return readers_table[i];
}

bool coffer__reader_follows_pickles(const coffer__reader *reader)
{
    static const coffer__reader *const pickles[] = {
        &coffer__reader_dcp,         &coffer__reader_pt2,       &coffer__reader_zero, &coffer__reader_fsdp,
        &coffer__reader_torch_zip,   &coffer__reader_torch_tar, &coffer__reader_nemo, &coffer__reader_torch_stream,
        &coffer__reader_torch_index, &coffer__reader_pickle,
    };
    bool found = false;
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0] && !found; i++) {
        found = reader == pickles[i];
    }
    return found;
}

/* Whether a file that begins as one that can be read does not end so: zip's directory stands at the end, tar has whole blocks, and
   the others are known by their beginnings. */
static bool readers_is_cut(coffer_status code, const coffer__input_files *input, const uint8_t *tail, size_t tail_size)
{
    switch (code) {
    case COFFER_ERR_IS_ZIP:
        return !coffer__reader_has(tail, tail_size, "PK\5\6");
    case COFFER_ERR_IS_TAR:
        return input->size % 512 != 0;
    case COFFER_ERR_IS_CONVERTIBLE:
        return true;
    default:
        return false;
    }
}

/* Says what a file is that nobody reads: most such files are one of a few mistakes. */
static coffer_status readers_none(const coffer__input_files *input, const uint8_t *head, size_t head_size,
                                  size_t tail_size, coffer_error *err)
{
    const char *kind = coffer__kind_of(head, head_size, head + head_size, tail_size, input->path, input->path_len);
    if (kind != NULL) {
        return coffer__fail_at(err, COFFER_ERR_UNKNOWN_INPUT, 0, "%s", kind);
    }
    const char *noun = NULL;
    const coffer_status named = coffer__sniff_noun(head, head_size, &noun);
    if (named != COFFER_OK) {
        return coffer__fail_at(err, COFFER_ERR_UNKNOWN_INPUT, 0, "no reader knows this file; it looks like %s%s", noun,
                               named == COFFER_ERR_IS_COMPRESSED ? ": unpack it first" : "");
    }
    const coffer_status code = coffer__sniff(head, head_size, NULL);
    const bool cut = readers_is_cut(code, input, head + head_size, tail_size);
    for (size_t i = 0; i < sizeof readers_nouns / sizeof readers_nouns[0]; i++) {
        if (readers_nouns[i].code == code) {
            return coffer__fail_at(err, COFFER_ERR_UNKNOWN_INPUT, 0, "no reader knows this file; it looks like %s%s",
                                   readers_nouns[i].noun, cut ? ", and its end is missing: get the file again" : "");
        }
    }
    return coffer__fail_at(err, COFFER_ERR_UNKNOWN_INPUT, 0,
                           head_size == 0 ? "this file is empty" : "no reader knows this file");
}

/* The first reader that knows the head in block [0, head_size) and the tail after it. */
static const coffer__reader *readers_find(const coffer__input_files *input, const uint8_t *head, size_t head_size,
                                          size_t tail_size)
{
    for (size_t i = 0; readers_table[i] != NULL; i++) {
        if (readers_table[i]->sniff(head, head_size, head + head_size, tail_size, input->path, input->path_len)) {
            return readers_table[i];
        }
    }
    return NULL;
}

/* A file that no reader knows is a pickle to pickle.load, and torch.load hands it to that. If it would import something
   there, it is one here, too. */
static coffer_status readers_try_pickle(const coffer__input_files *input, const coffer_allocator *allocator,
                                        const uint8_t *head, size_t head_size, size_t tail_size,
                                        const coffer__reader **reader, coffer_error *err)
{
    bool would_import = false;
    const coffer_status status = coffer__scan_would_import(input, allocator, &would_import, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!would_import) {
        return readers_none(input, head, head_size, tail_size, err);
    }
    *reader = &coffer__reader_pickle;
    return COFFER_OK;
}

coffer_status coffer__reader_for(const coffer__input_files *input, const coffer_allocator *allocator,
                                 const coffer__reader **reader, coffer_error *err)
{
    const size_t head_size = input->size < READERS_HEAD ? (size_t)input->size : READERS_HEAD;
    const size_t tail_size = input->size < READERS_TAIL ? (size_t)input->size : READERS_TAIL;
    /* Head and tail of a file that is shorter than both overlap; each reader may look at either. */
    uint8_t *block = coffer__alloc_array(allocator, head_size + tail_size, 1, err);
    if (block == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer__input_files_read(input, 0, input->size, 0, block, head_size, err);
    if (status == COFFER_OK) {
        status =
            coffer__input_files_read(input, 0, input->size, input->size - tail_size, block + head_size, tail_size, err);
    }
    if (status == COFFER_OK) {
        *reader = readers_find(input, block, head_size, tail_size);
        status = *reader == NULL ? readers_try_pickle(input, allocator, block, head_size, tail_size, reader, err)
                                 : COFFER_OK;
    }
    coffer__free_array(allocator, block, head_size + tail_size, 1);
    return status;
}
