/* SPDX-License-Identifier: Apache-2.0 */
/* One way to fail: messages are formatted here, into the caller's error, by the few conversions
   that error.h lists. Nothing is allocated, so that running out of memory can be reported, too. */
#include "error.h"

#include "text.h"

#include <string.h>

/* Names of statuses, as coffer_status_name gives them. They are searched, not indexed: failures are
   rare, and a table by number would have to be kept in order. */
static const struct status_row {
    coffer_status code;
    const char *name;
} status_rows[] = {
    { COFFER_OK, "OK" },
    { COFFER_NEED_MORE, "NEED_MORE" },
    { COFFER_ERR_ARGUMENT, "ARGUMENT" },
    { COFFER_ERR_MEMORY, "MEMORY" },
    { COFFER_ERR_CANCELLED, "CANCELLED" },
    { COFFER_ERR_NOT_FOUND, "NOT_FOUND" },
    { COFFER_ERR_DIRECTORY, "DIRECTORY" },
    { COFFER_ERR_NOT_REGULAR, "NOT_REGULAR" },
    { COFFER_ERR_IO, "IO" },
    { COFFER_ERR_CHANGED, "CHANGED" },
    { COFFER_ERR_UNSUPPORTED, "UNSUPPORTED" },
    { COFFER_ERR_EMPTY, "EMPTY" },
    { COFFER_ERR_TOO_SHORT, "TOO_SHORT" },
    { COFFER_ERR_HEADER_LENGTH, "HEADER_LENGTH" },
    { COFFER_ERR_HEADER_TOO_LARGE, "HEADER_TOO_LARGE" },
    { COFFER_ERR_HEADER_TRUNCATED, "HEADER_TRUNCATED" },
    { COFFER_ERR_DATA_TRUNCATED, "DATA_TRUNCATED" },
    { COFFER_ERR_TRAILING_BYTES, "TRAILING_BYTES" },
    { COFFER_ERR_JSON, "JSON" },
    { COFFER_ERR_UTF8, "UTF8" },
    { COFFER_ERR_DEPTH, "DEPTH" },
    { COFFER_ERR_TYPE, "TYPE" },
    { COFFER_ERR_NUMBER, "NUMBER" },
    { COFFER_ERR_MISSING_FIELD, "MISSING_FIELD" },
    { COFFER_ERR_HEADER_ENDS, "HEADER_ENDS" },
    { COFFER_ERR_PADDING, "PADDING" },
    { COFFER_ERR_DUPLICATE_NAME, "DUPLICATE_NAME" },
    { COFFER_ERR_DUPLICATE_KEY, "DUPLICATE_KEY" },
    { COFFER_ERR_DTYPE, "DTYPE" },
    { COFFER_ERR_OVERFLOW, "OVERFLOW" },
    { COFFER_ERR_PARTIAL_BYTE, "PARTIAL_BYTE" },
    { COFFER_ERR_RANGE, "RANGE" },
    { COFFER_ERR_SIZE, "SIZE" },
    { COFFER_ERR_HOLE, "HOLE" },
    { COFFER_ERR_OVERLAP, "OVERLAP" },
    { COFFER_ERR_IS_LFS_POINTER, "IS_LFS_POINTER" },
    { COFFER_ERR_IS_HTML, "IS_HTML" },
    { COFFER_ERR_IS_JSON, "IS_JSON" },
    { COFFER_ERR_IS_ZIP, "IS_ZIP" },
    { COFFER_ERR_IS_PICKLE, "IS_PICKLE" },
    { COFFER_ERR_IS_GGUF, "IS_GGUF" },
    { COFFER_ERR_IS_HDF5, "IS_HDF5" },
    { COFFER_ERR_IS_NUMPY, "IS_NUMPY" },
    { COFFER_ERR_IS_COMPRESSED, "IS_COMPRESSED" },
    { COFFER_ERR_IS_ZEROS, "IS_ZEROS" },
    { COFFER_ERR_IS_TEXT, "IS_TEXT" },
    { COFFER_ERR_IS_TAR, "IS_TAR" },
    { COFFER_ERR_IS_ELF, "IS_ELF" },
    { COFFER_ERR_IS_OTHER, "IS_OTHER" },
    { COFFER_ERR_IS_CONVERTIBLE, "IS_CONVERTIBLE" },
    { COFFER_ERR_NO_TENSOR, "NO_TENSOR" },
    { COFFER_ERR_NOT_MAPPED, "NOT_MAPPED" },
    { COFFER_ERR_BUFFER_SIZE, "BUFFER_SIZE" },
    { COFFER_ERR_SLICE_SYNTAX, "SLICE_SYNTAX" },
    { COFFER_ERR_INDEX, "INDEX" },
    { COFFER_ERR_STEP, "STEP" },
    { COFFER_ERR_SLICE_BITS, "SLICE_BITS" },
    { COFFER_ERR_NAME, "NAME" },
    { COFFER_ERR_MISSING_DATA, "MISSING_DATA" },
    { COFFER_ERR_WRITE_RANGE, "WRITE_RANGE" },
    { COFFER_ERR_REPLACE, "REPLACE" },
    { COFFER_ERR_UNDO, "UNDO" },
    { COFFER_ERR_NO_UNDO, "NO_UNDO" },
    { COFFER_ERR_LOCKED, "LOCKED" },
    { COFFER_ERR_LINKED, "LINKED" },
    { COFFER_ERR_NO_SLACK, "NO_SLACK" },
    { COFFER_ERR_SHARD_NAME, "SHARD_NAME" },
    { COFFER_ERR_SHARD_LINK, "SHARD_LINK" },
    { COFFER_ERR_SHARD_MISSING, "SHARD_MISSING" },
    { COFFER_ERR_NOT_IN_SHARD, "NOT_IN_SHARD" },
    { COFFER_ERR_TWO_SHARDS, "TWO_SHARDS" },
    { COFFER_ERR_INDEX_TOO_LARGE, "INDEX_TOO_LARGE" },
    { COFFER_ERR_SHADOWED, "SHADOWED" },
    { COFFER_ERR_UNFINISHED, "UNFINISHED" },
    { COFFER_ERR_URL, "URL" },
    { COFFER_ERR_NO_NETWORK, "NO_NETWORK" },
    { COFFER_ERR_CONNECT, "CONNECT" },
    { COFFER_ERR_TIMEOUT, "TIMEOUT" },
    { COFFER_ERR_CERTIFICATE, "CERTIFICATE" },
    { COFFER_ERR_HTTP, "HTTP" },
    { COFFER_ERR_ACCESS, "ACCESS" },
    { COFFER_ERR_ANSWER, "ANSWER" },
    { COFFER_ERR_REDIRECT, "REDIRECT" },
    { COFFER_ERR_OFFLINE, "OFFLINE" },
    { COFFER_ERR_NO_REPOSITORY, "NO_REPOSITORY" },
    { COFFER_ERR_NO_REVISION, "NO_REVISION" },
    { COFFER_ERR_GATED, "GATED" },
    { COFFER_ERR_NO_MODEL, "NO_MODEL" },
    { COFFER_ERR_AMBIGUOUS, "AMBIGUOUS" },
    { COFFER_ERR_NO_ALGORITHM, "NO_ALGORITHM" },
    { COFFER_ERR_NO_DIGESTS, "NO_DIGESTS" },
    { COFFER_ERR_DIGESTS, "DIGESTS" },
    { COFFER_ERR_TENSOR_DIGEST, "TENSOR_DIGEST" },
    { COFFER_ERR_METADATA_DIGEST, "METADATA_DIGEST" },
    { COFFER_ERR_CONTENT_DIGEST, "CONTENT_DIGEST" },
    { COFFER_ERR_MANIFEST, "MANIFEST" },
    { COFFER_ERR_MANIFEST_NAME, "MANIFEST_NAME" },
    { COFFER_ERR_MANIFEST_ALGORITHM, "MANIFEST_ALGORITHM" },
    { COFFER_ERR_MANIFEST_ROOT, "MANIFEST_ROOT" },
    { COFFER_ERR_KEY, "KEY" },
    { COFFER_ERR_NOT_SIGNED, "NOT_SIGNED" },
    { COFFER_ERR_SIGNATURE, "SIGNATURE" },
    { COFFER_ERR_DAMAGED, "DAMAGED" },
    { COFFER_ERR_PICKLE, "PICKLE" },
    { COFFER_ERR_CHECKSUM, "CHECKSUM" },
    { COFFER_ERR_NO_EQUIVALENT, "NO_EQUIVALENT" },
    { COFFER_ERR_ROOT, "ROOT" },
    { COFFER_ERR_VIEW, "VIEW" },
    { COFFER_ERR_PLAN, "PLAN" },
    { COFFER_ERR_UNKNOWN_INPUT, "UNKNOWN_INPUT" },
    { COFFER_ERR_NOT_EQUAL, "NOT_EQUAL" },
    { COFFER_ERR_OPAQUE, "OPAQUE" },
    { COFFER_ERR_ARRAY, "ARRAY" },
    { COFFER_ERR_NO_DEVICE, "NO_DEVICE" },
    { COFFER_ERR_DEVICE, "DEVICE" },
    { COFFER_ERR_DEVICE_MEMORY, "DEVICE_MEMORY" },
    { COFFER_ERR_DESTINATION, "DESTINATION" },
    { COFFER_ERR_BUDGET, "BUDGET" },
    { COFFER_ERR_ENGINE, "ENGINE" },
    { COFFER_ERR_TAKEN, "TAKEN" },
    { COFFER_ERR_PEER, "PEER" },
    { COFFER_ERR_PACKED, "PACKED" },
    { COFFER_ERR_PACK_HEAD, "PACK_HEAD" },
    { COFFER_ERR_PACK_TABLE, "PACK_TABLE" },
    { COFFER_ERR_PACK_CODE, "PACK_CODE" },
    { COFFER_ERR_PACK_STREAM, "PACK_STREAM" },
    { COFFER_ERR_PACK_CHECKSUM, "PACK_CHECKSUM" },
    { COFFER_ERR_PACK_FILE, "PACK_FILE" },
    { COFFER_ERR_NOT_PACKED, "NOT_PACKED" },
};

