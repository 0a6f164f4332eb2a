/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is that is not what was expected. Signatures: the Git LFS specification, PKWARE's APPNOTE
 * 4.3, Python's pickletools, ggml's gguf.md, the HDF5 file format specification, NumPy's NEP 1, RFC
 * 1950, RFC 1952, RFC 8878, xz-file-format, lz4_Frame_format, 7zFormat.txt, Arrow's columnar format, onnx.proto, MessagePack, POSIX's ustar, the System V ABI's ELF, and what
 * images, documents and databases say of themselves (libpng, ISO 32000, the SQLite file format, ...).
 */
#include "sniff.h"

#include "bytes.h"
#include "error.h"
#include "text.h"

#define SNIFF_MIN_ZEROS 64u
#define SNIFF_MIN_TEXT 8u /* bytes: fewer may be anything that was cut */
#define SNIFF_MAX_TEXT 512u
#define SNIFF_TAR_AT 257u

typedef struct sniff_row {
    coffer_status code;
    const char *magic;
    size_t magic_size;
    const char *message;
} sniff_row;

/* Files that begin with a signature, of at least three bytes. The shortest could also be the length
   of a header; but they are only asked about when the frame or the header is wrong. */
static const sniff_row sniff_rows[] = {
    { COFFER_ERR_IS_LFS_POINTER, "version https://git-lfs", 23,
      "this is a Git LFS pointer, a note of where the file is, not the file: run `git lfs pull`, or download the "
      "file" },
    { COFFER_ERR_IS_ZIP, "PK\x03\x04", 4,
      "this is a zip archive, as PyTorch checkpoints (.pt, .pth, .bin) and .npz files are, not a safetensors file: "
      "convert it with `coffer convert`" },
    { COFFER_ERR_IS_ZIP, "PK\x05\x06", 4, "this is an empty zip archive, not a safetensors file" },
    { COFFER_ERR_IS_GGUF, "GGUF", 4, "this is a GGUF file, not a safetensors file: convert it with `coffer convert`" },
    { COFFER_ERR_IS_HDF5, "\x89HDF\r\n\x1a\n", 8,
      "this is an HDF5 file, as Keras weights (.h5) are, not a safetensors file: convert it with `coffer convert`" },
    { COFFER_ERR_IS_NUMPY, "\x93NUMPY", 6,
      "this is a NumPy array (.npy), not a safetensors file: convert it with `coffer convert`" },
    { COFFER_ERR_IS_CONVERTIBLE, "ARROW1\0\0", 8,
      "this is an Arrow file, not a safetensors file: convert it with `coffer convert`" },
    { COFFER_ERR_IS_ELF,
      "\x7f"
      "ELF",
      4, "this is an ELF file, a program or library, not a safetensors file: name another one" },
};

/* What has to be unpacked, and what has no tensors: only a name is known of them. The lzma file is one of unknown size, as
   Python writes them. */
static const struct sniff_named {
    coffer_status code;
    const char *magic;
    size_t magic_size;
    const char *noun;
} sniff_named[] = {
    { COFFER_ERR_IS_COMPRESSED, "\x1f\x8b\x08", 3, "a gzip file" },
    { COFFER_ERR_IS_COMPRESSED, "\x28\xb5\x2f\xfd", 4, "a zstd file" },
    { COFFER_ERR_IS_COMPRESSED, "\xfd\x37zXZ", 6, "an xz file" },
    { COFFER_ERR_IS_COMPRESSED, "BZh", 3, "a bzip2 file" },
    { COFFER_ERR_IS_COMPRESSED, "\x04\x22\x4d\x18", 4, "an lz4 file" },
    { COFFER_ERR_IS_COMPRESSED, "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff", 13, "an lzma file" },
    { COFFER_ERR_IS_COMPRESSED, "7z\xbc\xaf\x27\x1c", 6, "a 7z archive" },
    { COFFER_ERR_IS_COMPRESSED, "Rar!\x1a\x07", 6, "a rar archive" },
    { COFFER_ERR_IS_OTHER, "\x89PNG\r\n\x1a\n", 8, "a PNG image" },
    { COFFER_ERR_IS_OTHER, "\xff\xd8\xff", 3, "a JPEG image" },
    { COFFER_ERR_IS_OTHER, "GIF8", 4, "a GIF image" },
    { COFFER_ERR_IS_OTHER, "RIFF", 4, "a RIFF file, which is audio, video or an image" },
    { COFFER_ERR_IS_OTHER, "OggS", 4, "an Ogg file, which is audio or video" },
    { COFFER_ERR_IS_OTHER, "%PDF-", 5, "a PDF document" },
    { COFFER_ERR_IS_OTHER, "SQLite format 3", 16, "an SQLite database" },
    { COFFER_ERR_IS_OTHER, "MZ\x90", 4, "a program or library for Windows" },
    { COFFER_ERR_IS_OTHER, "\xcf\xfa\xed\xfe", 4, "a program or library for macOS" },
    { COFFER_ERR_IS_OTHER, "\0asm", 4, "a WebAssembly module" },
};

