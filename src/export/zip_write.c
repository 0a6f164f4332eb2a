/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives that are written; zip_write.h has the contract, zip.c and zip_end.c have the records'
 * layouts.
 *
 * A member is a local head, its data, and later an entry in the directory. The heads come before
 * the data in the layout's text; entries are collected in `directory`, which goes to the end:
 *
 *   head 0 | padding | text and tensor 0 | head 1 | … | directory | ZIP64 end and locator, if needed | end
 *
 * All sizes are known when a head is written, so there are no data descriptors. Only the CRC of a
 * tensor is not; its two places are noted in the leaf, and export_run.c fills it in. The places in
 * the directory count from its beginning until it moves.
 *
 * Sizes come from the layout. Names may be a stranger's; the callers refuse those that unpack
 * elsewhere.
 */
#include "zip_write.h"

#include "error.h"

#include <string.h>

#define ZIP_WRITE_VERSION 20u   /* the version that is needed to read a member */
#define ZIP_WRITE_VERSION64 45u /* the version that is needed to read a member with ZIP64 fields */
#define ZIP_WRITE_UTF8 0x0800u  /* the flag: names are UTF-8 */
#define ZIP_WRITE_DATE 0x0021u  /* 1980-01-01, the earliest that there is */
#define ZIP_WRITE_HEAD 30u      /* bytes of a local head without name and extra fields */
#define ZIP_WRITE_FIELD64 20u   /* bytes of a ZIP64 field with two numbers */
#define ZIP_WRITE_PADDING 6u    /* bytes of the shortest padding field */
/* The field by which archives for Android are aligned: the alignment, and zeros. */
#define ZIP_WRITE_PADDING_ID 0xD935u

/* One member as its two heads describe it. */
typedef struct zip_write_head {
    const char *name;
    size_t name_len;
    uint64_t size;
    uint64_t at; /* of its local head */
    uint32_t crc;
} zip_write_head;

/* All ones are what says that the number stands in the ZIP64 field, so that value itself has to be
   there, too. */
static bool zip_write_is_long(uint64_t number)
{
    return number >= UINT32_MAX;
}

/* A number of 32 bits, or all ones when it stands in a ZIP64 field. */
static void zip_write_short(coffer__writing *out, uint64_t value)
{
    coffer__write_le(out, zip_write_is_long(value) ? UINT32_MAX : value, 4);
}

/* What both heads have in common, from "needed" on; returns where in the text the CRC is. */
static size_t zip_write_common(coffer__writing *out, const zip_write_head *head, bool is_long, size_t extra_size)
{
    /* The fields are in the order of the record, and each line has one: size in bytes last. */
    coffer__write_le(out, is_long ? ZIP_WRITE_VERSION64 : ZIP_WRITE_VERSION, 2);
    coffer__write_le(out, ZIP_WRITE_UTF8, 2);
    coffer__write_le(out, 0, 2); /* stored */
    coffer__write_le(out, 0, 2); /* midnight */
    coffer__write_le(out, ZIP_WRITE_DATE, 2);
    const size_t crc_at = out->used;
    coffer__write_le(out, head->crc, 4);
    zip_write_short(out, head->size);
    zip_write_short(out, head->size);
    coffer__write_le(out, head->name_len, 2);
    coffer__write_le(out, extra_size, 2);
    return crc_at;
}

/* How long the padding field has to be, so that what comes after it is aligned. A field cannot be
   shorter than six bytes; where the gap is smaller, it reaches to the next multiple. */
static size_t zip_write_padding_size(uint64_t at)
{
    const size_t gap = (size_t)(0 - at) % COFFER__ZIP_ALIGNMENT;
    return gap == 0 || gap >= ZIP_WRITE_PADDING ? gap : gap + COFFER__ZIP_ALIGNMENT;
}

/* An extra field has a number, the size of what follows, and what follows. Readers skip those that
   they do not know. */
static void zip_write_padding(coffer__writing *out, size_t size)
{
    if (size == 0) {
        return;
    }
    coffer__write_le(out, ZIP_WRITE_PADDING_ID, 2);
    coffer__write_le(out, size - 4, 2);
    coffer__write_le(out, COFFER__ZIP_ALIGNMENT, 2);
    char *zeros = coffer__write_space(out, size - ZIP_WRITE_PADDING);
    if (zeros != NULL) {
        memset(zeros, 0, size - ZIP_WRITE_PADDING);
    }
}

/* The local head. Its ZIP64 field has both sizes, as the standard wants it there. */
static size_t zip_write_local(coffer__writing *out, const zip_write_head *head)
{
    const bool is_long = zip_write_is_long(head->size);
    const size_t field = is_long ? ZIP_WRITE_FIELD64 : 0;
    const size_t padding = zip_write_padding_size(head->at + ZIP_WRITE_HEAD + head->name_len + field);
    coffer__write(out, "PK\3\4", 4);
    const size_t crc_at = zip_write_common(out, head, is_long, field + padding);
    coffer__write(out, head->name, head->name_len);
    if (is_long) {
        coffer__write_le(out, 1, 2);
        coffer__write_le(out, 16, 2);
        coffer__write_le(out, head->size, 8);
        coffer__write_le(out, head->size, 8);
    }
    zip_write_padding(out, padding);
    return crc_at;
}

