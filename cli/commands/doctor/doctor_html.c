/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as one page of HTML: no scripts, nothing from elsewhere, which its content policy forbids too, light and
   dark as the reader's system is. Names are escaped for a terminal first, so that no control character is left. */
#include "cli_publish.h"
#include "cli_text.h"
#include "doctor_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --text: #1b1f24; --page: #ffffff; --line: #d0d7de; --soft: #f3f5f7; "
    "--error: #b42318; --warning: #8a5a00; --note: #1a5fa8; --fine: #1a7f37 }\n"
    "@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --page: #0d1117; --line: #30363d; --soft: #161b22; "
    "--error: #ff7b72; --warning: #e3b341; --note: #79c0ff; --fine: #56d364 } }\n"
    "body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; "
    "color: var(--text); background: var(--page) }\n"
    "h1 { font-size: 1.4rem; overflow-wrap: anywhere }\n"
    "table { border-collapse: collapse; width: 100% }\n"
    "th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); "
    "overflow-wrap: anywhere }\n"
    "code { font-family: ui-monospace, monospace; background: var(--soft); padding: .1rem .3rem; overflow-wrap: "
    "anywhere }\n"
    ".error { color: var(--error); font-weight: 600 } .warning { color: var(--warning); font-weight: 600 }\n"
    ".note { color: var(--note) } .fine { color: var(--fine); font-weight: 600 }\n"
    "</style>\n";

/* A name of any bytes. */
static void html_name(cli_output *out, const char *name, size_t name_len)
{
    const size_t size = coffer_escape(name, name_len, NULL, 0) + 1;
    char *safe = malloc(size);
    if (safe != NULL) {
        coffer_escape(name, name_len, safe, size);
        cli_put_markup(out, safe);
    }
    free(safe);
}

static void html_number(cli_output *out, uint64_t number, const char *what)
{
    char text[CLI_NUMBER_SIZE];
    cli_number_text(text, number, true);
    cli_put_text(out, text);
    cli_put_char(out, ' ');
    cli_put_text(out, what);
    cli_put_text(out, number == 1 ? "" : "s");
}

static void html_verdict(const doctor_view *view, cli_output *out)
{
    const bool fine = view->summary->errors == 0 && view->summary->warnings == 0;
    cli_put_text(out, "<p class=\"");
    cli_put_text(out, fine ? "fine" : view->summary->errors > 0 ? "error" : "warning");
    cli_put_text(out, "\">");
    cli_put_text(out, fine ? "Sound: " : "");
    html_number(out, view->summary->errors, "error");
    cli_put_text(out, ", ");
    html_number(out, view->summary->warnings, "warning");
    cli_put_text(out, ", ");
    html_number(out, view->summary->notes, "note");
    cli_put_text(out, view->summary->data ? ". All data were read.</p>\n" : ". The data were not read.</p>\n");
}

static void html_models(const doctor_view *view, cli_output *out)
{
    char size[CLI_NUMBER_SIZE];
    if (view->summary->model_count == 0) {
        return;
    }
    cli_put_text(out, "<h2>Models</h2>\n<ul>\n");
    const coffer_doctor_model *seen = NULL;
    for (size_t i = 0; (seen = coffer_diagnosis_model_at(view->diagnosis, i)) != NULL; i++) {
        const char *name = seen->name[0] != '\0' ? seen->name : view->path;
        cli_put_text(out, "<li><code>");
        html_name(out, name, strlen(name));
        cli_put_text(out, "</code>: ");
        if (seen->type != NULL) {
            html_name(out, seen->type, strlen(seen->type));
            cli_put_text(out, ", ");
        }
        html_number(out, seen->file_count, "file");
        cli_put_text(out, ", ");
        html_number(out, seen->tensor_count, "tensor");
        cli_bytes_text(size, seen->size);
        cli_put_text(out, ", ");
        cli_put_text(out, size);
        cli_put_text(out, "</li>\n");
    }
    cli_put_text(out, "</ul>\n");
}

static void html_finding(cli_output *out, const coffer_doctor_finding *finding)
{
    char number[CLI_NUMBER_SIZE];
    const char *name = coffer_severity_name(finding->severity);
    cli_put_text(out, "<tr><td class=\"");
    cli_put_text(out, name);
    cli_put_text(out, "\">");
    cli_put_text(out, name);
    cli_put_text(out, "</td><td>");
    html_name(out, finding->file, strlen(finding->file));
    if (finding->tensor != NULL) {
        cli_put_text(out, "<br><code>");
        html_name(out, finding->tensor, finding->tensor_len);
        cli_put_text(out, "</code>");
    }
    cli_put_text(out, "</td><td>");
    cli_put_markup(out, finding->message);
    if (finding->offset != COFFER_NO_OFFSET) {
        snprintf(number, sizeof number, " (byte %" PRIu64 ")", finding->offset);
        cli_put_text(out, number);
    }
    char *command = doctor_command(finding);
    if (command != NULL) {
        cli_put_text(out, finding->fixes ? "<br>Fix: <code>" : "<br>Look: <code>");
        cli_put_markup(out, command);
        cli_put_text(out, "</code>");
    }
    free(command);
    if (finding->more > 0) {
        cli_number_text(number, finding->more, true);
        cli_put_text(out, "<br>And ");
        cli_put_text(out, number);
        cli_put_text(out, " more like this.");
    }
    cli_put_text(out, "</td></tr>\n");
}

static void html_page(const doctor_view *view, cli_output *out)
{
    cli_put_text(out, HEAD);
    cli_put_text(out, "<title>coffer doctor: ");
    html_name(out, view->path, strlen(view->path));
    cli_put_text(out, "</title>\n</head>\n<body>\n<h1>");
    html_name(out, view->path, strlen(view->path));
    cli_put_text(out, "</h1>\n");
    if (view->against != NULL) {
        cli_put_text(out, "<p>Against ");
        html_name(out, view->against, strlen(view->against));
        cli_put_text(out, "</p>\n");
    }
    html_verdict(view, out);
    html_models(view, out);
    if (view->summary->finding_count > 0) {
        cli_put_text(out, "<h2>Findings</h2>\n<table>\n<tr><th scope=\"col\">Weight</th><th scope=\"col\">Where</th>"
                          "<th scope=\"col\">What</th></tr>\n");
        const coffer_doctor_finding *finding = NULL;
        for (size_t i = 0; (finding = coffer_diagnosis_finding_at(view->diagnosis, i)) != NULL; i++) {
            html_finding(out, finding);
        }
        cli_put_text(out, "</table>\n");
    }
    cli_put_text(out, "</body>\n</html>\n");
}

int doctor_write_html(const doctor_view *view, const char *path)
{
    cli_publish file;
    const int code = cli_publish_open(view->app, &file, path);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    html_page(view, file.out);
    return cli_publish_close(view->app, &file, CLI_EXIT_OK);
}
