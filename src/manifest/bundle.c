/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing signed statements. The order matters in reading: the envelope, then its signature,
 * then what it signs. Until the signature is checked the payload is bytes: its JSON is not parsed, so
 * the parser of statements is never given what somebody without the key has made, when a key was given.
 */
#include "bundle.h"

#include "alloc.h"
#include "base64.h"
#include "error.h"
#include "keys.h"
#include "members.h"
#include "text.h"

#include <string.h>

#define BUNDLE_TYPE "application/vnd.dev.sigstore.bundle.v0.3+json"
#define BUNDLE_PAYLOAD_TYPE "application/vnd.in-toto+json"
#define BUNDLE_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* A string of a bundle, which lives as long as the reader's coffer__members; those in base64 are as
   they stand there. */
typedef struct bundle_text {
    const char *text;
    size_t len;
} bundle_text;

/* What is needed of a bundle. `signatures` counts them: with more than one, the last would win. */
typedef struct bundle_reader {
    bundle_text payload;
    bundle_text signature;
    bundle_text hint;
    size_t signatures;
} bundle_reader;

/* ---- The bundle's JSON ---- */

/* The functions that follow are the tables of the bundle's objects, the innermost first. What is
   not in a table is passed over. */
static coffer_status bundle_read_hint(coffer__members *in)
{
    bundle_text *hint = &((bundle_reader *)in->ctx)->hint;
    return coffer__members_string(in, "the hint of the public key", &hint->text, &hint->len);
}

static coffer_status bundle_read_public_key(coffer__members *in)
{
    static const coffer__member members[] = { { "hint", false, bundle_read_hint } };
    return coffer__members_object(in, "the public key", members, BUNDLE_COUNT(members));
}

/* A certificate or an entry of a log may stand here instead of a key: then there is no hint, and
   the signature decides. */
static coffer_status bundle_read_material(coffer__members *in)
{
    static const coffer__member members[] = { { "publicKey", false, bundle_read_public_key } };
    return coffer__members_object(in, "\"verificationMaterial\"", members, BUNDLE_COUNT(members));
}

static coffer_status bundle_read_sig(coffer__members *in)
{
    bundle_text *signature = &((bundle_reader *)in->ctx)->signature;
    return coffer__members_string(in, "the signature", &signature->text, &signature->len);
}

/* keyid is not read: it is not signed, and the caller says which key to trust. */
static coffer_status bundle_read_signature(coffer__members *in)
{
    static const coffer__member members[] = { { "sig", true, bundle_read_sig } };
    ((bundle_reader *)in->ctx)->signatures++;
    return coffer__members_object(in, "a signature", members, BUNDLE_COUNT(members));
}

static coffer_status bundle_read_signatures(coffer__members *in)
{
    return coffer__members_array(in, "\"signatures\"", bundle_read_signature);
}

static coffer_status bundle_read_payload(coffer__members *in)
{
    bundle_text *payload = &((bundle_reader *)in->ctx)->payload;
    return coffer__members_string(in, "the payload", &payload->text, &payload->len);
}

/* It is part of what is signed, and bundle_frame writes the constant: so any other type is refused
   here. */
static coffer_status bundle_read_payload_type(coffer__members *in)
{
    return coffer__members_constant(in, "the type of the payload", BUNDLE_PAYLOAD_TYPE);
}

/* All three are required: without one of them there is no telling what was signed. */
static coffer_status bundle_read_envelope(coffer__members *in)
{
    static const coffer__member members[] = { { "payload", true, bundle_read_payload },
                                              { "payloadType", true, bundle_read_payload_type },
                                              { "signatures", true, bundle_read_signatures } };
    return coffer__members_object(in, "the envelope", members, BUNDLE_COUNT(members));
}

/* Only this version: in another one anything may differ. */
static coffer_status bundle_read_type(coffer__members *in)
{
    return coffer__members_constant(in, "the type of the bundle", BUNDLE_TYPE);
}

/* Nothing may follow the object. An envelope may have several signatures; which of them has to be
   right would be a policy, so only one is read. */
static coffer_status bundle_read_all(coffer__members *in)
{
    static const coffer__member members[] = { { "mediaType", true, bundle_read_type },
                                              { "verificationMaterial", true, bundle_read_material },
                                              { "dsseEnvelope", true, bundle_read_envelope } };
    coffer_status status = coffer__members_object(in, "the bundle", members, BUNDLE_COUNT(members));
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__members_end(in);
    const size_t signatures = ((bundle_reader *)in->ctx)->signatures;
    if (status == COFFER_OK && signatures != 1) {
        return coffer__fail(in->json.err, COFFER_ERR_MANIFEST, "the envelope has %u signatures, and only one is read",
                            (uint64_t)signatures);
    }
    return status;
}

/* ---- What is signed ---- */

/* Writes what is signed of a payload: the pre-authentication encoding of DSSE. 28 is the length of
   the type. */
static void bundle_frame(coffer__writing *out, const void *payload, size_t payload_size)
{
    char digits[20];
    coffer__write_text(out, "DSSEv1 28 " BUNDLE_PAYLOAD_TYPE " ");
    coffer__write(out, digits, coffer__write_u64(digits, payload_size));
    coffer__write_text(out, " ");
    coffer__write(out, payload, payload_size);
}

/*
 * The bytes of a text in base64. One byte more than the text is allocated, so that the size is
 * never 0 and the caller can free it by the text's length. *bytes is set on failure, too, for the
 * caller to free.
 */
