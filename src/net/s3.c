/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libcurl's SigV4 does not do by itself:
 *
 *   - x-amz-content-sha256 (coffer__s3_lines), without which S3 refuses a request. It is the digest of the body,
 *     and that of an empty body is a constant
 *   - the path must be written exactly as the signature has it: all but letters, digits and "-._~/" as %XX, in
 *     capitals. Then the path that is sent and the one that is signed are the same text
 *   - the query would have to be sorted, so there is none
 */
#include "s3.h"

#include "error.h"
#include "os.h"
#include "paths.h"
#include "text.h"

#include <string.h>

static coffer_status s3_too_long(const char *name, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "the environment variable %s is too long", name);
}

static bool s3_append(char *text, size_t size, const char *more)
{
    return coffer__text_append(text, size, more, coffer__text_len(more));
}

/* The variable for S3 alone takes precedence over the one for all services. An empty variable
   counts as not set, as for all of them (os.h). */
static coffer_status s3_endpoint(coffer__s3 *s3, coffer_error *err)
{
    const char *name = "AWS_ENDPOINT_URL_S3";
    const char *stated = coffer__os_variable(name);
    if (stated == NULL) {
        name = "AWS_ENDPOINT_URL";
        stated = coffer__os_variable(name);
    }
    return stated == NULL ? COFFER_OK : coffer__url_read_base(&s3->endpoint, name, stated, err);
}

/* What becomes a part of a request's head is printable ASCII, so that nothing can end a line there;
   `other` is one more character that may not occur. The message shows the character's code and not
   the text, which is secret. With `other` '\0' no other character is refused, as the text ends
   there. NULL, a variable that is not set, passes. */
static coffer_status s3_check(const char *name, const char *text, char other, coffer_error *err)
{
    for (size_t i = 0; text != NULL && text[i] != '\0'; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < ' ' || c >= 0x7F || text[i] == other) {
            return coffer__fail(
                err, COFFER_ERR_ARGUMENT,
                "the environment variable %s is invalid: its character %u has the code %u, which cannot be in it", name,
                (uint64_t)i + 1, (uint64_t)c);
        }
    }
    return COFFER_OK;
}

/* Key and secret come together, as libcurl wants them: "KEY:SECRET", which is why a key must not
   contain a colon. One without the other is a mistake that would otherwise show as a refusal
   without a reason. The session's token is used only with a key. On failure parts of the secrets
   may be in *s3, which is then freed with the client and never used. */
static coffer_status s3_credentials(coffer__s3 *s3, coffer_error *err)
{
    const char *key = coffer__os_variable("AWS_ACCESS_KEY_ID");
    const char *secret = coffer__os_variable("AWS_SECRET_ACCESS_KEY");
    const char *token = coffer__os_variable("AWS_SESSION_TOKEN");
    if ((key == NULL) != (secret == NULL)) {
        return coffer__fail(
            err, COFFER_ERR_ARGUMENT,
            "the environment has one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, but not the other");
    }
    if (key == NULL) {
        return COFFER_OK;
    }
    coffer_status status = s3_check("AWS_ACCESS_KEY_ID", key, ':', err);
    if (status != COFFER_OK) {
        return status;
    }
    status = s3_check("AWS_SECRET_ACCESS_KEY", secret, '\0', err);
    if (status != COFFER_OK) {
        return status;
    }
    status = s3_check("AWS_SESSION_TOKEN", token, '\0', err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!s3_append(s3->user, sizeof s3->user, key) || !s3_append(s3->user, sizeof s3->user, ":") ||
        !s3_append(s3->user, sizeof s3->user, secret)) {
        return s3_too_long("AWS_SECRET_ACCESS_KEY", err);
    }
    if (token != NULL && !(s3_append(s3->token_line, sizeof s3->token_line, "x-amz-security-token: ") &&
                           s3_append(s3->token_line, sizeof s3->token_line, token))) {
        return s3_too_long("AWS_SESSION_TOKEN", err);
    }
    return COFFER_OK;
}

/* Lower-case letters, digits and hyphens: it becomes a part of a host's name, and must not lead to
   another host. A dot or a slash here would let the environment choose the host that gets signed
   requests. */
static bool s3_is_region(const char *text)
{
    size_t len = 0;
    while ((text[len] >= 'a' && text[len] <= 'z') || (text[len] >= '0' && text[len] <= '9') || text[len] == '-') {
        len++;
    }
    return len > 0 && text[len] == '\0';
}