/* Bytes that a quoted name and a path may take in a message, each with a NUL. message_put_quoted
   has a buffer of the larger, that for paths. */
#define MESSAGE_NAME_CAPACITY 96
#define MESSAGE_PATH_CAPACITY 320

/* A message that is being written. What does not fit is cut off; one byte is kept for the NUL. */
typedef struct message_writer {
    char *text;
    size_t size;
    size_t used;
} message_writer;

/* Whatever does not fit is left out: a message that is cut is better than none. */
static void message_put(message_writer *out, const char *text, size_t text_len)
{
    const size_t capacity = out->size - 1 - out->used;
    const size_t taken = text_len < capacity ? text_len : capacity;
    memcpy(out->text + out->used, text, taken);
    out->used += taken;
}

static void message_put_u64(message_writer *out, uint64_t value)
{
    char digits[20];
    message_put(out, digits, coffer__write_u64(digits, value));
}

/* Tenths of a unit, rounded. */
static uint64_t message_tenths(uint64_t size, uint64_t unit)
{
    return size / unit * 10 + (size % unit * 10 + unit / 2) / unit;
}

/*
 * "20 bytes"; from 10,000 on also in the unit that people read: "2.2 GB (2200119864 bytes)".
 * Decimal prefixes, one digit after the point, rounded. The loop ends: 2^64-1 is 18 times 1000^6, and
 * E is the sixth prefix.
 */
