/* SPDX-License-Identifier: Apache-2.0 */
/* What commands say of an edit: see cli_edit.h for the contract. */
#include "cli_edit.h"

#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"

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