/* "aws:amz:REGION:s3" is how libcurl is told to sign for S3. The default is the region of most
   public buckets. The signature's text always has space, because the region was checked against a
   smaller one. */
coffer_status coffer__s3_settings(coffer__s3 *s3, coffer_error *err)
{
    memset(s3, 0, sizeof *s3);
    const char *region = coffer__os_variable("AWS_REGION");
    region = region != NULL ? region : coffer__os_variable("AWS_DEFAULT_REGION");
    region = region != NULL ? region : "us-east-1";
    if (!s3_is_region(region) || !s3_append(s3->region, sizeof s3->region, region)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the environment variable AWS_REGION is not a region: %p",
                            region);
    }
    (void)s3_append(s3->signature, sizeof s3->signature, "aws:amz:");
    (void)s3_append(s3->signature, sizeof s3->signature, s3->region);
    (void)s3_append(s3->signature, sizeof s3->signature, ":s3");
    const coffer_status status = s3_endpoint(s3, err);
    return status == COFFER_OK ? s3_credentials(s3, err) : status;
}

/* Whether a bucket's name can be a part of a host's name, so that the certificate of
   *.s3.REGION.amazonaws.com covers it: a wildcard stands for one component, so a name with dots
   does not qualify. Other buckets are addressed by path. Capitals and underscores, which old
   buckets may have, do not qualify either. */
static bool s3_is_host(const char *bucket, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = bucket[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
            return false;
        }
    }
    return len >= 3 && len <= 63;
}

/* The first line asks the store to state the object's checksum. The long constant is the SHA-256 of
   nothing. There are at most three lines and the NULL, which is COFFER__S3_LINES. The token's line
   is one of those that are signed. */
void coffer__s3_lines(const coffer__s3 *s3, bool is_signed, const char *lines[COFFER__S3_LINES])
{
    size_t count = 0;
    lines[count++] = "x-amz-checksum-mode: ENABLED";
    if (is_signed) {
        lines[count++] = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    }
    if (is_signed && s3->token_line[0] != '\0') {
        lines[count++] = s3->token_line;
    }
    lines[count] = NULL;
}

/* Amazon's buckets are addressed by host (BUCKET.s3.REGION.amazonaws.com) where their name allows
   it. Other stores often have no such host names, so there the bucket is the first component of the
   path. The parts before the path always fit; only what comes from the user's text is checked for
   space. */
coffer_status coffer__s3_url(const coffer__s3 *s3, const char *text, coffer__url *url, coffer_error *err)
{
    char made[COFFER__URL_SIZE] = "";
    /* Everything up to the first slash is the bucket; the key keeps its slash. */
    const char *bucket = text + sizeof "s3://" - 1;
    size_t bucket_len = 0;
    while (bucket[bucket_len] != '\0' && bucket[bucket_len] != '/') {
        bucket_len++;
    }
    const char *key = bucket + bucket_len;
    if (bucket_len == 0 || key[0] == '\0') {
        return coffer__fail(err, COFFER_ERR_URL,
                            "%q is neither s3://bucket/key nor, for the model in a bucket, s3://bucket/", text,
                            coffer__text_len(text));
    }
    const bool own = s3->endpoint.text[0] != '\0';
    const bool in_host = !own && s3_is_host(bucket, bucket_len);
    if (own) {
        (void)s3_append(made, sizeof made, s3->endpoint.text);
    } else {
        (void)s3_append(made, sizeof made, "https://");
        (void)(in_host && coffer__url_append(made, coffer__text_len(made), bucket, bucket_len, "") != 0);
        (void)s3_append(made, sizeof made, in_host ? ".s3." : "s3.");
        (void)s3_append(made, sizeof made, s3->region);
        (void)s3_append(made, sizeof made, ".amazonaws.com");
    }
    /* From here on text comes from the user; 0 means that there was no space, and stays 0. */
    size_t used = coffer__text_len(made);
    if (!in_host) {
        used = coffer__url_append(made, used, "/", 1, "/");
        used = used == 0 ? 0 : coffer__url_append(made, used, bucket, bucket_len, "");
    }
    used = used == 0 ? 0 : coffer__url_append(made, used, key, coffer__text_len(key), "/");
    if (used == 0) {
        return coffer__fail(err, COFFER_ERR_URL, "the URL is longer than %u characters", (uint64_t)sizeof made - 1);
    }
    return coffer__url_read(url, made, err);
}
