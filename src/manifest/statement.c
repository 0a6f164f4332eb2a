/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of OpenSSF model signing: an in-toto statement about the files of a model.
 *
 *     _type          "https://in-toto.io/Statement/v1"
 *     subject        [{name: of the model, digest: {sha256: ROOT}}]
 *     predicateType  "https://model_signing/signature/v1.0"
 *     predicate      serialization  {method: "files", hash_type: "sha256", allow_symlinks, ignore_paths: [NAME]}
 *                    resources      [{name, algorithm: "sha256", digest}]
 *
 * ROOT is the SHA-256 of all resources' digests, as bytes, in the order in which they stand there. So it
 * is a check of the text, not of the files: those are checked by their own digests. A resource named "."
 * is the model itself where that is one file. Members that are not named here are passed over, as the
 * specification wants it.
 */
#include "alloc.h"
#include "error.h"
#include "hex.h"
#include "manifest.h"
#include "members.h"
#include "text.h"

#include <string.h>

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define STATEMENT_PREDICATE "https://model_signing/signature/v1.0"
#define STATEMENT_ROOT_SIZE 32
#define STATEMENT_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* What is known while a statement is read. The strings live as long as its coffer__members. */
typedef struct statement_reader {
    coffer_manifest *manifest;
    coffer__manifest_item item; /* the resource that is being read */
    const char *root;           /* ROOT as it is written */
    size_t root_len;
    uint64_t root_at;
    size_t subjects;
} statement_reader;

/* Where the next value begins, for errors: white space is consumed first. */
static uint64_t statement_at(coffer__members *in)
{
    (void)coffer__json_peek(&in->json);
    return in->json.origin + in->json.in.position;
}

/* The functions that follow are the tables of the statement's objects, the innermost first. The
   model's name is shown and written again, never opened. */
static coffer_status statement_read_name(coffer__members *in)
{
    const char *name = NULL;
    size_t name_len = 0;
    const uint64_t at = statement_at(in);
    const coffer_status status = coffer__members_string(in, "the name of the subject", &name, &name_len);
    if (status != COFFER_OK) {
        return status;
    }
    /* It is kept as a string that ends with a NUL. */
    if (memchr(name, '\0', name_len) != NULL) {
        return coffer__fail_at(in->json.err, COFFER_ERR_MANIFEST_NAME, at,
                               "at byte %u, the name of the subject contains a NUL: %q", at, name, name_len);
    }
    return coffer__manifest_set_model(((statement_reader *)in->ctx)->manifest, name, name_len)
               ? COFFER_OK
               : coffer__manifest_no_memory(in->json.err);
}

/* Only kept: it is compared once all resources are known. */
static coffer_status statement_read_root(coffer__members *in)
{
    statement_reader *reader = in->ctx;
    reader->root_at = statement_at(in);
    return coffer__members_string(in, "the digest of the subject", &reader->root, &reader->root_len);
}

/* Other digests of the subject may stand beside it; they are passed over. */
static coffer_status statement_read_subject_digest(coffer__members *in)
{
    static const coffer__member members[] = { { "sha256", true, statement_read_root } };
    return coffer__members_object(in, "the digest of the subject", members, STATEMENT_COUNT(members));
}

/* A second subject would be a second model, and nothing says which resources are whose. */
static coffer_status statement_read_subject(coffer__members *in)
{
    static const coffer__member members[] = { { "name", true, statement_read_name },
                                              { "digest", true, statement_read_subject_digest } };
    statement_reader *reader = in->ctx;
    const uint64_t at = statement_at(in);
    if (reader->subjects++ > 0) {
        return coffer__fail_at(in->json.err, COFFER_ERR_MANIFEST, at,
                               "at byte %u, a second subject: a statement about a model has one", at);
    }
    return coffer__members_object(in, "the subject", members, STATEMENT_COUNT(members));
}

static coffer_status statement_read_subjects(coffer__members *in)
{
    return coffer__members_array(in, "\"subject\"", statement_read_subject);
}

/* ---- Resources ---- */

/* Kept as it stands; coffer__manifest_add_item checks it. */
static coffer_status statement_read_item_name(coffer__members *in)
{
    coffer__manifest_item *item = &((statement_reader *)in->ctx)->item;
    return coffer__members_string(in, "the name of a resource", &item->name, &item->name_len);
}

