/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs: see cli_import.h for the contracts.
 *
 * A file is read by a confined process where the system can do that, and by this one where it
 * cannot or the user says so. Either way the result is an import that the library has checked; the
 * sentences of findings were escaped where they were made, and are looked at once more here, since
 * they may come from a process that was taken over; names are escaped here.
 */
#include "cli_import.h"

#include "cli_json.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_sandbox.h"
#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINDING_SIZE 2048 /* of a line; --json has all of a longer one */

/* ---- Opening ---- */

/* The bytes are the child's, and are checked by loading them. */
coffer_status cli_import_confined(void *ctx, coffer_input *input, const coffer_import_options *options,
                                  coffer_import **imported, coffer_error *err)
{
    (void)ctx;
    if (!cli_sandbox_possible()) {
        return coffer_import_open(imported, input, options, err);
    }
    unsigned char *bytes = NULL;
    size_t size = 0;
    coffer_status status = cli_sandbox_read(input, coffer_input_path(input), options, &bytes, &size, err);
    if (status == COFFER_OK) {
        status = coffer_import_load(imported, input, bytes, size, options, err);
    }
    free(bytes);
    return status;
}

coffer_status cli_import_open(cli_import *opened, const char *path, const coffer_import_options *options, bool confined,
                              coffer_error *err)
{
    coffer_open_options reading = COFFER_OPEN_OPTIONS_INIT;
    reading.progress = cli_progress_unseen; /* while a server is waited for */
    *opened = (cli_import){ NULL, NULL };
    const coffer_status status = coffer_input_open(&opened->input, path, &reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    return confined ? cli_import_confined(NULL, opened->input, options, &opened->import, err)
                    : coffer_import_open(&opened->import, opened->input, options, err);
}

/* The import first: it borrows the input. */
void cli_import_close(cli_import *opened)
{
    coffer_import_free(opened->import);
    coffer_input_free(opened->input);
}

/* A name that safetensors cannot have is a property of the file, as what does not conform is; other
   failures are reported as those of reading. */
int cli_import_fail(cli *app, const char *path, const coffer_error *err)
{
    const int code = cli_fail(app, path, err);
    return err->code == COFFER_ERR_NAME ? CLI_EXIT_NOT_CONFORMING : code;
}

/* ---- Findings ---- */

const char *cli_import_weight_name(coffer_weight weight)
{
    return weight == COFFER_WEIGHT_DANGER ? "danger" : weight == COFFER_WEIGHT_OPAQUE ? "opaque" : "note";
}

/* Whether text was escaped already, as it is unless whoever made it was not who should have. */
static bool is_safe(const char *text, size_t text_len)
{
    for (size_t at = 0; at < text_len;) {
        uint32_t character = 0;
        const size_t step = cli_read_character(text + at, text_len - at, &character);
        if (step == 0 || cli_is_unsafe(character)) {
            return false;
        }
        at += step;
    }
    return true;
}

/* The sentence, and where: " (pytorch_model-00001.bin, data.pkl, byte 12)", of which each part may be missing. */
static void finding_text(const coffer_import_finding *finding, char *text, size_t size)
{
    const char *const names[] = { finding->file_name, finding->member };
    const char *separator = " (";
    const size_t text_len = strlen(finding->text);
    size_t used = is_safe(finding->text, text_len) ? (size_t)snprintf(text, size, "%s", finding->text)
                                                   : coffer_escape(finding->text, text_len, text, size);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && used < size; i++) {
        if (names[i][0] != '\0') {
            char name[256];
            coffer_escape(names[i], strlen(names[i]), name, sizeof name);
            used += (size_t)snprintf(text + used, size - used, "%s%s", separator, name);
            separator = ", ";
        }
    }
    if (finding->offset != COFFER_NO_OFFSET && used < size) {
        used += (size_t)snprintf(text + used, size - used, "%sbyte %" PRIu64, separator, finding->offset);
        separator = ", ";
    }
    if (separator[0] == ',' && used < size) {
        snprintf(text + used, size - used, ")");
    }
}

void cli_import_put_finding(cli_output *out, const coffer_import_finding *finding)
{
    const cli_style style = finding->weight == COFFER_WEIGHT_DANGER   ? CLI_RED
                            : finding->weight == COFFER_WEIGHT_OPAQUE ? CLI_YELLOW
                                                                      : CLI_PLAIN;
    char text[FINDING_SIZE];
    finding_text(finding, text, sizeof text);
    cli_put_styled(out, style, cli_import_weight_name(finding->weight));
    cli_put_text(out, ": ");
    cli_put_text(out, text);
}

void cli_import_remark(cli *app, const char *path, const coffer_import_finding *finding)
{
    char text[FINDING_SIZE];
    finding_text(finding, text, sizeof text);
    cli_remark_path(app, path, "%s: %s", cli_import_weight_name(finding->weight), text);
}

void cli_json_import_findings(cli_output *out, coffer_import *import)
{
    const coffer_import_finding *finding = NULL;
    cli_json_key(out, "findings");
    cli_json_open(out, '[', true);
    for (size_t i = 0; (finding = coffer_import_finding_at(import, i)) != NULL; i++) {
        cli_json_open(out, '{', false);
        cli_json_put_string(out, "weight", cli_import_weight_name(finding->weight));
        cli_json_put_string(out, "text", finding->text);
        cli_json_text_or_null(out, "subject", finding->subject, strlen(finding->subject));
        cli_json_text_or_null(out, "file", finding->file_name, strlen(finding->file_name));
        cli_json_text_or_null(out, "member", finding->member, strlen(finding->member));
        cli_json_key(out, "offset");
        if (finding->offset != COFFER_NO_OFFSET) {
            cli_json_number(out, finding->offset);
        } else {
            cli_json_null(out);
        }
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}
