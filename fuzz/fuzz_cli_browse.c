/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes coffer browse without its terminal: what is typed, at any size of the screen, over one model or two of which the
 * input declares tensors and metadata. After each event all of the screen is drawn. Whatever names and values say, only
 * characters that show, colours and places of the screen are written to the terminal.
 *
 *   columns u8, rows u8, colours u8, models u8
 *   model      tensors u8, pairs u8
 *   tensor     dtype u8, rank u8, dimension u8 each, length of the name u8, how often it is repeated u8, name
 *   pair       length of the key u8, length of the value u8, key, value
 *   then what is typed; two bytes that no terminal sends are 0xFE columns u8 rows u8: the screen has another size; and
 *   0xFF stage u8 stage u8: so far has come what is read of the tensor under the cursor
 */
#include "browse.h"
#include "cli_text.h"
#include "cli_width.h"
#include "fuzz_input.h"

#include <string.h>

#define MAX_TENSORS 24
#define MAX_PAIRS 4
#define MAX_DIMENSIONS 5
#define MAX_NAME 8192
#define MAX_DATA 4096 /* bytes of a tensor */
#define MAX_FILE ((size_t)4 << 20)
#define MAX_INPUT 2048 /* each byte that is typed is a screen */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- The models ---- */

/* As many of `wanted` bytes as are left. */
static const char *next_text(fuzz_input *in, size_t wanted, size_t *taken)
{
    const char *text = (const char *)in->bytes + in->at;
    const size_t left = in->size - in->at;
    *taken = wanted < left ? wanted : left;
    in->at += *taken;
    return text;
}

/* A name that cannot be declared, or is there already, is left out. */
static void add_tensor(fuzz_input *in, coffer_header *header)
{
    static char name[MAX_NAME];
    uint64_t shape[MAX_DIMENSIONS] = { 0 };
    const coffer_dtype dtype = (coffer_dtype)(1 + next_byte(in) % COFFER_DTYPE_COUNT);
    const size_t rank = next_byte(in) % (MAX_DIMENSIONS + 1);
    uint64_t elements = 1;
    size_t len = 0;
    size_t used = 0;
    for (size_t i = 0; i < rank; i++) {
        shape[i] = next_byte(in) % 32;
        elements *= shape[i];
    }
    const size_t wanted = next_byte(in);
    const size_t times = 1 + (size_t)next_byte(in) % 64;
    const char *text = next_text(in, wanted, &len);
    for (size_t i = 0; i < times && len <= sizeof name - used; i++) {
        memcpy(name + used, text, len);
        used += len;
    }
    if (elements * coffer_dtype_bits(dtype) <= (uint64_t)8 * MAX_DATA) {
        coffer_header_add(header, name, used, dtype, shape, rank, NULL);
    }
}

static void add_pair(fuzz_input *in, coffer_header *header)
{
    size_t key_len = next_byte(in);
    size_t value_len = next_byte(in);
    const char *key = next_text(in, key_len, &key_len);
    const char *value = next_text(in, value_len, &value_len);
    coffer_header_set_metadata(header, key, key_len, value, value_len, NULL);
}

/* A model in memory, all of whose numbers are zero; NULL when it cannot be. */
static coffer *make_model(fuzz_input *in, uint8_t *file)
{
    const size_t tensors = next_byte(in) % (MAX_TENSORS + 1);
    const size_t pairs = next_byte(in) % (MAX_PAIRS + 1);
    coffer_header *header = NULL;
    const coffer_table *table = NULL;
    const void *head = NULL;
    uint64_t head_size = 0;
    coffer *model = NULL;
    expect(coffer_header_new(&header, coffer_libc_allocator(), NULL) == COFFER_OK, "a header begins");
    for (size_t i = 0; i < tensors; i++) {
        add_tensor(in, header);
    }
    for (size_t i = 0; i < pairs; i++) {
        add_pair(in, header);
    }
    if (coffer_header_build(header, NULL, &head, &head_size, &table, NULL) == COFFER_OK) {
        const uint64_t size = head_size + coffer_table_data_size(table);
        expect(size <= MAX_FILE, "it fits");
        memset(file, 0, (size_t)size);
        memcpy(file, head, (size_t)head_size);
        expect(coffer_open_memory(&model, file, (size_t)size, NULL, NULL) == COFFER_OK, "what is declared is read");
    }
    coffer_header_free(header);
    return model;
}

/* ---- What the terminal gets ---- */

/* One of the sequences that a screen is made of, from its escape character on; returns its length. A place is put in *x and *y. */
static size_t check_sequence(const char *bytes, size_t size, const cli_screen *screen, size_t *x, size_t *y)
{
    size_t numbers[2] = { 0, 0 };
    size_t at = 2;
    size_t semicolons = 0;
    expect(size > 2 && bytes[1] == '[', "an escape character begins a sequence");
    const bool mode = bytes[at] == '?';
    for (at += mode; at < size && ((bytes[at] >= '0' && bytes[at] <= '9') || bytes[at] == ';'); at++) {
        semicolons += bytes[at] == ';';
        if (bytes[at] != ';' && semicolons < 2) {
            numbers[semicolons] = numbers[semicolons] * 10 + (size_t)(bytes[at] - '0');
        }
    }
    expect(at < size && strchr(mode ? "hl" : "HJm", bytes[at]) != NULL, "which is one of those that are used");
    if (bytes[at] == 'H') {
        expect(numbers[0] >= 1 && numbers[0] <= screen->rows, "a place is in the screen's rows");
        expect(numbers[1] >= 1 && numbers[1] <= screen->columns, "and columns");
        *y = numbers[0] - 1;
        *x = numbers[1] - 1;
    }
    return at + 1;
}