static coffer_status statement_read_item_digest(coffer__members *in)
{
    coffer__manifest_item *item = &((statement_reader *)in->ctx)->item;
    return coffer__members_string(in, "the digest of a resource", &item->hex, &item->hex_len);
}

/* Of the serialization and of each resource. BLAKE and others of model signing are not known here;
   taking their digests for SHA-256 would call every file changed. */
static coffer_status statement_read_algorithm(coffer__members *in)
{
    const char *name = NULL;
    size_t name_len = 0;
    const uint64_t at = statement_at(in);
    const coffer_status status = coffer__members_string(in, "an algorithm", &name, &name_len);
    if (status == COFFER_OK && coffer_algorithm_from_name(name, name_len) != COFFER_SHA256) {
        return coffer__fail_at(
            in->json.err, COFFER_ERR_MANIFEST_ALGORITHM, at,
            "at byte %u, digests by %q: of model signing's algorithms this version knows only SHA-256", at, name,
            name_len);
    }
    return status;
}

/* The members may come in any order, so the entry is added when all of them are read. */
static coffer_status statement_read_resource(coffer__members *in)
{
    static const coffer__member members[] = { { "name", true, statement_read_item_name },
                                              { "algorithm", true, statement_read_algorithm },
                                              { "digest", true, statement_read_item_digest } };
    statement_reader *reader = in->ctx;
    /* What is not read stays what it is here; a member that is required and missing is a failure,
       so name and digest are always set. */
    reader->item = (coffer__manifest_item){ .at = statement_at(in), .algorithm = COFFER_SHA256 };
    const coffer_status status = coffer__members_object(in, "a resource", members, STATEMENT_COUNT(members));
    return status == COFFER_OK ? coffer__manifest_add_item(reader->manifest, &reader->item, in->json.err) : status;
}

static coffer_status statement_read_resources(coffer__members *in)
{
    return coffer__members_array(in, "\"resources\"", statement_read_resource);
}

/* ---- Serialization ---- */

/* The other method hashes parts of files, "shards", and has other resources. */
static coffer_status statement_read_method(coffer__members *in)
{
    return coffer__members_constant(in, "the method of serialization", "files");
}

/* Whether links were followed when the files were hashed; whoever checks them has to do the same. */
static coffer_status statement_read_links(coffer__members *in)
{
    return coffer__members_bool(in, "\"allow_symlinks\"", &((statement_reader *)in->ctx)->manifest->follows_links);
}

static coffer_status statement_read_ignored_path(coffer__members *in)
{
    const char *name = NULL;
    size_t name_len = 0;
    const coffer_status status = coffer__members_string(in, "a path to ignore", &name, &name_len);
    /* A path with a NUL ignores nothing, since no file has such a name; and it could not be kept. */
    if (status != COFFER_OK || memchr(name, '\0', name_len) != NULL) {
        return status; /* no file has a NUL in its name */
    }
    return coffer__manifest_add_ignored(((statement_reader *)in->ctx)->manifest, name, name_len, in->json.err);
}

/* Optional: without it nothing is ignored. */
static coffer_status statement_read_ignored(coffer__members *in)
{
    return coffer__members_array(in, "\"ignore_paths\"", statement_read_ignored_path);
}

/* How the files were hashed. A reader that does not know the method could not check the digests. */
static coffer_status statement_read_serialization(coffer__members *in)
{
    static const coffer__member members[] = { { "method", true, statement_read_method },
                                              { "hash_type", true, statement_read_algorithm },
                                              { "allow_symlinks", true, statement_read_links },
                                              { "ignore_paths", false, statement_read_ignored } };
    return coffer__members_object(in, "\"serialization\"", members, STATEMENT_COUNT(members));
}

/* ---- The whole ---- */

/* The types carry the versions: another one may mean anything, so it is refused. */
static coffer_status statement_read_type(coffer__members *in)
{
    return coffer__members_constant(in, "the type of the statement", STATEMENT_TYPE);
}

static coffer_status statement_read_predicate_type(coffer__members *in)
{
    return coffer__members_constant(in, "the type of the predicate", STATEMENT_PREDICATE);
}

