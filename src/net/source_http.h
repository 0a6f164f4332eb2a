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

#endif
