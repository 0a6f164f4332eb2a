/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signed statement, as model signing writes it: a sigstore bundle in JSON with an envelope (DSSE) in it.
 *
 *     mediaType             "application/vnd.dev.sigstore.bundle.v0.3+json"
 *     verificationMaterial  publicKey  {hint: whose key, see coffer__key}
 *                           tlogEntries: []
 *     dsseEnvelope          payload: the statement in base64
 *                           payloadType: "application/vnd.in-toto+json"
 *                           signatures: [{sig: in base64, keyid: ""}]
 *
 * What is signed is "DSSEv1 28 application/vnd.in-toto+json SIZE STATEMENT", SIZE the statement's bytes in
 * decimal. The lengths in it keep a type and a statement from being cut in another place. Nothing else
 * of the bundle is signed, so nothing else of it is believed.
 */
#ifndef COFFER_MANIFEST_BUNDLE_H
#define COFFER_MANIFEST_BUNDLE_H

#include "manifest.h"

/*
 * Reads the statement in a bundle. With a public key (in PEM) the signature is checked first, and
 * nothing of the statement is read when it is wrong. Without a key (NULL) the signature is not
 * looked at: the result is then worth as much as an unsigned statement.
 */
coffer_status coffer__bundle_read(coffer_manifest *manifest, const char *text, size_t text_len, const char *key,
                                  size_t key_len, coffer_error *err);
/* Writes a statement, which is complete, signed with a private key in PEM. */
coffer_status coffer__bundle_write(const coffer__writing *statement, const char *key, size_t key_len,
                                   coffer__writing *out, coffer_error *err);

#endif