/* How many bytes come before the text begins: a byte order mark and white space. */
static size_t sniff_skip_blank(const uint8_t *bytes, size_t size)
{
    size_t at = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < size && (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r'))) {
        at++;
    }
    return at;
}

/* Whether the first eight bytes are text, and not the length of a header: a length that could be
   one has zeros in its upper half. */
static bool sniff_is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < 8; i++) {
        if (bytes[i] < 0x20 && !(bytes[i] >= '\t' && bytes[i] <= '\r')) {
            return false;
        }
    }
    return true;
}

/*
 * Whether the bytes from `at` on may be the beginning of a character that continues after the last
 * of those that are looked at. Only then is a broken character at the end no sign against text.
 */
static bool sniff_is_cut(const uint8_t *bytes, size_t size, size_t at)
{
    if (size != SNIFF_MAX_TEXT || size - at > 3 || bytes[at] < 0xC2) {
        return false;
    }
    for (size_t i = at + 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return false;
        }
    }
    return true;
}

/* Whether all of it is text for people, in UTF-8; its last character may be cut. Control characters
   other than white space are a sign of anything else. */
static bool sniff_is_plain(const uint8_t *bytes, size_t size)
{
    for (size_t at = 0, step = 0; at < size; at += step) {
        uint32_t code_point = 0;
        step = coffer__utf8_decode((const char *)bytes + at, size - at, &code_point);
        if (step == 0) {
            return sniff_is_cut(bytes, size, at);
        }
        if (coffer__is_control(code_point) && !(code_point >= '\t' && code_point <= '\r')) {
            return false;
        }
    }
    return true;
}

/* Its length, without its end; a message has no space for more. */
static size_t sniff_first_line(const uint8_t *bytes, size_t size)
{
    size_t len = 0;
    while (len < size && bytes[len] != '\n' && bytes[len] != '\r') {
        len++;
    }
    return len;
}

/* Servers answer with a line of text where a file was expected. The message quotes the first line,
   escaped, which usually says what happened. */
static coffer_status sniff_plain(const uint8_t *bytes, size_t size, size_t start, coffer_error *err)
{
    const size_t seen = size < SNIFF_MAX_TEXT ? size : SNIFF_MAX_TEXT;
    if (size < SNIFF_MIN_TEXT || !sniff_is_plain(bytes, seen)) {
        return COFFER_OK;
    }
    return coffer__fail_at(err, COFFER_ERR_IS_TEXT, 0,
                           "this is plain text, %q, not a safetensors file: perhaps a server's error message; look at "
                           "it, the URL or the access token may be wrong",
                           (const char *)bytes + start, sniff_first_line(bytes + start, seen - start));
}

/* A web page and JSON are told by their first character. An index of a model in several files is
   JSON, and is easily named instead of its files. */
