/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a report: the one that the build put into the command, or one that is named. */
#include "cli_report.h"
#include "report.h"

#include <string.h>

#define PAGE_MAX ((size_t)64 << 20) /* bytes of a page that is read */
#define PAGE_MARKER "<!--coffer-report-->"

/* Defined where there is a page, in a source that cli/page.cmake writes. */
#ifdef COFFER_PAGE
extern const unsigned char cli_page[];
extern const size_t cli_page_size;
#else
static const unsigned char cli_page[1];
static const size_t cli_page_size = 0;
#endif

/* Where the marker begins in a text; NULL when it is not there. */
static const char *find_marker(const char *bytes, size_t size)
{
    const size_t marker_size = sizeof PAGE_MARKER - 1;
    const char *at = bytes;
    while (at != NULL && size - (size_t)(at - bytes) >= marker_size) {
        if (memcmp(at, PAGE_MARKER, marker_size) == 0) {
            return at;
        }
        const size_t left = size - (size_t)(at - bytes) - 1;
        at = left > 0 ? memchr(at + 1, PAGE_MARKER[0], left) : NULL;
    }
    return NULL;
}

/* The marker is there once, or it is another page: a second one could be anything. */
static bool split_page(report_page *page, const char *bytes, size_t size)
{
    const char *marker = find_marker(bytes, size);
    if (marker == NULL) {
        return false;
    }
    const char *rest = marker + sizeof PAGE_MARKER - 1;
    page->before = (report_text){ bytes, (size_t)(marker - bytes) };
    page->after = (report_text){ rest, size - (size_t)(rest - bytes) };
    return find_marker(page->after.bytes, page->after.size) == NULL;
}

int report_page_open(cli *app, const char *path, report_page *page)
{
    int code = CLI_EXIT_OK;
    *page = (report_page){ .file = { .size = 0 } };
    if (path == NULL && cli_page_size == 0) {
        return cli_usage_error(app, "this command was built without the page that reports are made of; name one: "
                                    "--page FILE");
    }
    if (path != NULL && !cli_input_read(app, path, PAGE_MAX, &page->file, &code)) {
        return code;
    }
    const char *bytes = path != NULL ? page->file.bytes : (const char *)cli_page;
    if (!split_page(page, bytes, path != NULL ? page->file.size : cli_page_size)) {
        cli_say_path(app, path != NULL ? path : "the page of this command",
                     "this is not Coffer's page: it does not have the marker " PAGE_MARKER " exactly once");
        return CLI_EXIT_UNREADABLE;
    }
    return CLI_EXIT_OK;
}

void report_page_free(report_page *page)
{
    cli_input_free(&page->file);
}
