/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan → writers: the one way in which everything that was imported is copied.
 *
 * Tensors of storages that are simply there, in one piece, are rows of the transfer over the input's source: the system
 * copies them where it can, and nobody looks at their bytes. With CRCs to check they come through memory; those that
 * are a whole storage are checked on the way, and storages of which only parts are wanted by a pass of their own.
 *
 * Storages that are decoded or joined come one at a time: small ones into memory, where their tensors are gathered from;
 * a larger one whose only tensor is all of it streams into the writer; any other one is decoded into a file without a
 * name, beside the output.
 */
#ifndef COFFER_IMPORT_COPY_TENSORS_H
#define COFFER_IMPORT_COPY_TENSORS_H

#include "change.h"
#include "coffer.h"
#include "input.h"
#include "plan.h"

/* What is done to the numbers of a row when they are gathered. */
coffer__change coffer__copy_change(const coffer__import_plan_row *row);

/* Where to: one of the two. */
typedef struct coffer__copy_target {
    coffer_writer *writer;
    coffer_model_writer *model;
    const coffer_header *header; /* with the written rows as its tensors, in the order of the plan */
    bool in_order;               /* the writer takes its bytes from the first to the last only */
    const char *spool; /* beside this path files without a name are made; NULL: where the system has its own */
} coffer__copy_target;

/* Copies all tensors that are written. The plan was checked against the input. `unchecked`: without CRCs. */
coffer_status coffer__copy_tensors(const coffer__import_plan *plan, const coffer_input *input,
                                   const coffer__copy_target *target, bool unchecked,
                                   const coffer_read_options *options, coffer_error *err);

#endif
