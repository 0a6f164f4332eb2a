/* SPDX-License-Identifier: Apache-2.0 */
/* One file, and what a scan says of it. */
#ifndef COFFER_SCAN_FILE_H
#define COFFER_SCAN_FILE_H

#include "cli_command.h"
#include "coffer.h"

typedef struct scan_run {
    cli *app;
    bool confined;
    bool in_folder;     /* files are those of a folder: what nothing runs is passed over */
    const char *target; /* where the file is, if it is a link out of the folder; else NULL */
    size_t clean;
    size_t found;
    size_t passed;
    size_t failed;
} scan_run;

/* Says why something could not be looked at, counts it, and returns the exit code. */
int scan_fail(scan_run *run, const char *path, const coffer_error *err);
/* Looks at a file, or at each file of a model of several, and says what there is. Returns the exit code. */
int scan_path(scan_run *run, const char *path);

#endif
