/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and signatures. libcrypto keeps a queue of errors for each thread; it is cleared after calls that
 * fill it, since it belongs to the program that uses the library.
 *
 * A key goes through these steps, each of which has its own message when it fails: libcrypto is opened
 * and its functions found; the PEM is read; the public half is written as DER, which tells the curve and
 * with it the digest; and the hint is made from that DER. A key that got this far can sign or verify.
 */
#include "keys.h"

#include "base64.h"
#include "error.h"
#include "hex.h"
#include "libcrypto.h"

#include <limits.h>
#include <string.h>

#define KEY_DER_MAX 1024  /* bytes of a public key in DER: those that are taken have at most 158 */
#define KEY_LINE 64       /* characters of a line of PEM */
#define KEY_SEQUENCE 0x30 /* of DER */

/*
 * How a public key in DER begins, up to its point: SEQUENCE, the identifiers of elliptic keys and
 * of the curve, a BIT STRING, and 04 for a point that is spelt out. By that a curve is told in
 * every version of libcrypto, and every other kind of key refused. Sizes are exact, since curves
 * have points of fixed size.
 */
static const struct key_curve {
    const char *der;
    size_t der_len;
    size_t size;        /* of the whole */
    const char *digest; /* the function's name */
} key_curves[] = {
    { "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04",
      27, 91, "EVP_sha256" },
    { "\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00\x04", 24, 120,
      "EVP_sha384" },
    { "\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00\x04", 26,
      158, "EVP_sha512" },
};

/* Both the size and the beginning have to fit; what follows is the point, any point. */
static const struct key_curve *key_curve_of(const uint8_t *der, size_t size)
{
    for (size_t i = 0; i < sizeof key_curves / sizeof key_curves[0]; i++) {
        const struct key_curve *curve = &key_curves[i];
        if (size == curve->size && memcmp(der, curve->der, curve->der_len) == 0) {
            return curve;
        }
    }
    return NULL;
}

/* Setting parameters by name came with libcrypto 3; without it only compressed points are not read.
   All other functions are needed. */
static bool key_find_functions(coffer__key *key)
{
    const coffer__os_library *library = &key->library;
    coffer__key_functions *call = &key->call;
    (void)coffer__os_library_find(library, "EVP_PKEY_set_utf8_string_param", &call->set_text);
    return coffer__os_library_find(library, "BIO_new_mem_buf", &call->bio_new) &&
           coffer__os_library_find(library, "BIO_free", &call->bio_free) &&
           coffer__os_library_find(library, "PEM_read_bio_PUBKEY", &call->read_public) &&
           coffer__os_library_find(library, "PEM_read_bio_PrivateKey", &call->read_private) &&
           coffer__os_library_find(library, "i2d_PUBKEY", &call->public_der) &&
           coffer__os_library_find(library, "EVP_PKEY_free", &call->key_free) &&
           coffer__os_library_find(library, "EVP_MD_CTX_new", &call->context_new) &&
           coffer__os_library_find(library, "EVP_MD_CTX_free", &call->context_free) &&
           coffer__os_library_find(library, "EVP_DigestSignInit", &call->sign_init) &&
           coffer__os_library_find(library, "EVP_DigestSign", &call->sign) &&
           coffer__os_library_find(library, "EVP_DigestVerifyInit", &call->verify_init) &&
           coffer__os_library_find(library, "EVP_DigestVerify", &call->verify) &&
           coffer__os_library_find(library, "ERR_clear_error", &call->clear_errors);
}

