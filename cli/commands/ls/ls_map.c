/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ls --map: where in the file everything is. The file is drawn as rows of cells, each for
 * equally many bytes; a cell shows what most of its bytes belong to. The largest tensors have
 * letters, in the order in which they lie. There are no holes to show: a file that has one is
 * refused when it is opened.
 */
#include "ls.h"

#include "cli_columns.h"
#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS 26
#define ROWS 8
#define LABEL_WIDTH 10 /* where a row begins, and a gap */
#define WIDTH_MAX 138  /* more cells are no clearer */
#define USUAL_WIDTH 80
#define MARK_HEADER '='
#define MARK_SLACK '-'
#define MARK_OTHER '.'

/* Bytes of one kind. */
typedef struct map_region {
    uint64_t offset;
    uint64_t size;
    const coffer_tensor *tensor; /* NULL: of the header */
    char mark;
} map_region;

typedef struct file_map {
    map_region *regions; /* all of the file, in order, the empty ones too */
    size_t region_count;
    uint64_t file_size;
} file_map;

/* ---- What is where ---- */

/* A region of a tensor that is listed, for sorting. */
typedef struct map_item {
    uint64_t size;
    size_t index;
} map_item;

static int compare_items(const void *left, const void *right)
{
    const map_item *a = left;
    const map_item *b = right;
    if (a->size != b->size) {
        return a->size > b->size ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Gives letters to the largest of the tensors that are listed. Sorting by size says which they are;
   the letters are then given in the order of the file, so that they ascend on the map. */
static bool give_letters(file_map *map, const ls_selection *selection, size_t first)
{
    map_item *items = malloc((selection->count + 1) * sizeof *items);
    if (items == NULL) {
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < selection->count; i++) {
        /* After the header's two regions come the file's tensors in the order of coffer_at. */
        items[count].index = (size_t)selection->order[i] - first + 2;
        items[count].size = map->regions[items[count].index].size;
        count += items[count].size > 0;
    }
    qsort(items, count, sizeof *items, compare_items);
    for (size_t i = 0; i < count && i < LETTERS; i++) {
        map->regions[items[i].index].mark = 'A';
    }
    free(items);
    char letter = 'A';
    for (size_t i = 2; i < map->region_count; i++) {
        if (map->regions[i].mark == 'A') {
            map->regions[i].mark = letter++;
        }
    }
    return true;
}

/* The header and its slack, then all tensors. The slack is the last part of the header, and data that
   follow it have no gaps, so the regions cover the file. */
static bool make_map(file_map *map, const ls_selection *selection)
{
    const coffer_table *table = coffer_shard_table(selection->model, selection->shard);
    const uint64_t data = coffer_table_data_offset(table);
    const uint64_t slack = coffer_table_slack(table);
    const size_t count = coffer_table_count(table);
    size_t first = 0; /* tensors of the files before it */
    for (size_t i = 0; i < selection->shard; i++) {
        first += coffer_table_count(coffer_shard_table(selection->model, i));
    }
    map->file_size = coffer_shard_size(selection->model, selection->shard);
    map->region_count = count + 2;
    map->regions = malloc(map->region_count * sizeof *map->regions);
    if (map->regions == NULL) {
        return false;
    }
    map->regions[0] = (map_region){ 0, data - slack, NULL, MARK_HEADER };
    map->regions[1] = (map_region){ data - slack, slack, NULL, MARK_SLACK };
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(selection->model, first + i);
        map->regions[i + 2] = (map_region){ tensor->offset, tensor->size, tensor, MARK_OTHER };
    }
    return give_letters(map, selection, first);
}

/* ---- Drawing ---- */

static cli_style mark_style(char mark)
{
    static const cli_style letters[] = { CLI_GREEN, CLI_CYAN, CLI_YELLOW };
    if (mark == MARK_HEADER) {
        return CLI_BOLD;
    }
    return mark >= 'A' ? letters[(size_t)(mark - 'A') % 3] : CLI_DIM;
}

/* What most of the bytes from `start` to `end` belong to; *next is the first region that reaches so far.
   Cells are drawn in order, so *next only moves on, and drawing takes one walk over the regions. The
   tensors without a letter count together, as one kind. */
static char cell_mark(const file_map *map, size_t *next, uint64_t start, uint64_t end)
{
    char best = MARK_OTHER;
    uint64_t most = 0;
    uint64_t others = 0;
    while (*next + 1 < map->region_count && map->regions[*next].offset + map->regions[*next].size <= start) {
        (*next)++;
    }
    for (size_t i = *next; i < map->region_count && map->regions[i].offset < end; i++) {
        const map_region *region = &map->regions[i];
        const uint64_t from = region->offset > start ? region->offset : start;
        const uint64_t to = region->offset + region->size < end ? region->offset + region->size : end;
        const uint64_t bytes = to > from ? to - from : 0;
        others += region->mark == MARK_OTHER ? bytes : 0;
        if (region->mark != MARK_OTHER && bytes > most) {
            most = bytes;
            best = region->mark;
        }
    }
    return others > most ? MARK_OTHER : best;
}

static void put_cell(cli_output *out, char mark, char *last)
{
    if (mark != *last) {
        if (*last != '\0') {
            cli_put_style(out, CLI_PLAIN);
        }
        cli_put_style(out, mark_style(mark));
    }
    *last = mark;
    cli_put_char(out, mark);
}

/* Every cell stands for equally many bytes, but for the last one, which may have fewer. */
static void draw(cli_output *out, const file_map *map)
{
    const size_t width = out->width == 0 ? USUAL_WIDTH : out->width > WIDTH_MAX ? WIDTH_MAX : out->width;
    const size_t cells = width > LABEL_WIDTH + 8 ? (width - LABEL_WIDTH) / 8 * 8 : 8;
    const uint64_t cell = (map->file_size - 1) / (cells * ROWS) + 1;
    size_t next = 0;
    char text[CLI_NUMBER_SIZE];
    for (uint64_t at = 0; at < map->file_size; at += cell * cells) {
        char last = '\0';
        const size_t len = cli_bytes_text(text, at);
        cli_put_repeat(out, ' ', len < LABEL_WIDTH - 2 ? LABEL_WIDTH - 2 - len : 0);
        cli_put_text(out, text);
        cli_put_text(out, "  ");
        for (size_t i = 0; i < cells && at + i * cell < map->file_size; i++) {
            const uint64_t start = at + i * cell;
            const uint64_t end = map->file_size - start < cell ? map->file_size : start + cell;
            put_cell(out, cell_mark(map, &next, start, end), &last);
        }
        cli_put_style(out, CLI_PLAIN);
        cli_put_char(out, '\n');
    }
    cli_bytes_text(text, cell);
    cli_put_text(out, "\none character: ");
    cli_put_text(out, text);
    cli_put_char(out, '\n');
}

static void legend_row(cli_columns *columns, char mark, const char *name, size_t name_len, uint64_t offset,
                       uint64_t bytes)
{
    char text[CLI_NUMBER_SIZE];
    char shown[512];
    char from[64];
    const size_t cut = cli_cut_at_character(name, name_len, sizeof shown - 2);
    shown[0] = mark;
    shown[1] = ' ';
    memcpy(shown + 2, name, cut);
    cli_columns_cell(columns, shown, cut + 2);
    snprintf(from, sizeof from, "at %" PRIu64, offset);
    cli_columns_text(columns, from);
    cli_bytes_text(text, bytes);
    cli_columns_text(columns, text);
}

static void legend_rows(cli_columns *columns, const file_map *map)
{
    uint64_t others = 0;
    uint64_t first_other = 0;
    for (size_t i = 0; i < map->region_count; i++) {
        const map_region *region = &map->regions[i];
        if (region->mark == MARK_OTHER) {
            first_other = others == 0 ? region->offset : first_other;
            others += region->size;
        } else if (region->tensor != NULL) {
            legend_row(columns, region->mark, region->tensor->name, region->tensor->name_len, region->offset,
                       region->size);
        } else if (region->size > 0) {
            const char *name = region->mark == MARK_HEADER ? "(header)" : "(slack of the header)";
            legend_row(columns, region->mark, name, strlen(name), region->offset, region->size);
        }
    }
    if (others > 0) {
        legend_row(columns, MARK_OTHER, "(all other tensors)", strlen("(all other tensors)"), first_other, others);
    }
}

/* The rows of the legend are put twice: to measure the columns, and to write them. */
static void text_map(cli_output *out, const file_map *map)
{
    cli_columns columns = { .out = out, .count = 3, .measuring = true, .right = { [1] = true, [2] = true } };
    draw(out, map);
    legend_rows(&columns, map);
    cli_columns_fit(&columns);
    legend_rows(&columns, map);
}

/* ---- For programs ---- */

static const char *kind_of(const map_region *region)
{
    return region->tensor != NULL ? "tensor" : region->mark == MARK_HEADER ? "header" : "slack";
}

static void json_map(cli_output *out, const file_map *map, const char *path)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "file_size");
    cli_json_number(out, map->file_size);
    cli_json_key(out, "regions");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < map->region_count && out->error == 0; i++) {
        const map_region *region = &map->regions[i];
        cli_json_open(out, '{', false);
        cli_json_key(out, "kind");
        cli_json_string(out, kind_of(region));
        cli_json_key(out, "name");
        if (region->tensor != NULL) {
            cli_json_string_n(out, region->tensor->name, region->tensor->name_len);
        } else {
            cli_json_null(out);
        }
        cli_json_key(out, "offset");
        cli_json_number(out, region->offset);
        cli_json_key(out, "size");
        cli_json_number(out, region->size);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

static void tsv_map(cli_output *out, const file_map *map)
{
    cli_put_text(out, "kind\tname\toffset\tsize\n");
    for (size_t i = 0; i < map->region_count && out->error == 0; i++) {
        const map_region *region = &map->regions[i];
        cli_tsv_text(out, kind_of(region));
        cli_tsv_text_n(out, region->tensor != NULL ? region->tensor->name : "",
                       region->tensor != NULL ? region->tensor->name_len : 0);
        cli_tsv_number(out, region->offset);
        cli_tsv_number(out, region->size);
        cli_tsv_finish(out);
    }
}

int ls_show_map(cli *app, const ls_selection *selection)
{
    file_map map = { .regions = NULL };
    if (!make_map(&map, selection)) {
        free(map.regions);
        return cli_fail_memory(app, selection->path);
    }
    if (app->json) {
        json_map(&app->out, &map, selection->path);
    } else if (app->tsv) {
        tsv_map(&app->out, &map);
    } else {
        text_map(&app->out, &map);
    }
    free(map.regions);
    return CLI_EXIT_OK;
}
