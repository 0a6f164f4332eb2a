/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is that is not what was expected. Signatures: the Git LFS specification, PKWARE's APPNOTE 4.3, Python's
 * pickletools, ggml's gguf.md, the HDF5 file format specification, NumPy's NEP 1, RFC 1952, RFC 8878, xz-file-format, POSIX's
 * pax (ustar), the System V ABI (ELF).
 */
#include "sniff.h"

#include "bytes.h"
#include "error.h"
#include "text.h"

#define SNIFF_LEAST_ZEROS 64u
/* So many bytes have to be text to be called that: fewer than the length of a header has could be anything. */
#define SNIFF_LEAST_TEXT 8u
/* And so many are looked at. */
#define SNIFF_MOST_TEXT 512u
/* Of the first line so many bytes are shown at most. */
#define SNIFF_MOST_LINE 80u
/* Where the signature of a tar archive is. */
#define SNIFF_TAR 257u

typedef struct sniff_row {
    coffer_status code;
    const char *magic;
    size_t magic_size;
    const char *message;
} sniff_row;

static const sniff_row sniff_rows[] = {
    { COFFER_ERR_IS_LFS_POINTER, "version https://git-lfs", 23,
      "this is a Git LFS pointer, a note of where the file is, not the file: run `git lfs pull`, or download the "
      "file" },
    { COFFER_ERR_IS_ZIP, "PK\x03\x04", 4,
      "this is a zip archive, as PyTorch checkpoints (.pt, .pth, .bin) and .npz files are, not a safetensors file: "
      "convert it" },
    { COFFER_ERR_IS_ZIP, "PK\x05\x06", 4, "this is an empty zip archive, not a safetensors file" },
    { COFFER_ERR_IS_GGUF, "GGUF", 4, "this is a GGUF file, not a safetensors file: use a program that reads GGUF" },
    { COFFER_ERR_IS_HDF5, "\x89HDF\r\n\x1a\n", 8,
      "this is an HDF5 file, as Keras weights (.h5) are, not a safetensors file: convert it" },
    { COFFER_ERR_IS_NUMPY, "\x93NUMPY", 6, "this is a NumPy array (.npy), not a safetensors file: convert it" },
    { COFFER_ERR_IS_COMPRESSED, "\x1f\x8b\x08", 3, "this is a gzip file, not a safetensors file: unpack it first" },
    { COFFER_ERR_IS_COMPRESSED, "\x28\xb5\x2f\xfd", 4, "this is a zstd file, not a safetensors file: unpack it first" },
    { COFFER_ERR_IS_COMPRESSED, "\xfd\x37zXZ", 6, "this is an xz file, not a safetensors file: unpack it first" },
    { COFFER_ERR_IS_COMPRESSED, "BZh", 3, "this is a bzip2 file, not a safetensors file: unpack it first" },
    { COFFER_ERR_IS_ELF,
      "\x7F"
      "ELF",
      4, "this is a program or a library (ELF), not a safetensors file: look at the address or the name" },
};

/* Bytes before the text begins: a byte order mark and white space. */
static size_t sniff_skip_blank(const uint8_t *bytes, size_t size)
{
    size_t at = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < size && (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r'))) {
        at++;
    }
    return at;
}

/* Text, not the length of a header: a length that could be one has zeros in its upper half. */
static bool sniff_is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < 8; i++) {
        if (bytes[i] < 0x20 && !(bytes[i] >= '\t' && bytes[i] <= '\r')) {
            return false;
        }
    }
    return true;
}

/* UTF-8 without control characters but white space, as servers send that have nothing else to say: it is quoted, to the end of its
   first line. */
static coffer_status sniff_plain_text(const uint8_t *bytes, size_t size, size_t start, coffer_error *err)
{
    for (size_t at = 0; at < size && at < SNIFF_MOST_TEXT;) {
        uint32_t c = 0;
        const size_t len = coffer__utf8_decode((const char *)bytes + at, size - at, &c);
        if (len == 0 || (coffer__is_control(c) && !(c >= '\t' && c <= '\r'))) {
            return COFFER_OK;
        }
        at += len;
    }
    size_t end = start;
    while (end < size && end - start < SNIFF_MOST_LINE && bytes[end] != '\n' && bytes[end] != '\r') {
        end++;
    }
    return size < SNIFF_LEAST_TEXT
               ? COFFER_OK
               : coffer__fail_at(err, COFFER_ERR_IS_TEXT, 0,
                                 "this is plain text, not a safetensors file: %q; if it was downloaded, the address or "
                                 "the access token may be wrong",
                                 bytes + start, end - start);
}

static coffer_status sniff_text(const uint8_t *bytes, size_t size, coffer_error *err)
{
    const size_t start = sniff_skip_blank(bytes, size);
    if (start == size || !sniff_is_text(bytes, size)) {
        return COFFER_OK;
    }
    if (bytes[start] == '<') {
        return coffer__fail_at(
            err, COFFER_ERR_IS_HTML, 0,
            "this is a web page or XML, not a safetensors file: what should have been downloaded was "
            "not; look at it, the address or the access token may be wrong");
    }
    if (bytes[start] == '{' || bytes[start] == '[') {
        return coffer__fail_at(err, COFFER_ERR_IS_JSON, 0,
                               "this is JSON text, not a safetensors file: a server's error message, perhaps, or the "
                               "index (.index.json) of a model in several files");
    }
    return sniff_plain_text(bytes, size, start, err);
}

/* Pickle begins with its protocol, 2 to 5; what follows is never zero, as it is in a header's length. */
static bool sniff_is_pickle(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes[2] != 0;
}

static bool sniff_is_zeros(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return size >= SNIFF_LEAST_ZEROS;
}

coffer_status coffer__sniff(const void *bytes, size_t size, coffer_error *err)
{
    const uint8_t *start = bytes;
    for (size_t i = 0; i < sizeof sniff_rows / sizeof sniff_rows[0]; i++) {
        const sniff_row *row = &sniff_rows[i];
        if (size >= row->magic_size && memcmp(start, row->magic, row->magic_size) == 0) {
            return coffer__fail_at(err, row->code, 0, "%s", row->message);
        }
    }
    if (size >= SNIFF_TAR + 5 && memcmp(start + SNIFF_TAR, "ustar", 5) == 0) {
        return coffer__fail_at(err, COFFER_ERR_IS_TAR, 0,
                               "this is a tar archive, not a safetensors file: unpack it first");
    }
    if (sniff_is_pickle(start, size)) {
        return coffer__fail_at(err, COFFER_ERR_IS_PICKLE, 0,
                               "this is a Python pickle, as older PyTorch checkpoints (.pt, .pth, .bin) are, not a "
                               "safetensors file: convert it; loading a pickle can run any code that is in it");
    }
    if (sniff_is_zeros(start, size < 512 ? size : 512)) {
        return coffer__fail_at(
            err, COFFER_ERR_IS_ZEROS, 0,
            "the file begins with zeros only: space that was set aside for a download or a copy that "
            "did not finish; get the file again");
    }
    return sniff_text(start, size, err);
}
