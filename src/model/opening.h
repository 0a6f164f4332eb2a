/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways to open a model, of which coffer_open chooses by path or URL. Options were checked
 * before, and *model is NULL. A model that is handed out has its path.
 */
#ifndef COFFER_MODEL_OPENING_H
#define COFFER_MODEL_OPENING_H

#include "coffer.h"
#include "model.h"

/* How often something that somebody changes in between is looked at. */
#define COFFER__OPEN_MAX_ROUNDS 16u

/* open.c: copies the options to the size that this version knows, and checks them; the allocator is never NULL. */
coffer_status coffer__check_open_options(coffer_open_options *options, const coffer_open_options *given,
                                         coffer_error *err);
/* open_file.c: takes over `source`, of the file `path` or of none (NULL): opens a model from it or
   closes it. The path is used to look at the file again and is not kept; coffer__open_hand_out
   keeps one. */
coffer_status coffer__open_shard_source(coffer **model, coffer__byte_source *source, const char *path,
                                        const coffer_open_options *options, coffer_error *err);
/* Hands out what was opened, under its path or URL; or closes it if that fails, or if `status` says
   that something before has. */
coffer_status coffer__open_hand_out(coffer **model, coffer *made, const char *path, coffer_status status,
                                    coffer_error *err);
/* One file. Failures do not carry the path. */
coffer_status coffer__open_file(coffer **model, const char *path, const coffer_open_options *options,
                                coffer_error *err);
/* open_folder.c: the model that a folder holds. Failures carry the path. */
coffer_status coffer__open_folder(coffer **model, const char *path, const coffer_open_options *options,
                                  coffer_error *err);
/* open_url.c: a file, an index, a folder or a repository of the Hub at a URL. Failures carry the
   URL. `options` is not constant because it is the context of the watch; it is not changed. */
coffer_status coffer__open_url(coffer **model, const char *url, coffer_open_options *options, coffer_error *err);

#endif