static void check_bytes(const char *bytes, size_t size, const cli_screen *screen)
{
    size_t x = 0;
    size_t y = screen->rows; /* no place is known */
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        if (bytes[at] == '\x1b') {
            at += check_sequence(bytes + at, size - at, screen, &x, &y);
            continue;
        }
        const size_t len = cli_read_character(bytes + at, size - at, &code);
        expect(len > 0 && !cli_is_unsafe(code), "what is written is text that steers nothing");
        expect(y < screen->rows && x + cli_character_width(code) <= screen->columns, "and inside the screen");
        x += cli_character_width(code);
        at += len;
    }
}

static void check_screen(browse *state, cli_screen *screen)
{
    size_t size = 0;
    browse_draw(state, screen);
    const char *bytes = cli_screen_render(screen, &size);
    expect(bytes != NULL, "there is memory");
    check_bytes(bytes, size, screen);
    expect(state->cursor < state->tree.row_count || state->cursor == 0, "the cursor is on a row");
    expect(state->top <= state->cursor && state->cursor - state->top < browse_list_rows(state), "which is seen");
}

/* ---- What happens ---- */

static void resize(browse *state, cli_screen *screen, fuzz_input *in)
{
    const size_t columns = next_byte(in);
    const size_t rows = (size_t)next_byte(in) % 80;
    expect(cli_screen_resize(screen, columns > 0 ? columns : 1, rows > 0 ? rows : 1), "there is memory");
    browse_resize(state, screen->columns, screen->rows);
}

/* The threads that read are not here; what they would find is made up. */
static void pretend_to_read(browse *state, fuzz_input *in)
{
    const uint8_t found = next_byte(in);
    const uint8_t slice = next_byte(in);
    memset(&state->found, found, sizeof state->found);
    state->found.item = browse_wanted(state);
    state->found.done = 0;
    state->found.stage = (browse_stage)(found % (BROWSE_STAGE_FAILED + 1));
    strcpy(state->found.trouble, "trouble");
    state->found.numbers.min = state->found.histogram.low = -found;
    state->found.numbers.max = state->found.histogram.high = found;
    state->found.numbers.mean = state->found.numbers.squares = found;
    memset(&state->slice, slice, sizeof state->slice);
    state->slice.part = browse_seen_part(state);
    state->slice.stage = (browse_stage)(slice % (BROWSE_STAGE_FAILED + 1));
    strcpy(state->slice.trouble, "trouble");
}

static void type(browse *state, cli_screen *screen, fuzz_input *in)
{
    cli_keys keys;
    cli_event event;
    memset(&keys, 0, sizeof keys);
    while (in->at < in->size) {
        const uint8_t byte = next_byte(in);
        if (byte == 0xFE) {
            resize(state, screen, in);
        } else if (byte == 0xFF) {
            pretend_to_read(state, in);
        } else if (cli_keys_take(&keys, byte, &event)) {
            browse_handle(state, &event);
        } else {
            continue; /* nothing has happened yet */
        }
        check_screen(state, screen);
    }
    if (cli_keys_waiting(&keys) && cli_keys_idle(&keys, &event)) {
        browse_handle(state, &event);
        check_screen(state, screen);
    }
}

static void browse_models(fuzz_input *in, const coffer *a, const coffer *b, cli_screen *screen)
{
    browse_data data;
    browse *state = malloc(sizeof *state);
    expect(state != NULL, "there is memory");
    expect(browse_data_make(&data, a, "\x1b[2J/a", b, b != NULL ? "b\xFF\xE2\x80\xAE" : NULL),
           "two models are matched");
    expect(browse_begin(state, &data, screen->columns, screen->rows), "it begins");
    check_screen(state, screen);
    type(state, screen, in);
    browse_free(state);
    browse_data_free(&data);
    free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t files[2][MAX_FILE];
    fuzz_input in = { bytes, size < MAX_INPUT ? size : MAX_INPUT, 0 };
    cli_screen screen;
    memset(&screen, 0, sizeof screen);
    const size_t columns = 1 + (size_t)next_byte(&in);
    const size_t rows = 1 + (size_t)next_byte(&in) % 80;
    screen.colours = (cli_colours)(next_byte(&in) % (CLI_COLOURS_ALL + 1));
    expect(cli_screen_resize(&screen, columns, rows), "there is memory");
    const bool two = next_byte(&in) % 2 == 1;
    coffer *a = make_model(&in, files[0]);
    coffer *b = a != NULL && two ? make_model(&in, files[1]) : NULL;
    if (a != NULL) {
        browse_models(&in, a, b, &screen);
    }
    coffer_close(b);
    coffer_close(a);
    cli_screen_free(&screen);
    return 0;
}
