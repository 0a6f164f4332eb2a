/* SPDX-License-Identifier: Apache-2.0 */
/* A source at a URL (source.h), and what a server says of it besides its bytes. */
#ifndef COFFER_NET_SOURCE_HTTP_H
#define COFFER_NET_SOURCE_HTTP_H

#include "source.h"
#include "web.h"

/* What is at an address; asks for its first bytes, which are kept: reading a header of ordinary
   size asks no more. The watch, which may be NULL, is that of this first question. The source
   shares in `web`. On success the source has a share of its own, which its close gives up. On
   failure nothing is left open. A server without ranges is refused, unless the client was made to
   download whole files. */
coffer_status coffer__source_web(coffer__byte_source *source, coffer__web *web, const coffer__web_address *address,
                                 const coffer__watch *watch, const coffer_allocator *allocator, coffer_error *err);

/* The file at a location. One that is in the Hub's cache is a file like any other. */
coffer_status coffer__source_location(coffer__byte_source *source, const coffer__location *location,
                                      const coffer_allocator *allocator, coffer_error *err);

#endif
