/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report: Coffer's page, one file of HTML, with a model's headers in the place of its marker.
 *
 *     <!--coffer-report-->   becomes
 *     <script type="application/json" id="coffer-report">{"version": 1, "name": …, "files": [{"name": …, "size": …,
 *     "header": …}, …], "index": {"name": …, "text": …} or null}</script>
 *
 * `header` and `text` are base64: the first bytes of a file up to where its data begin, and all of the index. `size` is
 * that of the whole file in bytes. Names are without folders, users and queries of URLs; the name of a file is what the
 * index calls it.
 */
#ifndef COFFER_CLI_COMMANDS_REPORT_H
#define COFFER_CLI_COMMANDS_REPORT_H

#include "cli_command.h"
#include "cli_inputs.h"
#include "coffer.h"

/* Some bytes of another text. */
typedef struct report_text {
    const char *bytes;
    size_t size;
} report_text;

/* ---- report_page.c: the page --------------------------------------------------------------------------------------- */

typedef struct report_page {
    report_text before; /* the marker */
    report_text after;
    cli_input file; /* what they are of, if it was read */
} report_page;

/* Takes the page that the command was built with, or that of a file (NULL: none is named). On failure reports it and
   returns the exit code. Close it in any case. */
int report_page_open(cli *app, const char *path, report_page *page);
void report_page_free(report_page *page);

/* ---- report_names.c: what things are called ------------------------------------------------------------------------ */

/* The name of a model, from the path or URL that it was named by. */
report_text report_model_name(const char *path);
/* The name of a file of a model: as the index has it, else the last part of its path. */
report_text report_file_name(const coffer *model, size_t shard);
/* The name of a model's index. */
report_text report_index_name(const coffer *model);

#endif