/* Stands in for the prompt at the terminal with which libcrypto asks for the password of a key: a
   library does not prompt. -1 makes the reading fail. The type is libcrypto's. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
static int key_no_password(char *buffer, int size, int writing, void *ctx)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)ctx;
    return -1;
}

/* Whether a word stands anywhere in a text that has no NUL at its end. */
static bool key_text_has(const char *text, size_t text_len, const char *word)
{
    const size_t len = strlen(word);
    for (size_t i = 0; len <= text_len && i <= text_len - len; i++) {
        if (memcmp(text + i, word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Why a key could not be read: libcrypto's own reasons are for programmers. The marks of PEM tell
   which mistake was made. */
static coffer_status key_unreadable(const char *pem, size_t pem_len, bool is_private, coffer_error *err)
{
    const char *why =
        key_text_has(pem, pem_len, "ENCRYPTED")
            ? "is encrypted: give it without its password, as `openssl pkey -in KEY -out PLAIN` writes it"
        : key_text_has(pem, pem_len, "PUBLIC KEY") && is_private ? "is the public one: signing needs the private key"
        : key_text_has(pem, pem_len, "PRIVATE KEY") && !is_private
            ? "is the private one: to verify give the public key, which `openssl pkey -in KEY -pubout` writes"
            : "cannot be read: it must be in PEM (\"-----BEGIN ...\")";
    return coffer__fail(err, COFFER_ERR_KEY, "the key %s", why);
}

/* Hashes a public key as OpenSSL writes it in PEM: base64 in lines of KEY_LINE characters between
   its two marks. */
static coffer_status key_hash_pem(coffer_hasher *hasher, const char *text, size_t text_len, coffer_error *err)
{
    static const char begin[] = "-----BEGIN PUBLIC KEY-----\n";
    static const char end[] = "-----END PUBLIC KEY-----\n";
    coffer_status status = coffer_hasher_update(hasher, begin, sizeof begin - 1, err);
    for (size_t at = 0; at < text_len && status == COFFER_OK; at += KEY_LINE) {
        const size_t len = text_len - at < KEY_LINE ? text_len - at : KEY_LINE;
        status = coffer_hasher_update(hasher, text + at, len, err);
        if (status == COFFER_OK) {
            status = coffer_hasher_update(hasher, "\n", 1, err);
        }
    }
    return status == COFFER_OK ? coffer_hasher_update(hasher, end, sizeof end - 1, err) : status;
}

/* The hint of model signing: the digest of the public key as OpenSSL writes it in PEM. It is made
   from the key's DER, so a private key, and a PEM with other line breaks, give the same one. */
static coffer_status key_make_hint(coffer__key *key, const uint8_t *der, size_t der_size,
                                   const coffer_allocator *allocator, coffer_error *err)
{
    /* Base64 takes four thirds of the bytes. */
    char text[KEY_DER_MAX * 2];
    uint8_t digest[COFFER__KEY_HINT_LEN / 2] = { 0 };
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, COFFER_SHA256, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__base64_write(text, der, der_size);
    status = key_hash_pem(hasher, text, coffer__base64_len(der_size), err);
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest, sizeof digest, err);
    }
    coffer_hasher_free(hasher);
    coffer__hex_write(key->hint, digest, sizeof digest);
    return status;
}

/* A key whose point is compressed is the same key: it is spelt out here, so that its hint and its
   curve are found. libcrypto 1.1 has other functions for that; there it is refused. */
static void key_spell_out_point(const coffer__key *key)
{
    if (key->call.set_text != NULL) {
        (void)key->call.set_text(key->handle, "point-format", "uncompressed");
        key->call.clear_errors();
    }
}

/* The first byte of the parameters, which follow the object identifier of elliptic keys
   (1.2.840.10045.2.1): it tells a named curve from one that is spelt out. 0 for other keys. */
static uint8_t key_parameters_of(const uint8_t *der, size_t size)
{
    static const uint8_t elliptic[] = { 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01 };
    for (size_t i = 0; i + sizeof elliptic < size; i++) {
        if (memcmp(der + i, elliptic, sizeof elliptic) == 0) {
            return der[i + sizeof elliptic];
        }
    }
    return 0;
}

/* Why a key that could be read is not taken. A curve that is spelt out could be any curve, made for
   its signatures to be forged. */
static coffer_status key_of_other_kind(const uint8_t *der, size_t size, coffer_error *err)
{
    const uint8_t parameters = key_parameters_of(der, size);
    if (parameters == KEY_SEQUENCE) {
        return coffer__fail(err, COFFER_ERR_KEY,
                            "the key spells out the parameters of its curve instead of naming it, and is refused, "
                            "since they could be those of any curve: `openssl ec -in KEY -param_enc named_curve` "
                            "writes it with the name (with -pubin a public key)");
    }
    return coffer__fail(
        err, COFFER_ERR_KEY,
        "the key is of another %s: model signing takes those of the elliptic curves P-256, P-384 and "
        "P-521 (`openssl ecparam -name prime256v1 -genkey -noout` makes one)%s",
        parameters != 0 ? "curve" : "kind",
        parameters != 0 ? "; one of theirs whose point is compressed is written without that by `openssl ec -in KEY "
                          "-conv_form uncompressed`"
                        : "");
}

/*
 * Which curve it is, and from that its digest and its hint. i2d_PUBKEY is called twice, as
 * libcrypto has it: for the size, and for the bytes; it moves `out` past them. Keys larger than
 * KEY_DER_MAX are none that are taken.
 */
static coffer_status key_inspect(coffer__key *key, const coffer_allocator *allocator, coffer_error *err)
{
    uint8_t der[KEY_DER_MAX] = { 0 };
    unsigned char *out = der;
    key_spell_out_point(key);
    const int size = key->call.public_der(key->handle, NULL);
    /* Both answers have to be the same size, and fit: the second call writes without a bound. */
    const bool small = size > 0 && size <= KEY_DER_MAX && key->call.public_der(key->handle, &out) == size;
    const struct key_curve *curve = small ? key_curve_of(der, (size_t)size) : NULL;
    if (curve == NULL) {
        return key_of_other_kind(der, small ? (size_t)size : 0, err);
    }
    if (!coffer__os_library_find(&key->library, curve->digest, &key->call.digest)) {
        return coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "the libcrypto of this system has no %s", curve->digest);
    }
    return key_make_hint(key, der, (size_t)size, allocator, err);
}

/* Reads a key from memory; NULL when it cannot be read. A password is never asked for
   (key_no_password). */
static void *key_read(const coffer__key *key, const char *pem, size_t pem_len, bool is_private)
{
    /* A BIO is what libcrypto reads from; this one only points to the caller's bytes, whose number
       is an int. */
    void *bio = pem_len <= INT_MAX ? key->call.bio_new(pem, (int)pem_len) : NULL;
    if (bio == NULL) {
        return NULL;
    }
    void *handle = is_private ? key->call.read_private(bio, NULL, key_no_password, NULL)
                              : key->call.read_public(bio, NULL, key_no_password, NULL);
    (void)key->call.bio_free(bio);
    key->call.clear_errors();
    return handle;
}

/* `key` is zeros at first, so that closing it is right at every stage. */
coffer_status coffer__key_open(coffer__key *key, const char *pem, size_t pem_len, bool is_private,
                               const coffer_allocator *allocator, coffer_error *err)
{
    *key = (coffer__key){ .handle = NULL };
    coffer_status status = coffer__libcrypto_open(&key->library, "a signature", err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!key_find_functions(key)) {
        status = coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "the libcrypto of this system is too old to sign with");
    } else {
        key->handle = key_read(key, pem, pem_len, is_private);
        status = key->handle != NULL ? key_inspect(key, allocator, err) : key_unreadable(pem, pem_len, is_private, err);
    }
    if (status != COFFER_OK) {
        coffer__key_close(key);
    }
    return status;
}