static coffer_status sniff_text(const uint8_t *bytes, size_t size, coffer_error *err)
{
    const size_t start = sniff_skip_blank(bytes, size);
    if (start == size || start >= SNIFF_MAX_TEXT || !sniff_is_text(bytes, size)) {
        return COFFER_OK;
    }
    if (bytes[start] == '<') {
        return coffer__fail_at(err, COFFER_ERR_IS_HTML, 0,
                               "this is a web page or XML, not a safetensors file: the download got something else; "
                               "look at it, the URL or the access token may be wrong");
    }
    if (bytes[start] == '{' || bytes[start] == '[') {
        return coffer__fail_at(err, COFFER_ERR_IS_JSON, 0,
                               "this is JSON text, not a safetensors file: perhaps a server's error message, or the "
                               "index (.index.json) of a model in several files");
    }
    return sniff_plain(bytes, size, start, err);
}

/* Pickle begins with its protocol, 2 to 5; what follows is never zero, as it is in a header's length. */
static bool sniff_is_pickle(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes[2] != 0;
}

/* A file of few zeros may be anything; a run of 64 is space that was reserved and never written. */
static bool sniff_is_zeros(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return size >= SNIFF_MIN_ZEROS;
}

/* zlib's two bytes, of the window that everybody uses, where the whole is no length of a header. */
static bool sniff_is_zlib(const uint8_t *bytes, size_t size)
{
    return size >= 8 && bytes[0] == 0x78 && (bytes[0] * 256u + bytes[1]) % 31 == 0 && bytes[1] < 0xE0 &&
           (bytes[1] & 0x20) == 0 && coffer__load_u32le(bytes + 4) != 0;
}

/* Whether `len` bytes of a text from `at` on, or as many of them as are there, are characters of ASCII that can be seen. */
static bool sniff_is_word(const uint8_t *bytes, size_t size, size_t at, size_t len)
{
    const size_t end = at < size && len < size - at ? at + len : size;
    for (size_t i = at; i < end; i++) {
        if (bytes[i] < ' ' || bytes[i] >= 0x7F) {
            return false;
        }
    }
    return at < size && len > 0;
}

/* A message of Arrow: four bytes of ones, a size, and a root within it. */
static bool sniff_is_arrow_message(const uint8_t *bytes, size_t size)
{
    if (size < 12 || coffer__load_u32le(bytes) != UINT32_MAX) {
        return false;
    }
    const uint32_t length = coffer__load_u32le(bytes + 4);
    const uint32_t root = coffer__load_u32le(bytes + 8);
    return length % 8 == 0 && length <= INT32_MAX && root % 4 == 0 && root >= 4 && root < length;
}

/* ONNX's message begins with its version, above those of other programs' messages that begin alike; then comes the name of a program,
   the graph, or the sets of operators. */
static bool sniff_is_onnx(const uint8_t *bytes, size_t size)
{
    if (size < 5 || bytes[0] != 0x08 || bytes[1] < 3 || bytes[1] > 31) {
        return false;
    }
    return bytes[2] == 0x3A || bytes[2] == 0x42 || (bytes[2] == 0x12 && sniff_is_word(bytes, size, 4, bytes[3]));
}

/* flax begins with a map whose first key is a short text, and its value another map or an array, which is an extension. */
static bool sniff_is_flax(const uint8_t *bytes, size_t size)
{
    const bool small = size > 0 && bytes[0] > 0x80 && bytes[0] < 0x90;
    const bool large = size > 0 && (bytes[0] == 0xDE || bytes[0] == 0xDF);
    const size_t at = small ? 1 : large ? (bytes[0] == 0xDE ? 3 : 5) : size;
    if (at >= size || size - at < 2) {
        return false;
    }
    const bool short_key = bytes[at] >= 0xA0 && bytes[at] <= 0xBF;
    const size_t key = short_key ? at + 1 : at + 2;
    const size_t key_len = short_key ? bytes[at] & 0x1Fu : bytes[at + 1];
    if ((!short_key && bytes[at] != 0xD9) || !sniff_is_word(bytes, size, key, key_len)) {
        return false;
    }
    const size_t value = key + key_len;
    return value >= size || (bytes[value] >= 0x80 && bytes[value] < 0x90) || bytes[value] == 0xDE ||
           bytes[value] == 0xDF || (bytes[value] >= 0xC7 && bytes[value] <= 0xC9);
}