/* The entry in the directory. Its ZIP64 field has only the numbers that need it. */
static size_t zip_write_entry(coffer__writing *out, const zip_write_head *head)
{
    const bool long_size = zip_write_is_long(head->size);
    const bool long_at = zip_write_is_long(head->at);
    /* In the entry each number stands in the field only if it is all ones in its place, as readers expect. */
    const size_t field = (long_size ? 16u : 0u) + (long_at ? 8u : 0u);
    coffer__write(out, "PK\1\2", 4);
    coffer__write_le(out, ZIP_WRITE_VERSION64, 2); /* made by a program that knows this version, on no system */
    const size_t crc_at = zip_write_common(out, head, field > 0, field > 0 ? field + 4 : 0);
    coffer__write_le(out, 0, 2); /* no comment */
    coffer__write_le(out, 0, 2); /* the only disk */
    coffer__write_le(out, 0, 6); /* no attributes */
    zip_write_short(out, head->at);
    coffer__write(out, head->name, head->name_len);
    if (field > 0) {
        coffer__write_le(out, 1, 2);
        coffer__write_le(out, field, 2);
    }
    if (long_size) {
        coffer__write_le(out, head->size, 8);
        coffer__write_le(out, head->size, 8);
    }
    if (long_at) {
        coffer__write_le(out, head->at, 8);
    }
    return crc_at;
}

/* The CRC of a tensor comes when its bytes are written: until then the heads have that of the text before it. */
coffer_status coffer__zip_write_member(coffer__zip_writing *zip, const char *name, size_t name_len, const char *text,
                                       size_t text_len, const coffer_tensor *tensor, coffer_error *err)
{
    /* The size of a name has two bytes in both heads. */
    coffer__layout *layout = zip->layout;
    if (name_len > UINT16_MAX) {
        return coffer__fail(err, COFFER_ERR_NAME, "the name %q is too long for an archive", name, name_len);
    }
    const zip_write_head head = { .name = name,
                                  .name_len = name_len,
                                  .size = text_len + (tensor != NULL ? tensor->size : 0),
                                  .at = coffer__layout_size(layout),
                                  .crc = coffer__crc32_update(zip->crc32, 0, text, text_len) };
    /* The entry is made right away, too, while the member's numbers are at hand; the directory waits until the
       end. */
    const size_t local_at = zip_write_local(&layout->text, &head);
    const size_t entry_at = zip_write_entry(&zip->directory, &head);
    coffer__write(&layout->text, text, text_len);
    zip->count++;
    if (tensor == NULL) {
        return COFFER_OK;
    }
    /* A member without a tensor ends no leaf: its text goes on in the next member's. */
    const coffer_status status = coffer__layout_end_leaf(layout, tensor, err);
    if (status == COFFER_OK) {
        /* The text's CRC is what that of the tensor continues. */
        coffer__leaf *leaf = &layout->leaves[layout->count - 1];
        leaf->crc = head.crc;
        leaf->crc_at[0] = local_at;
        leaf->crc_at[1] = entry_at;
    }
    return status;
}

/* The end record of ZIP64, and its locator, by which readers find it from the end of the file. 44
   is the size of what follows in the record. */
static void zip_write_end64(coffer__writing *out, const coffer__zip_writing *zip, uint64_t directory, uint64_t end)
{
    coffer__write(out, "PK\6\6", 4);
    coffer__write_le(out, 44, 8);
    coffer__write_le(out, ZIP_WRITE_VERSION64, 2);
    coffer__write_le(out, ZIP_WRITE_VERSION64, 2);
    coffer__write_le(out, 0, 8); /* the only disk */
    coffer__write_le(out, zip->count, 8);
    coffer__write_le(out, zip->count, 8);
    coffer__write_le(out, zip->directory.used, 8);
    coffer__write_le(out, directory, 8);
    coffer__write(out, "PK\6\7", 4);
    coffer__write_le(out, 0, 4);
    coffer__write_le(out, end, 8);
    coffer__write_le(out, 1, 4);
}

/* The end record that every archive has. Numbers that do not fit are all ones, and readers look in
   that of ZIP64. */
static void zip_write_end_records(coffer__writing *out, const coffer__zip_writing *zip, uint64_t directory)
{
    const uint64_t count = zip->count < UINT16_MAX ? zip->count : UINT16_MAX;
    coffer__write(out, "PK\5\6", 4);
    coffer__write_le(out, 0, 4);
    coffer__write_le(out, count, 2);
    coffer__write_le(out, count, 2);
    zip_write_short(out, zip->directory.used);
    zip_write_short(out, directory);
    coffer__write_le(out, 0, 2);
}

/* The directory moves into the layout's text, and with it the places of CRCs that are in it. */
coffer_status coffer__zip_write_end(coffer__zip_writing *zip, coffer_error *err)
{
    coffer__layout *layout = zip->layout;
    coffer__writing *out = &layout->text;
    const uint64_t directory = coffer__layout_size(layout);
    /* Any one of the three numbers being too large is enough: the ZIP64 record then has all of them. */
    const bool is_long =
        zip->count >= UINT16_MAX || zip_write_is_long(zip->directory.used) || zip_write_is_long(directory);
    /* Places of CRCs in the directory were counted from its own beginning, which is now known. */
    for (size_t i = 0; i < layout->count; i++) {
        if (layout->leaves[i].crc_at[1] != COFFER__NO_CRC) {
            layout->leaves[i].crc_at[1] += out->used;
        }
    }
    if (zip->directory.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the directory of an archive");
    }
    coffer__write(out, zip->directory.text, zip->directory.used);
    if (is_long) {
        zip_write_end64(out, zip, directory, coffer__layout_size(layout));
    }
    zip_write_end_records(out, zip, directory);
    return coffer__layout_end_leaf(layout, NULL, err);
}

void coffer__zip_writing_free(coffer__zip_writing *zip)
{
    coffer__writing_free(&zip->directory);
}