static void message_put_size(message_writer *out, uint64_t size)
{
    static const char prefixes[] = "kMGTPE";
    uint64_t unit = 1000;
    size_t prefix = 0;
    uint64_t tenths = message_tenths(size, unit);
    while (tenths >= 10000) { /* 999.95 would be 1000.0, which belongs to the next unit */
        unit *= 1000;
        prefix++;
        tenths = message_tenths(size, unit);
    }
    if (size >= 10000) {
        message_put_u64(out, tenths / 10);
        message_put(out, ".", 1);
        message_put_u64(out, tenths % 10);
        message_put(out, " ", 1);
        message_put(out, prefixes + prefix, 1);
        message_put(out, "B (", 3);
    }
    message_put_u64(out, size);
    message_put(out, " bytes", size == 1 ? 5 : 6);
    message_put(out, ")", size >= 10000);
}

/* Negated as unsigned: -INT64_MIN would be undefined. */
static void message_put_i64(message_writer *out, int64_t value)
{
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        message_put(out, "-", 1);
        magnitude = 0 - magnitude;
    }
    message_put_u64(out, magnitude);
}

static void message_put_hex(message_writer *out, uint64_t value)
{
    char digits[16];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value & 0xF];
        value >>= 4;
    } while (value != 0);
    message_put(out, "0x", 2);
    message_put(out, digits + at, sizeof digits - at);
}

/* `capacity` bytes hold the escaped text and a NUL; a longer one loses its middle. Escaping keeps a
   name from a file from moving the cursor of the terminal that shows the message. */
