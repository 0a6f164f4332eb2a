/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing a manifest: its content tells which way it is written down, or the caller says. */
#include "bundle.h"
#include "error.h"
#include "manifest.h"
#include "members.h"

/* By its content: JSON begins with a brace, which no line of digests does, and only a bundle has an
   envelope. The guess is no trust: each reader checks all of its own rules. */
static coffer_manifest_format manifest_recognise(const char *text, size_t text_len, const coffer_allocator *allocator)
{
    /* The white space of JSON may come first. */
    size_t at = 0;
    while (at < text_len && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n')) {
        at++;
    }
    if (at == text_len || text[at] != '{') {
        return COFFER_MANIFEST_LINES;
    }
    return coffer__members_has(text, text_len, "dsseEnvelope", allocator) ? COFFER_MANIFEST_BUNDLE
                                                                          : COFFER_MANIFEST_STATEMENT;
}

/* Only a bundle takes the key, which may be NULL: manifest_read has refused a key for the other two. */
static coffer_status manifest_read_as(coffer_manifest *manifest, const char *text, size_t text_len, const char *key,
                                      size_t key_len, coffer_error *err)
{
    switch (manifest->format) {
    case COFFER_MANIFEST_LINES:
        return coffer__lines_read(manifest, text, text_len, err);
    case COFFER_MANIFEST_STATEMENT:
        return coffer__statement_read(manifest, text, text_len, err);
    default:
        return coffer__bundle_read(manifest, text, text_len, key, key_len, err);
    }
}

/* A key demands a signature. A manifest without one is refused then, and not read as if the key had
   not been given: whoever can change the file could drop the signature. */
static coffer_status manifest_read(coffer_manifest *manifest, const char *text, size_t text_len, const char *key,
                                   size_t key_len, coffer_error *err)
{
    manifest->format = manifest_recognise(text, text_len, &manifest->allocator);
    if (key != NULL && manifest->format != COFFER_MANIFEST_BUNDLE) {
        return coffer__fail(err, COFFER_ERR_NOT_SIGNED,
                            "the manifest has no signature that the key could check: it is %s",
                            manifest->format == COFFER_MANIFEST_LINES ? "lines of digests" : "a statement alone");
    }
    const coffer_status status = manifest_read_as(manifest, text, text_len, key, key_len, err);
    return status == COFFER_OK ? coffer__manifest_check_names(manifest, err) : status;
}

/* Made with an empty name: only statements name the model. */
coffer_status coffer_manifest_parse(coffer_manifest **manifest, const void *bytes, size_t size, const char *key,
                                    size_t key_len, const coffer_allocator *allocator, coffer_error *err)
{
    coffer_manifest *made = NULL;
    if (manifest == NULL || (bytes == NULL && size > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the place for the manifest or its bytes are NULL");
    }
    /* Set before anything can fail, so that the caller may free it in any case. */
    *manifest = NULL;
    coffer_status status = coffer_manifest_new(&made, "", allocator, err);
    if (made == NULL) {
        return status;
    }
    status = manifest_read(made, bytes, size, key, key_len, err);
    if (status != COFFER_OK) {
        coffer_manifest_free(made);
        return status;
    }
    *manifest = made;
    return COFFER_OK;
}

/* Signs the statement that was written, and replaces it by the bundle. */
static coffer_status manifest_sign(coffer_manifest *manifest, const char *key, size_t key_len, coffer_error *err)
{
    coffer__writing bundle = { .allocator = &manifest->allocator };
    const coffer_status status = coffer__bundle_write(&manifest->written, key, key_len, &bundle, err);
    coffer__writing_free(&manifest->written);
    manifest->written = bundle;
    return status;
}

/* Writes lines, or a statement, which is also what a bundle signs. */
static coffer_status manifest_write_plain(coffer_manifest *manifest, coffer_manifest_format format, coffer_error *err)
{
    if (format == COFFER_MANIFEST_LINES) {
        coffer__lines_write(manifest, &manifest->written);
    } else {
        const coffer_status status = coffer__statement_write(manifest, &manifest->written, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return manifest->written.failed ? coffer__manifest_no_memory(err) : COFFER_OK;
}

/* Names are checked as in reading: what is written can be read back. */
static coffer_status manifest_write(coffer_manifest *manifest, coffer_manifest_format format, const char *key,
                                    size_t key_len, coffer_error *err)
{
    coffer_status status = coffer__manifest_check_names(manifest, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = manifest_write_plain(manifest, format, err);
    if (status != COFFER_OK || key == NULL) {
        return status;
    }
    status = manifest_sign(manifest, key, key_len, err);
    if (status != COFFER_OK) {
        return status;
    }
    return manifest->written.failed ? coffer__manifest_no_memory(err) : COFFER_OK;
}

/*
 * The text belongs to the manifest, until the next call or the manifest's end. A key and the bundle
 * need each other: an unsigned bundle, or a key that signs nothing, would be a mistake that nobody
 * sees.
 */
coffer_status coffer_manifest_write(coffer_manifest *manifest, coffer_manifest_format format, const char *key,
                                    size_t key_len, const char **text, size_t *text_len, coffer_error *err)
{
    if (manifest == NULL || text == NULL || text_len == NULL || (key != NULL) != (format == COFFER_MANIFEST_BUNDLE)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "a manifest needs a place for its text, and a key to be a bundle");
    }
    coffer__writing_free(&manifest->written);
    const coffer_status status = manifest_write(manifest, format, key, key_len, err);
    if (status != COFFER_OK) {
        return status;
    }
    *text = manifest->written.text;
    *text_len = manifest->written.used;
    return COFFER_OK;
}