/* What is said of the subject; "resources" are the files. */
static coffer_status statement_read_predicate(coffer__members *in)
{
    static const coffer__member members[] = { { "serialization", true, statement_read_serialization },
                                              { "resources", true, statement_read_resources } };
    return coffer__members_object(in, "the predicate", members, STATEMENT_COUNT(members));
}

/* ROOT of the entries in an order; NULL: in that of the manifest. */
static coffer_status statement_root(const coffer_manifest *manifest, const uint32_t *order, uint8_t *root,
                                    coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, COFFER_SHA256, &manifest->allocator, err);
    for (size_t i = 0; i < manifest->count && status == COFFER_OK; i++) {
        const coffer_manifest_entry *entry = &manifest->entries[order != NULL ? order[i] : i];
        status = coffer_hasher_update(hasher, entry->digest, coffer_algorithm_digest_size(entry->algorithm), err);
    }
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, root, STATEMENT_ROOT_SIZE, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* The digests are hashed in the order of the text, in which the entries were added. */
static coffer_status statement_check_root(const statement_reader *reader, coffer_error *err)
{
    uint8_t stated[STATEMENT_ROOT_SIZE];
    uint8_t root[STATEMENT_ROOT_SIZE] = { 0 };
    /* Read here and not when it was met, so that a statement with several faults reports those of
       its JSON first. */
    if (!coffer__hex_read(stated, sizeof stated, reader->root, reader->root_len)) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST, reader->root_at,
                               "at byte %u, the digest of the subject is not 64 hexadecimal digits", reader->root_at);
    }
    const coffer_status status = statement_root(reader->manifest, NULL, root, err);
    if (status == COFFER_OK && memcmp(root, stated, sizeof root) != 0) {
        return coffer__fail_at(
            err, COFFER_ERR_MANIFEST_ROOT, reader->root_at,
            "at byte %u, the digest of the subject is not that of the resources' digests: one of them was "
            "changed, dropped or added",
            reader->root_at);
    }
    return status;
}

/* Arrays may be empty by the tables, so that there is a subject and a resource is checked here: a
   statement about nothing must not pass as one that verifies. */
static coffer_status statement_read_all(coffer__members *in)
{
    static const coffer__member members[] = { { "_type", true, statement_read_type },
                                              { "subject", true, statement_read_subjects },
                                              { "predicateType", true, statement_read_predicate_type },
                                              { "predicate", true, statement_read_predicate } };
    const statement_reader *reader = in->ctx;
    coffer_status status = coffer__members_object(in, "the statement", members, STATEMENT_COUNT(members));
    if (status != COFFER_OK) {
        return status;
    }
    /* A second object after the first would be signed, too, and read by nobody. */
    status = coffer__members_end(in);
    if (status == COFFER_OK && (reader->subjects == 0 || reader->manifest->count == 0)) {
        return coffer__fail_at(in->json.err, COFFER_ERR_MANIFEST, 0, "the statement has no %s",
                               reader->subjects == 0 ? "subject" : "resources");
    }
    return status == COFFER_OK ? statement_check_root(reader, in->json.err) : status;
}

/* The text is that of a file, or the payload of a bundle whose signature was checked. */
coffer_status coffer__statement_read(coffer_manifest *manifest, const char *text, size_t text_len, coffer_error *err)
{
    statement_reader reader = { .manifest = manifest };
    coffer__members in;
    coffer_status status = coffer__members_open(&in, text, text_len, &manifest->allocator, &reader, err);
    if (status == COFFER_OK) {
        status = statement_read_all(&in);
    }
    return coffer__members_close(&in, status);
}

/* ---- Writing ---- */

/* Written piece by piece, indented by two. The text has one form, so the same manifest gives the
   same bytes. */
static void statement_write_root(coffer__writing *out, const char *model, const uint8_t *root)
{
    coffer__write_text(out, "{\n  \"_type\": \"" STATEMENT_TYPE "\",\n  \"subject\": [\n    {\n      \"name\": ");
    coffer__write_json(out, model);
    coffer__write_text(out, ",\n      \"digest\": {\n        \"sha256\": \"");
    coffer__write_hex(out, root, STATEMENT_ROOT_SIZE);
    coffer__write_text(out, "\"\n      }\n    }\n  ],\n  \"predicateType\": \"" STATEMENT_PREDICATE
                            "\",\n  \"predicate\": {\n");
}