static void message_put_quoted(message_writer *out, const char *text, size_t text_len, size_t capacity)
{
    char escaped[MESSAGE_PATH_CAPACITY];
    coffer__escape_cut(text, text_len, escaped, capacity);
    message_put(out, "\"", 1);
    message_put(out, escaped, coffer__text_len(escaped));
    message_put(out, "\"", 1);
}

/* Writes one conversion and returns what follows it in the format. An unknown letter is written as
   it is, which also serves "%%". */
static const char *message_convert(message_writer *out, const char *format, va_list *arguments)
{
    switch (*format) {
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        message_put(out, text, coffer__text_len(text));
        break;
    }
    case 'u':
        message_put_u64(out, va_arg(*arguments, uint64_t));
        break;
    case 'z':
        message_put_size(out, va_arg(*arguments, uint64_t));
        break;
    case 'd':
        message_put_i64(out, va_arg(*arguments, int64_t));
        break;
    case 'x':
        message_put_hex(out, va_arg(*arguments, uint64_t));
        break;
    case 'q': {
        const char *text = va_arg(*arguments, const char *);
        message_put_quoted(out, text, va_arg(*arguments, size_t), MESSAGE_NAME_CAPACITY);
        break;
    }
    case 'p': {
        const char *path = va_arg(*arguments, const char *);
        message_put_quoted(out, path, coffer__text_len(path), MESSAGE_PATH_CAPACITY);
        break;
    }
    default:
        message_put(out, format, 1);
        break;
    }
    return format + 1;
}

/* `arguments` is a pointer: a va_list that is passed by value must not be used again after the call. */
static void message_format(coffer_error *err, const char *format, va_list *arguments)
{
    message_writer out = { err->message, sizeof err->message, 0 };
    while (*format != '\0') {
        const char *plain = format;
        while (*format != '\0' && *format != '%') {
            format++;
        }
        message_put(&out, plain, (size_t)(format - plain));
        if (*format == '%') {
            format = message_convert(&out, format + 1, arguments);
        }
    }
    /* A cut at the end may have split a character of UTF-8. */
    out.used = coffer__utf8_valid_len(err->message, out.used);
    err->message[out.used] = '\0';
}

void coffer__error_clear(coffer_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
        err->offset = COFFER_NO_OFFSET;
    }
}

coffer_status coffer__fail(coffer_error *err, coffer_status code, const char *format, ...)
{
    coffer__error_clear(err);
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        err->code = code;
        message_format(err, format, &arguments);
        va_end(arguments);
    }
    return code;
}

coffer_status coffer__fail_at(coffer_error *err, coffer_status code, uint64_t offset, const char *format, ...)
{
    coffer__error_clear(err);
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        err->code = code;
        err->offset = offset;
        message_format(err, format, &arguments);
        va_end(arguments);
    }
    return code;
}

coffer_status coffer__fail_sizes(coffer_error *err, coffer_status code, uint64_t expected, uint64_t actual)
{
    if (err != NULL) {
        err->expected = expected;
        err->actual = actual;
    }
    return code;
}

coffer_status coffer__fail_tensor(coffer_error *err, coffer_status code, const char *name, size_t name_len)
{
    if (err != NULL) {
        coffer__escape_cut(name, name_len, err->tensor, sizeof err->tensor);
    }
    return code;
}

/*
 * The path is not escaped here: programs open it again. What shows it escapes it, as coffer_escape
 * does. Of a path that is too long both ends stay, the first to tell the disk, the last to tell the
 * file.
 */
coffer_status coffer__fail_path(coffer_error *err, coffer_status code, const char *path)
{
    static const char gap[] = "...";
    if (err == NULL) {
        return code;
    }
    const size_t length = coffer__text_len(path);
    if (length < sizeof err->path) {
        memcpy(err->path, path, length + 1);
        return code;
    }
    const size_t half = (sizeof err->path - sizeof gap) / 2;
    memcpy(err->path, path, half);
    memcpy(err->path + half + sizeof gap - 1, path + length - half, half + 1);
    memcpy(err->path + half, gap, sizeof gap - 1);
    return code;
}

coffer_status coffer__fail_errno(coffer_error *err, coffer_status code, int os_error)
{
    if (err != NULL) {
        err->os_error = os_error;
    }
    return code;
}

const char *coffer_status_name(coffer_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].code == status) {
            return status_rows[i].name;
        }
    }
    return "UNKNOWN";
}
