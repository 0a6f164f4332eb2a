/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing new files with a look at them first: when they are complete, and before anything of them is published, they
 * are opened as a model and shown to whoever asked for that. If that fails, nothing is published.
 */
#ifndef COFFER_WRITE_WRITER_CHECK_H
#define COFFER_WRITE_WRITER_CHECK_H

#include "coffer.h"

/* Looks at what was written, by reads, not in memory. The model is closed when it returns. */
typedef struct coffer__writer_check {
    coffer_status (*look)(void *ctx, const coffer *written, coffer_error *err);
    void *ctx;
} coffer__writer_check;

/* Whether the file of a writer can be looked at before it is published: not what is overwritten in place, nor what goes
   to a descriptor, to memory or to the caller's sink. */
bool coffer__writer_can_be_checked(const coffer_writer *writer);
/* coffer_writer_finish and coffer_model_writer_finish, with a look; NULL: without one. */
coffer_status coffer__writer_finish_checked(coffer_writer *writer, const coffer__writer_check *check,
                                            coffer_error *err);
coffer_status coffer__model_writer_finish_checked(coffer_model_writer *writer, const coffer__writer_check *check,
                                                  coffer_error *err);

#endif
