/* SPDX-License-Identifier: Apache-2.0 */
/* A source behind a URL (source.h), and what a server says of it besides its bytes. */
#ifndef COFFER_NET_SOURCE_HTTP_H
#define COFFER_NET_SOURCE_HTTP_H

#include "source.h"
#include "web.h"

/* What lies behind a URL; asks for its first bytes, which are kept: reading a header of ordinary size asks no more. A file that
   is in the Hub's cache is one like any other. The source shares in `web`. */
coffer_status coffer__source_url(coffer__source *source, coffer__web *web, const char *url,
                                 const coffer_allocator *allocator, coffer_error *err);

/* The same for an address that is known; the watch, which may be NULL, is that of this first question. */
coffer_status coffer__source_web(coffer__source *source, coffer__web *web, const coffer__web_address *address,
                                 const coffer__watch *watch, const coffer_allocator *allocator, coffer_error *err);

/* What lies behind a URL, and which version of it, as text: the URL as it was named, the commit, ETag and date, a line each. False,
   and "", when the server states neither ETag nor date, and for any other source. */
#define COFFER__SOURCE_IDENTITY 9216
bool coffer__source_identity(const coffer__source *source, char text[COFFER__SOURCE_IDENTITY]);
/* Whether the server has no ranges: then each read comes from the file's first byte on. */
bool coffer__source_is_sequential(const coffer__source *source);
/* The commit of the Hub's repository that it came from, in COFFER__HUB_MOST_REVISION bytes; "" when there is none. Borrowed. */
const char *coffer__source_commit(const coffer__source *source);
/* All bytes of what lies behind a URL, when they came with the first ones; NULL when more has to be asked for, and for any other source.
   Borrowed. */
const void *coffer__source_kept(const coffer__source *source);
/* The SHA-256 that the server states of the whole file; false when it states none. An object store may have to be asked for it, once.
   Not to be called by several threads for one source. */
bool coffer__source_stated_sha256(const coffer__source *source, uint8_t digest[32]);

#endif
