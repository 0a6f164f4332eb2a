/* SPDX-License-Identifier: Apache-2.0 */
/* What commands say of an edit: see cli_edit.h for the contract. */
#include "cli_edit.h"

#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>

static const char *way_name(coffer_edit_way way)
{
    switch (way) {
    case COFFER_EDITED_CLONE:
        return "clone";
    case COFFER_EDITED_IN_PLACE:
        return "in_place";
    case COFFER_EDITED_REWRITE:
        return "rewrite";
    case COFFER_EDITED_INSERT:
        return "insert";
    case COFFER_EDITED_NOTHING:
    default:
        return "nothing";
    }
}

static const char *way_text(coffer_edit_way way)
{
    switch (way) {
    case COFFER_EDITED_CLONE:
        return "edited in a clone, which replaced it";
    case COFFER_EDITED_IN_PLACE:
        return "edited in place";
    case COFFER_EDITED_REWRITE:
        return "rewritten, with room for the next edits";
    case COFFER_EDITED_INSERT:
        return "edited in place, after room was inserted before the data";
    case COFFER_EDITED_NOTHING:
    default:
        return "nothing to do, the metadata have these values already";
    }
}

int cli_report_change(cli *app, const char *path, const char *name, const char *text, const char *changes,
                      double seconds)
{
    char number[CLI_NUMBER_SIZE];
    cli_duration_text(number, seconds);
    cli_remark_path(app, path, "%s (%s)%s%s", text, number, changes[0] != '\0' ? ": " : "", changes);
    if (app->json) {
        cli_json_open(&app->out, '{', true);
        cli_json_key(&app->out, "path");
        cli_json_string(&app->out, path);
        cli_json_key(&app->out, "done");
        cli_json_string(&app->out, name);
        cli_json_seconds(&app->out, seconds);
        cli_json_close(&app->out, '}');
    }
    return CLI_EXIT_OK;
}

int cli_report_edit(cli *app, const char *path, coffer_edit_way way, const char *changes, double seconds)
{
    return cli_report_change(app, path, way_name(way), way_text(way), changes, seconds);
}

void cli_lacking_text(const coffer_rewrite_summary *summary, bool done, char *text, size_t size)
{
    char whose[80] = "the new header is";
    char bytes[CLI_NUMBER_SIZE];
    char lacking[CLI_NUMBER_SIZE];
    cli_bytes_text(bytes, summary->lacking_size);
    cli_bytes_text(lacking, summary->lacking);
    if (summary->file_count > 1) {
        snprintf(whose, sizeof whose, "the new headers of %zu of %zu files are up to", summary->lacking_count,
                 summary->file_count);
    }
    if (!done && summary->lacking > 0) {
        snprintf(text, size,
                 "; %s %s longer than the space before the data: %s are cloned if the file system can, else copied",
                 whose, lacking, bytes);
    } else if (summary->edited == COFFER_EDITED_REWRITE && summary->lacking > 0) {
        snprintf(text, size,
                 "; copied %s: %s %s longer than the space before the data, which now has room for the next change",
                 bytes, whose, lacking);
    }
}