/* The first entry of TensorFlow's table has no key, and tells the number of data files and the version of the whole. */
static bool sniff_is_tensorflow(const uint8_t *bytes, size_t size)
{
    return size >= 8 && bytes[0] == 0 && bytes[1] == 0 && bytes[3] == 0x08 && bytes[5] == 0x1A && bytes[6] == 2 &&
           bytes[7] == 0x08;
}

/* What a file is of the formats that coffer convert reads and that have no signature; NULL: none of them. */
static const char *sniff_convertible(const uint8_t *bytes, size_t size)
{
    if (sniff_is_arrow_message(bytes, size)) {
        return "this is a message of Arrow";
    }
    if (sniff_is_onnx(bytes, size)) {
        return "this looks like an ONNX model";
    }
    if (sniff_is_flax(bytes, size)) {
        return "this looks like MessagePack, as checkpoints of flax are";
    }
    return sniff_is_tensorflow(bytes, size) ? "this looks like the index of a TensorFlow checkpoint" : NULL;
}

coffer_status coffer__sniff_noun(const void *bytes, size_t size, const char **noun)
{
    for (size_t i = 0; i < sizeof sniff_named / sizeof sniff_named[0]; i++) {
        const struct sniff_named *row = &sniff_named[i];
        if (size >= row->magic_size && memcmp(bytes, row->magic, row->magic_size) == 0) {
            *noun = row->noun;
            return row->code;
        }
    }
    *noun = "zlib's data, as joblib writes with compression";
    return sniff_is_zlib(bytes, size) ? COFFER_ERR_IS_COMPRESSED : COFFER_OK;
}

/* From the surest sign to the weakest: signatures, pickle, zeros, an archive's mark that lies far
   inside, and text. */
coffer_status coffer__sniff(const void *bytes, size_t size, coffer_error *err)
{
    const uint8_t *start = bytes;
    for (size_t i = 0; i < sizeof sniff_rows / sizeof sniff_rows[0]; i++) {
        const sniff_row *row = &sniff_rows[i];
        if (size >= row->magic_size && memcmp(start, row->magic, row->magic_size) == 0) {
            return coffer__fail_at(err, row->code, 0, "%s", row->message);
        }
    }
    const char *noun = NULL;
    const coffer_status named = coffer__sniff_noun(bytes, size, &noun);
    if (named != COFFER_OK) {
        return coffer__fail_at(err, named, 0, "this is %s, not a safetensors file: %s", noun,
                               named == COFFER_ERR_IS_COMPRESSED ? "unpack it first" : "name another one");
    }
    if (sniff_is_pickle(start, size)) {
        return coffer__fail_at(
            err, COFFER_ERR_IS_PICKLE, 0,
            "this is a Python pickle, as older PyTorch checkpoints (.pt, .pth, .bin) are, not a "
            "safetensors file: convert it with `coffer convert`; loading a pickle can run any code that "
            "is in it");
    }
    const char *convertible = sniff_convertible(start, size);
    if (convertible != NULL) {
        return coffer__fail_at(err, COFFER_ERR_IS_CONVERTIBLE, 0,
                               "%s, not a safetensors file: convert it with `coffer convert`", convertible);
    }
    if (sniff_is_zeros(start, size < 512 ? size : 512)) {
        return coffer__fail_at(err, COFFER_ERR_IS_ZEROS, 0,
                               "the file begins with only zeros: space reserved by a download or a copy that did not "
                               "finish; get the file again");
    }
    if (size >= SNIFF_TAR_AT + 5 && memcmp(start + SNIFF_TAR_AT, "ustar", 5) == 0) {
        return coffer__fail_at(err, COFFER_ERR_IS_TAR, 0,
                               "this is a tar archive, not a safetensors file: unpack it first, or, if it is a PyTorch "
                               "checkpoint, convert it with `coffer convert`");
    }
    return sniff_text(start, size, err);
}