/* Also for a key that is only half open: without a handle no function of the library is called. */
void coffer__key_close(coffer__key *key)
{
    if (key->handle != NULL) {
        key->call.key_free(key->handle);
    }
    coffer__os_library_close(&key->library);
}

/* EVP_DigestSign takes the space in *size and gives the length back. It hashes the bytes with the
   digest of the key's curve. */
coffer_status coffer__key_sign(const coffer__key *key, const void *bytes, size_t bytes_size, uint8_t *signature,
                               size_t *size, coffer_error *err)
{
    const coffer__key_functions *call = &key->call;
    void *context = call->context_new();
    *size = COFFER__SIGNATURE_MAX;
    const bool signed_it = context != NULL && call->sign_init(context, NULL, call->digest(), NULL, key->handle) == 1 &&
                           call->sign(context, signature, size, bytes, bytes_size) == 1;
    call->context_free(context);
    call->clear_errors();
    return signed_it ? COFFER_OK : coffer__fail(err, COFFER_ERR_KEY, "libcrypto does not sign with this key");
}

/* Anything but 1 is a failure: libcrypto answers 0 for a wrong signature and negative numbers for
   one that is not well-formed. */
coffer_status coffer__key_verify(const coffer__key *key, const void *bytes, size_t bytes_size, const uint8_t *signature,
                                 size_t size, coffer_error *err)
{
    const coffer__key_functions *call = &key->call;
    void *context = call->context_new();
    const bool right = context != NULL && call->verify_init(context, NULL, call->digest(), NULL, key->handle) == 1 &&
                       call->verify(context, signature, size, bytes, bytes_size) == 1;
    call->context_free(context);
    call->clear_errors();
    return right ? COFFER_OK
                 : coffer__fail(
                       err, COFFER_ERR_SIGNATURE,
                       "the signature is not by this key for this manifest: it was made with another key, or the "
                       "manifest was changed since. Do not trust it");
}
