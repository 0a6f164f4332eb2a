/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the readers of manifests: lines, statements, bundles. The input lies at the edge of what may be touched. Whatever is
 * read has names that stay below their folder, and comes back the same when it is written and read again; and no input has a
 * signature of the key that is asked for, but those of the corpus that were made with it.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The public key of corpus/fuzz_manifest/bundle. */
static const char fuzz_key[] = "-----BEGIN PUBLIC KEY-----\n"
                               "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWbxLNVlhmUFJsgkn4uEngRaZY3lQ\n"
                               "Bl7zISY7C30C+LrEHaYwbRIoqrYTZZT33kH0zlnCHutHyjK6bpqRpi7X6A==\n"
                               "-----END PUBLIC KEY-----\n";

static void expect_error(const coffer_error *err, coffer_status status, size_t size)
{
    expect(err->code == status, "the error has the code that was returned");
    const size_t length = strnlen(err->message, sizeof err->message);
    expect(length > 0 && length < sizeof err->message, "there is a message, and it ends");
    expect(err->offset <= size || err->offset == COFFER_NO_OFFSET, "the fault is within the input");
}

/* Component by component, as a program would follow it. */
static void expect_safe_name(const char *name)
{
    expect(name[0] != '\0' && name[0] != '/', "a name is relative");
    if (strcmp(name, ".") == 0) {
        return;
    }
    for (const char *part = name; part != NULL;) {
        const char *slash = strchr(part, '/');
        const size_t len = slash != NULL ? (size_t)(slash - part) : strlen(part);
        expect(len > 0, "no part of a name is empty");
        expect(!(len == 1 && part[0] == '.'), "no part of a name stays where it is");
        expect(!(len == 2 && part[0] == '.' && part[1] == '.'), "no part of a name leads upwards");
        part = slash != NULL ? slash + 1 : NULL;
    }
}

static const coffer_manifest_entry *find_entry(const coffer_manifest *manifest, const char *name)
{
    for (size_t i = 0; i < coffer_manifest_count(manifest); i++) {
        if (strcmp(coffer_manifest_at(manifest, i)->name, name) == 0) {
            return coffer_manifest_at(manifest, i);
        }
    }
    return NULL;
}

static void expect_same(const coffer_manifest *a, const coffer_manifest *b)
{
    expect(coffer_manifest_count(a) == coffer_manifest_count(b), "as many entries come back");
    for (size_t i = 0; i < coffer_manifest_count(a); i++) {
        const coffer_manifest_entry *entry = coffer_manifest_at(a, i);
        const coffer_manifest_entry *found = find_entry(b, entry->name);
        expect(found != NULL && found->algorithm == entry->algorithm, "an entry comes back");
        expect(memcmp(found->digest, entry->digest, sizeof entry->digest) == 0, "with its digest");
    }
}

static void write_and_read(coffer_manifest *manifest, coffer_manifest_format format)
{
    const char *text = NULL;
    size_t text_len = 0;
    coffer_error err;
    coffer_manifest *again = NULL;
    const coffer_status status = coffer_manifest_write(manifest, format, NULL, 0, &text, &text_len, &err);
    if (status != COFFER_OK) {
        expect(format == COFFER_MANIFEST_STATEMENT, "lines can always be written");
        expect(status == COFFER_ERR_MANIFEST_NAME || status == COFFER_ERR_MANIFEST_ALGORITHM,
               "a statement has digests by SHA-256, and names in UTF-8");
        return;
    }
    expect(coffer_manifest_parse(&again, text, text_len, NULL, 0, NULL, &err) == COFFER_OK, "what was written is read");
    expect(coffer_manifest_format_of(again) == format, "as what it is");
    expect_same(manifest, again);
    coffer_manifest_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > 65536) {
        return 0; /* entries are looked for one by one */
    }
    coffer_error err;
    coffer_manifest *manifest = NULL;
    const uint8_t *edge = guarded_copy(bytes, size);
    const coffer_status status = coffer_manifest_parse(&manifest, edge, size, NULL, 0, NULL, &err);
    expect((status == COFFER_OK) == (manifest != NULL), "there is a manifest when all is well, and only then");
    if (status != COFFER_OK) {
        expect_error(&err, status, size);
    }
    coffer_manifest *trusted = NULL;
    const coffer_status signed_by =
        coffer_manifest_parse(&trusted, edge, size, fuzz_key, sizeof fuzz_key - 1, NULL, NULL);
    expect(status == COFFER_OK || signed_by != COFFER_OK, "a signature makes nothing readable");
    if (signed_by == COFFER_OK) {
        expect(strcmp(coffer_manifest_at(trusted, 0)->name, "signed") == 0, "nobody can sign without the key");
    }
    coffer_manifest_free(trusted);
    if (status == COFFER_OK) {
        for (size_t i = 0; i < coffer_manifest_count(manifest); i++) {
            expect_safe_name(coffer_manifest_at(manifest, i)->name);
            (void)coffer_manifest_ignores(manifest, coffer_manifest_at(manifest, i)->name);
        }
        write_and_read(manifest, COFFER_MANIFEST_LINES);
        write_and_read(manifest, COFFER_MANIFEST_STATEMENT);
    }
    coffer_manifest_free(manifest);
    return 0;
}