static coffer_status bundle_decode(const bundle_text *text, const coffer_allocator *allocator, const char *what,
                                   uint8_t **bytes, size_t *size, coffer_error *err)
{
    *bytes = coffer__alloc(allocator, text->len + 1);
    if (*bytes == NULL) {
        return coffer__manifest_no_memory(err);
    }
    return coffer__base64_read(*bytes, size, text->text, text->len)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MANIFEST, "the %s of the bundle is not base64 in its canonical form",
                              what);
}

/*
 * Whether the signature is by this key and for this payload. A hint that names another key is
 * reported first, since it says more than a wrong signature; a hint that fits proves nothing. A
 * bundle may lack one.
 */
static coffer_status bundle_check(const bundle_reader *reader, const char *pem, size_t pem_len, const uint8_t *payload,
                                  size_t payload_size, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__key key;
    uint8_t *signature = NULL;
    size_t size = 0;
    coffer__writing framed = { .allocator = allocator };
    coffer_status status = coffer__key_open(&key, pem, pem_len, false, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Compared as text: a hint is lower-case digits, as key_make_hint writes them. */
    if (reader->hint.len > 0 &&
        (reader->hint.len != COFFER__KEY_HINT_LEN || memcmp(reader->hint.text, key.hint, COFFER__KEY_HINT_LEN) != 0)) {
        status =
            coffer__fail(err, COFFER_ERR_SIGNATURE,
                         "the manifest is signed with another key than this one: its hint is %q, and this key's is %s",
                         reader->hint.text, reader->hint.len, key.hint);
    }
    if (status != COFFER_OK) {
        goto done;
    }
    status = bundle_decode(&reader->signature, allocator, "signature", &signature, &size, err);
    if (status == COFFER_OK) {
        bundle_frame(&framed, payload, payload_size);
        status = framed.failed ? coffer__manifest_no_memory(err)
                               : coffer__key_verify(&key, framed.text, framed.used, signature, size, err);
    }
done:
    coffer__free(allocator, signature, reader->signature.len + 1);
    coffer__writing_free(&framed);
    coffer__key_close(&key);
    return status;
}

/* The payload is decoded once: what was checked and what is read are the same bytes. */
coffer_status coffer__bundle_read(coffer_manifest *manifest, const char *text, size_t text_len, const char *key,
                                  size_t key_len, coffer_error *err)
{
    const coffer_allocator *allocator = &manifest->allocator;
    bundle_reader reader = { .signatures = 0 };
    coffer__members in;
    uint8_t *payload = NULL;
    size_t size = 0;
    coffer_status status = coffer__members_open(&in, text, text_len, allocator, &reader, err);
    if (status != COFFER_OK) {
        goto done;
    }
    status = bundle_read_all(&in);
    if (status != COFFER_OK) {
        goto done;
    }
    status = bundle_decode(&reader.payload, allocator, "payload", &payload, &size, err);
    if (status == COFFER_OK && key != NULL) {
        status = bundle_check(&reader, key, key_len, payload, size, allocator, err);
    }
    if (status == COFFER_OK) {
        status = coffer__statement_read(manifest, (const char *)payload, size, err);
    }
done:
    coffer__free(allocator, payload, reader.payload.len + 1);
    return coffer__members_close(&in, status);
}

/* ---- Writing ---- */

/* Written straight into the text; without memory nothing is, and `failed` tells. */
static void bundle_write_base64(coffer__writing *out, const void *bytes, size_t size)
{
    char *text = coffer__write_space(out, coffer__base64_len(size));
    if (text != NULL) {
        coffer__base64_write(text, bytes, size);
    }
}

/* One line. Nothing in it needs an escape: hints are digits, the rest is base64 or our own text. */
static void bundle_write_all(coffer__writing *out, const coffer__writing *statement, const char *hint,
                             const uint8_t *signature, size_t signature_size)
{
    coffer__write_text(out, "{\"mediaType\":\"" BUNDLE_TYPE "\",\"verificationMaterial\":{\"publicKey\":{\"hint\":\"");
    coffer__write_text(out, hint);
    coffer__write_text(out, "\"},\"tlogEntries\":[]},\"dsseEnvelope\":{\"payload\":\"");
    bundle_write_base64(out, statement->text, statement->used);
    coffer__write_text(out, "\",\"payloadType\":\"" BUNDLE_PAYLOAD_TYPE "\",\"signatures\":[{\"sig\":\"");
    bundle_write_base64(out, signature, signature_size);
    coffer__write_text(out, "\",\"keyid\":\"\"}]}}");
}

/* The key is opened, the statement signed, and only then is anything written. */
coffer_status coffer__bundle_write(const coffer__writing *statement, const char *key, size_t key_len,
                                   coffer__writing *out, coffer_error *err)
{
    coffer__key pair;
    uint8_t signature[COFFER__SIGNATURE_MAX];
    size_t size = 0;
    coffer__writing framed = { .allocator = out->allocator };
    coffer_status status = coffer__key_open(&pair, key, key_len, true, out->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    bundle_frame(&framed, statement->text, statement->used);
    status = framed.failed ? coffer__manifest_no_memory(err)
                           : coffer__key_sign(&pair, framed.text, framed.used, signature, &size, err);
    if (status == COFFER_OK) {
        bundle_write_all(out, statement, pair.hint, signature, size);
    }
    coffer__writing_free(&framed);
    coffer__key_close(&pair);
    return status;
}
