/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Hugging Face Hub: what `hf://[datasets/|spaces/]owner/name[@revision][/file]` means, here and over there. Few repositories
 * have no owner; `hf://name@revision` is one, with its revision.
 *
 * Here is the cache that every client of the Hub keeps: models--OWNER--NAME/refs/REVISION has the commit, and
 * snapshots/COMMIT/FILE the file. Over there it is ENDPOINT/OWNER/NAME/resolve/REVISION/FILE. Of what is no model, `datasets`
 * stands in the place of `models`, and before OWNER. The environment says where both are, and which token is for the Hub;
 * docs/network.md has the variables.
 */
#ifndef COFFER_NET_HUB_H
#define COFFER_NET_HUB_H

#include "coffer.h"
#include "paths.h"
#include "url.h"

#define COFFER__HUB_MOST_REVISION 128
#define COFFER__HUB_MOST_FILE 1024

typedef struct coffer__hub {
    coffer__url endpoint; /* without a slash at its end */
    coffer__url usual;    /* the one that is meant where nobody states another, and to which the token may go, too */
    coffer__path cache;   /* with one; "" when there is none */
    char token[4096];     /* "" when there is none */
    bool offline;
} coffer__hub;

/* A repository, and perhaps a file in it. */
typedef struct coffer__hub_name {
    const char *kind;                         /* "models", "datasets" or "spaces" */
    char owner[128];                          /* "" when it has none */
    char name[128];                           /* "" when it is none of the Hub's */
    char revision[COFFER__HUB_MOST_REVISION]; /* "main" when none is stated */
    char file[COFFER__HUB_MOST_FILE];         /* with slashes; "" when none is stated */
} coffer__hub_name;

/* What the environment says. `token` goes before it, "" for none; NULL: what the environment has. */
coffer_status coffer__hub_settings(coffer__hub *hub, const char *token, coffer_error *err);
/* Reads a text that begins with hf://. Names that could lead out of a folder are refused: COFFER_ERR_URL. */
coffer_status coffer__hub_read(coffer__hub_name *name, const char *text, coffer_error *err);
/* Writes it again, at another revision; false when that is too long. */
bool coffer__hub_write(const coffer__hub_name *name, const char *revision, coffer__path *text);
/* Whether the token belongs to the host of a URL. */
bool coffer__hub_is_host(const coffer__hub *hub, const coffer__url *url);
/* Names another file, of the folder that the name is of, or is (`is_folder`); false when that is too long, or no name. */
bool coffer__hub_beside(coffer__hub_name *name, bool is_folder, const char *file, size_t len);
/* That folder, with a slash at its end; "" for the repository itself. */
void coffer__hub_folder(const coffer__hub_name *name, bool is_folder, char folder[COFFER__HUB_MOST_FILE + 1]);
/* Where the file is in the cache; false when it is not. *commit is what the cache has for the revision, or "", and holds
   COFFER__HUB_MOST_REVISION bytes: whatever else is wanted belongs to it. */
bool coffer__hub_cached(const coffer__hub *hub, const coffer__hub_name *name, char *commit, coffer__path *path);
/* Where the file is over there at a revision. */
coffer_status coffer__hub_url(const coffer__hub *hub, const coffer__hub_name *name, const char *revision,
                              coffer__url *url, coffer_error *err);
/* Where the Hub says what the repository has at its revision, and which commit that is. */
coffer_status coffer__hub_listing_url(const coffer__hub *hub, const coffer__hub_name *name, coffer__url *url,
                                      coffer_error *err);
/* Whether a revision is a commit, which stays what it is. */
bool coffer__hub_is_commit(const char *revision);

#endif