/* `ignore_paths` is left out when it would be empty. */
static void statement_write_serialization(coffer__writing *out, const coffer_manifest *manifest)
{
    coffer__write_text(out, "    \"serialization\": {\n      \"method\": \"files\",\n      \"hash_type\": \"sha256\",\n"
                            "      \"allow_symlinks\": ");
    coffer__write_text(out, manifest->follows_links ? "true" : "false");
    for (size_t i = 0; i < manifest->ignored_count; i++) {
        coffer__write_text(out, i == 0 ? ",\n      \"ignore_paths\": [\n        " : ",\n        ");
        coffer__write_json(out, manifest->ignored[i]);
    }
    coffer__write_text(out, manifest->ignored_count > 0 ? "\n      ]\n    },\n" : "\n    },\n");
}

/* In the order of ROOT; statement_check has seen that every digest is by SHA-256. */
static void statement_write_resources(coffer__writing *out, const coffer_manifest *manifest, const uint32_t *order)
{
    coffer__write_text(out, "    \"resources\": [\n");
    for (size_t i = 0; i < manifest->count; i++) {
        const coffer_manifest_entry *entry = &manifest->entries[order[i]];
        coffer__write_text(out, "      {\n        \"name\": ");
        coffer__write_json(out, entry->name);
        coffer__write_text(out, ",\n        \"algorithm\": \"sha256\",\n        \"digest\": \"");
        coffer__write_hex(out, entry->digest, STATEMENT_ROOT_SIZE);
        coffer__write_text(out, i + 1 < manifest->count ? "\"\n      },\n" : "\"\n      }\n");
    }
    coffer__write_text(out, "    ]\n  }\n}");
}

/* Names of files are bytes; JSON is UTF-8. Spelling other bytes with replacement characters would
   name another file. */
static coffer_status statement_check_text(const char *text, coffer_error *err)
{
    const size_t text_len = coffer__text_len(text);
    return coffer__utf8_valid_len(text, text_len) == text_len
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MANIFEST_NAME, "the name %q is not UTF-8, and cannot be written as JSON",
                              text, text_len);
}

/* What a statement can say: files by SHA-256, with names in UTF-8. */
static coffer_status statement_check(const coffer_manifest *manifest, coffer_error *err)
{
    coffer_status status = statement_check_text(manifest->model, err);
    for (size_t i = 0; i < manifest->ignored_count && status == COFFER_OK; i++) {
        status = statement_check_text(manifest->ignored[i], err);
    }
    for (size_t i = 0; i < manifest->count && status == COFFER_OK; i++) {
        const coffer_manifest_entry *entry = &manifest->entries[i];
        status = entry->algorithm == COFFER_SHA256
                     ? statement_check_text(entry->name, err)
                     : coffer__fail(err, COFFER_ERR_MANIFEST_ALGORITHM,
                                    "the digest of %q is by %s, and a statement has only those of SHA-256", entry->name,
                                    coffer__text_len(entry->name), coffer_algorithm_name(entry->algorithm));
    }
    return status;
}

/* Everything that can be refused is refused before the first byte is written. */
coffer_status coffer__statement_write(const coffer_manifest *manifest, coffer__writing *out, coffer_error *err)
{
    uint8_t root[STATEMENT_ROOT_SIZE] = { 0 };
    /* Readers refuse a statement about nothing (statement_read_all). */
    if (manifest->count == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a manifest needs at least one file");
    }
    coffer_status status = statement_check(manifest, err);
    if (status != COFFER_OK) {
        return status;
    }
    uint32_t *order = coffer__alloc_array(&manifest->allocator, manifest->count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer__manifest_order(manifest, order);
    status = statement_root(manifest, order, root, err);
    if (status == COFFER_OK) {
        statement_write_root(out, manifest->model, root);
        statement_write_serialization(out, manifest);
        statement_write_resources(out, manifest, order);
    }
    coffer__free_array(&manifest->allocator, order, manifest->count, sizeof *order);
    return status;
}
