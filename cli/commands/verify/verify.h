/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer verify: by a manifest (verify_manifest.c), by the digests inside files
   (verify_inside.c), and what both show (cmd_verify.c). */
#ifndef COFFER_CLI_VERIFY_H
#define COFFER_CLI_VERIFY_H

#include "cli_command.h"
#include "cli_filter.h"
#include "cli_progress.h"
#include "cli_state.h"

typedef struct verify_run {
    cli *app;
    const char *manifest; /* a path, or NULL */
    const char *key;      /* a path, or NULL */
    cli_filter filter;    /* of tensors */
    bool follows_links;
    bool ignores_extra;
    cli_state *state; /* or NULL */
    cli_progress progress;
    size_t sound;  /* files or, with a pattern, tensors */
    size_t unread; /* of them: by the state */
    size_t problems;
    uint64_t bytes; /* that were read */
    int code;
} verify_run;

/* Each verifies one path and shows what it finds. The exit code goes to run->code. */
void verify_by_manifest(verify_run *run, const char *path);
void verify_inside(verify_run *run, const char *path);

/* A file is what it should be. */
void verify_show_sound(verify_run *run, const char *path, const char *how);
/* One is not, or a tensor of it (NULL: the file): `verdict` is a word for programs, `why` a sentence. */
void verify_show_problem(verify_run *run, const char *path, const coffer_tensor *tensor, const char *verdict,
                         const char *why);
/* One could not be read. */
void verify_show_trouble(verify_run *run, const char *path, const coffer_error *err);

#endif
