/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Hugging Face Hub: what `hf://[datasets/|spaces/]owner/name[@revision][/file]` means, in the
 * local cache and on the server. A few repositories have no owner; `hf://name@revision` is one,
 * with its revision.
 *
 *   cache     CACHE/models--OWNER--NAME/refs/REVISION           a text file with the commit
 *             CACHE/models--OWNER--NAME/snapshots/COMMIT/FILE   the file
 *   server    ENDPOINT/OWNER/NAME/resolve/REVISION/FILE
 *
 * All clients of the Hub share that cache. It is only read here. For datasets and spaces,
 * `datasets` or `spaces` replaces `models`, and stands before OWNER on the server. The environment
 * says where both are, and which token is for the Hub; docs/network.md has the variables.
 */
#ifndef COFFER_NET_HUB_H
#define COFFER_NET_HUB_H

#include "coffer.h"
#include "paths.h"
#include "url.h"

#define COFFER__HUB_MAX_REVISION 128
#define COFFER__HUB_MAX_FILE 1024

/* Read once, and constant afterwards. The token is only ever sent where coffer__hub_is_host says
   so, and appears in no message. */
typedef struct coffer__hub {
    coffer__url endpoint; /* without a slash at its end */
    coffer__url usual;    /* the default one, to which the token may go, too */
    coffer__path cache;   /* with one; "" when there is none */
    char token[4096];     /* "" when there is none */
    bool offline;
} coffer__hub;

/* A repository, and perhaps a file in it. Every text in it has been checked: none is a path that
   leads upwards, and none has a control character. */
typedef struct coffer__hub_name {
    const char *kind;                        /* "models", "datasets" or "spaces" */
    char owner[128];                         /* "" when it has none */
    char name[128];                          /* "" when it is none of the Hub's */
    char revision[COFFER__HUB_MAX_REVISION]; /* "main" when none is stated */
    char file[COFFER__HUB_MAX_FILE];         /* with slashes; "" when none is stated */
} coffer__hub_name;

/* Reads the environment. `token` takes precedence over it, "" for none; with NULL the environment
   decides. COFFER_ERR_ARGUMENT for an endpoint that is no URL, and for a token that could not be
   sent. */
coffer_status coffer__hub_settings(coffer__hub *hub, const char *token, coffer_error *err);
/* Reads a text that begins with hf://. Names that could lead out of a folder are refused:
   COFFER_ERR_URL. */
coffer_status coffer__hub_read(coffer__hub_name *name, const char *text, coffer_error *err);
/* Writes the name as hf:// text, with another revision; false if that is too long. */
bool coffer__hub_write(const coffer__hub_name *name, const char *revision, coffer__path *text);
/* Whether the token belongs to the host of a URL. */
bool coffer__hub_is_host(const coffer__hub *hub, const coffer__url *url);
/* Changes the name to that of another file, in the folder that it is (`is_folder`) or that its file
   is in; false if that is too long, or not a valid name. */
bool coffer__hub_beside(coffer__hub_name *name, bool is_folder, const char *file, size_t len);
/* The name of that folder, with a slash at its end; "" for the repository itself. */
void coffer__hub_folder(const coffer__hub_name *name, bool is_folder, char folder[COFFER__HUB_MAX_FILE + 1]);
/* Where the file is in the cache; false if it is not there. *commit, which has space for
   COFFER__HUB_MAX_REVISION bytes, is set to what the cache has for the revision, or "", in either
   case: all files of the model must come from it. */
bool coffer__hub_cached(const coffer__hub *hub, const coffer__hub_name *name, char *commit, coffer__path *path);
/* The URL of the file at a revision. */
coffer_status coffer__hub_url(const coffer__hub *hub, const coffer__hub_name *name, const char *revision,
                              coffer__url *url, coffer_error *err);
/* The URL at which the Hub lists the files of the repository at its revision, and says which commit
   that is. */
coffer_status coffer__hub_listing_url(const coffer__hub *hub, const coffer__hub_name *name, coffer__url *url,
                                      coffer_error *err);
/* The URL at which the Hub lists the files of the repository, or of the folder that `file` is, with those below. */
coffer_status coffer__hub_tree_url(const coffer__hub *hub, const coffer__hub_name *name, coffer__url *url,
                                   coffer_error *err);
/* Whether a revision is a commit, which never changes, and not a branch or tag. 40 hexadecimal
   digits in lower case, as git writes a SHA-1. */
bool coffer__hub_is_commit(const char *revision);

#endif
