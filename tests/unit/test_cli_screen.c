/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of cells and the decoding of keys, without a terminal: what the bytes of a frame make of a terminal that
 * understands no more of them than is needed, and what events come of bytes in any portions.
 */
#include "cli_keys.h"
#include "cli_screen.h"
#include "cli_text.h"
#include "cli_width.h"
#include "support_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A terminal ---- */

#define MAX 4096

typedef struct little_terminal {
    uint32_t codes[MAX]; /* 0: the second half of a wide character */
    unsigned looks[MAX]; /* how the cell was drawn, as a hash of the last SGR */
    size_t columns;
    size_t rows;
    size_t x;
    size_t y;
    unsigned look;
    bool cursor;
} little_terminal;

static void erase_all(little_terminal *terminal)
{
    for (size_t i = 0; i < MAX; i++) {
        terminal->codes[i] = ' ';
        terminal->looks[i] = 0;
    }
}

static unsigned look_of(const char *text, size_t len)
{
    unsigned hash = 0;
    for (size_t i = 0; i < len; i++) {
        hash = hash * 31 + (unsigned char)text[i];
    }
    return len == 1 && text[0] == '0' ? 0 : hash; /* "0": no look */
}

/* A sequence from its bracket on; returns its length. */
static size_t obey(little_terminal *terminal, const char *text, size_t len)
{
    size_t end = 1;
    while (end < len && (text[end] < 0x40 || text[end] > 0x7E)) {
        end++;
    }
    assert_true(end < len);
    if (text[end] == 'H') {
        char *rest = NULL;
        terminal->y = strtoul(text + 1, &rest, 10) - 1;
        terminal->x = strtoul(rest + 1, NULL, 10) - 1;
        assert_true(terminal->x < terminal->columns && terminal->y < terminal->rows);
    } else if (text[end] == 'J') {
        erase_all(terminal);
    } else if (text[end] == 'm') {
        terminal->look = look_of(text + 1, end - 1);
    } else {
        assert_true(text[1] == '?' && (text[end] == 'h' || text[end] == 'l'));
        terminal->cursor = strncmp(text + 2, "25", 2) == 0 ? text[end] == 'h' : terminal->cursor;
    }
    return end + 1;
}

/* Every terminal has its own idea of some widths; `odd` is one that shows what is uncertain in one column. */
static void take_bytes(little_terminal *terminal, const char *bytes, size_t size, bool odd)
{
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        if (bytes[at] == '\x1b') {
            at += 1 + obey(terminal, bytes + at + 1, size - at - 1);
            continue;
        }
        const size_t len = cli_read_character(bytes + at, size - at, &code);
        assert_true(len > 0 && !cli_is_unsafe(code));
        at += len;
        const unsigned width = odd && !cli_character_certain(code) ? 1 : cli_character_width(code);
        if (width == 0 || (odd && terminal->x == terminal->columns)) {
            continue;
        }
        assert_true(terminal->x + width <= terminal->columns);
        const size_t place = terminal->y * terminal->columns + terminal->x;
        terminal->codes[place] = code;
        terminal->looks[place] = terminal->look;
        if (width == 2) {
            terminal->codes[place + 1] = 0;
            terminal->looks[place + 1] = terminal->look;
        }
        terminal->x += width;
    }
}

static void show_frame(cli_screen *screen, little_terminal *terminal, bool odd)
{
    size_t size = 0;
    const char *bytes = cli_screen_render(screen, &size);
    assert_non_null(bytes);
    take_bytes(terminal, bytes, size, odd);
    assert_true(terminal->cursor == screen->has_cursor);
}

/* ---- Frames ---- */

static void assert_string_equal_n(const char *bytes, size_t size, const char *wanted)
{
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(bytes, wanted, size);
}

static const cli_pen no_pen = { .look = 0 };

static void draw(cli_screen *screen, size_t x, size_t y, const char *text)
{
    cli_screen_put(screen, x, y, SIZE_MAX, text, strlen(text), no_pen);
}

static void make_screen(cli_screen *screen, size_t columns, size_t rows, cli_colours colours)
{
    memset(screen, 0, sizeof *screen);
    screen->colours = colours;
    assert_true(cli_screen_resize(screen, columns, rows));
}

static void test_only_what_changed_is_written(void **state)
{
    cli_screen screen;
    size_t size = 0;
    (void)state;
    make_screen(&screen, 20, 3, CLI_COLOURS_NONE);
    draw(&screen, 2, 1, "model");
    const char *bytes = cli_screen_render(&screen, &size);
    assert_string_equal_n(bytes, size, "\x1b[?2026h\x1b[?25l\x1b[0m\x1b[2J\x1b[2;3Hmodel\x1b[0m\x1b[?2026l");
    cli_screen_clear(&screen);
    draw(&screen, 2, 1, "modal");
    cli_screen_cursor(&screen, 4, 2);
    bytes = cli_screen_render(&screen, &size);
    assert_string_equal_n(bytes, size, "\x1b[?2026h\x1b[?25l\x1b[0m\x1b[2;6Ha\x1b[0m\x1b[3;5H\x1b[?25h\x1b[?2026l");
    bytes = cli_screen_render(&screen, &size);
    assert_string_equal_n(bytes, size, "\x1b[?2026h\x1b[?25l\x1b[0m\x1b[0m\x1b[3;5H\x1b[?25h\x1b[?2026l");
    cli_screen_free(&screen);
}

static void test_nothing_steers_the_terminal(void **state)
{
    static const char hostile[] = "a\x1b[2Jb\nc\r\x07\x9b"
                                  "1m\xc2\x9b\xe2\x80\xae\xff\x00z";
    cli_screen screen;
    size_t size = 0;
    (void)state;
    make_screen(&screen, 40, 2, CLI_COLOURS_NONE);
    assert_int_equal(cli_screen_put(&screen, 0, 0, SIZE_MAX, hostile, sizeof hostile - 1, no_pen), 18);
    cli_screen_fill(&screen, 0, 1, 3, 0x1B, no_pen);
    const char *bytes = cli_screen_render(&screen, &size);
    static little_terminal terminal;
    terminal = (little_terminal){ .columns = 40, .rows = 2 };
    take_bytes(&terminal, bytes, size, false);
    assert_int_equal(terminal.codes[0], 'a');
    assert_int_equal(terminal.codes[1], 0xFFFD);
    cli_screen_free(&screen);
}

static void test_text_ends_where_the_row_ends(void **state)
{
    cli_screen screen;
    (void)state;
    make_screen(&screen, 6, 2, CLI_COLOURS_NONE);
    assert_int_equal(cli_screen_put(&screen, 3, 0, SIZE_MAX, "abcdef", 6, no_pen), 3);
    assert_int_equal(cli_screen_put(&screen, 0, 0, 2, "abcdef", 6, no_pen), 2);
    assert_int_equal(cli_screen_put(&screen, 5, 1, SIZE_MAX, "日", 3, no_pen), 0);
    assert_int_equal(cli_screen_put(&screen, 6, 0, SIZE_MAX, "a", 1, no_pen), 0);
    assert_int_equal(cli_screen_put(&screen, 0, 2, SIZE_MAX, "a", 1, no_pen), 0);
    assert_int_equal(screen.frame[0].code, 'a');
    assert_int_equal(screen.frame[5].code, 'c');
    cli_screen_fill(&screen, 4, 1, SIZE_MAX, '-', no_pen);
    cli_screen_mark(&screen, 4, 9, 2, CLI_PEN_BOLD);
    cli_screen_cursor(&screen, 6, 0);
    assert_false(screen.has_cursor);
    cli_screen_free(&screen);
}

static void test_half_of_a_wide_character_is_none(void **state)
{
    cli_screen screen;
    (void)state;
    make_screen(&screen, 6, 1, CLI_COLOURS_NONE);
    draw(&screen, 0, 0, "日本");
    assert_int_equal(screen.frame[1].code, 0);
    draw(&screen, 1, 0, "x");
    assert_int_equal(screen.frame[0].code, ' ');
    assert_int_equal(screen.frame[1].code, 'x');
    draw(&screen, 2, 0, "y");
    assert_int_equal(screen.frame[2].code, 'y');
    assert_int_equal(screen.frame[3].code, ' ');
    cli_screen_free(&screen);
}

static void test_marks_belong_to_the_character_before(void **state)
{
    cli_screen screen;
    size_t size = 0;
    (void)state;
    make_screen(&screen, 10, 1, CLI_COLOURS_NONE);
    draw(&screen, 0, 0,
         "\xcc\x81"
         "e\xcc\x81\xcc\x82\xcc\x83x");
    assert_int_equal(screen.frame[0].code, 'e');
    assert_int_equal(screen.frame[0].marks[0], 0x301);
    assert_int_equal(screen.frame[0].marks[1], 0x302);
    assert_int_equal(screen.frame[1].code, 'x');
    const char *bytes = cli_screen_render(&screen, &size);
    assert_non_null(strstr(bytes, "e\xcc\x81\xcc\x82\x1b[1;2Hx")); /* the place after it is stated */
    cli_screen_free(&screen);
}

/* ---- Colours ---- */

static void test_colours_of_terminals(void **state)
{
    (void)state;
    assert_int_equal(cli_colours_of("xterm", NULL, NULL), CLI_COLOURS_16);
    assert_int_equal(cli_colours_of("xterm-256color", NULL, NULL), CLI_COLOURS_256);
    assert_int_equal(cli_colours_of("xterm-256color", "truecolor", NULL), CLI_COLOURS_ALL);
    assert_int_equal(cli_colours_of("xterm-direct", NULL, NULL), CLI_COLOURS_ALL);
    assert_int_equal(cli_colours_of("xterm", "24bit", "1"), CLI_COLOURS_NONE);
    assert_int_equal(cli_colours_of("xterm", "24bit", ""), CLI_COLOURS_ALL);
    assert_int_equal(cli_colours_of("vt100", NULL, NULL), CLI_COLOURS_NONE);
    assert_int_equal(cli_colours_of("dumb", "truecolor", NULL), CLI_COLOURS_NONE);
    assert_int_equal(cli_colours_of(NULL, NULL, NULL), CLI_COLOURS_256);
}

static void expect_sequence(cli_colours colours, uint32_t ink, uint32_t paper, const char *wanted)
{
    cli_screen screen;
    size_t size = 0;
    char part[128];
    make_screen(&screen, 2, 1, colours);
    cli_screen_put(&screen, 0, 0, 1, "x", 1, (cli_pen){ .ink = ink, .paper = paper, .look = CLI_PEN_BOLD });
    const char *bytes = cli_screen_render(&screen, &size);
    snprintf(part, sizeof part, "\x1b[%smx", wanted);
    assert_non_null(strstr(bytes, part));
    cli_screen_free(&screen);
}

static void test_a_colour_becomes_the_nearest(void **state)
{
    (void)state;
    expect_sequence(CLI_COLOURS_NONE, CLI_INK(1), CLI_RGB(255, 0, 0), "0;1");
    expect_sequence(CLI_COLOURS_16, CLI_INK(9), 0, "0;1;91");
    expect_sequence(CLI_COLOURS_16, CLI_INK(3), CLI_RGB(255, 0, 0), "0;1;33;101");
    expect_sequence(CLI_COLOURS_16, CLI_RGB(0, 0, 128), 0, "0;1;34");
    expect_sequence(CLI_COLOURS_256, 0, CLI_RGB(255, 0, 0), "0;1;48;5;196");
    expect_sequence(CLI_COLOURS_256, CLI_RGB(128, 128, 128), 0, "0;1;38;5;244");
    expect_sequence(CLI_COLOURS_ALL, CLI_RGB(1, 2, 3), CLI_INK(4), "0;1;38;2;1;2;3;44");
}

/* ---- Any frames ---- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void draw_at_random(cli_screen *screen, uint32_t *seed)
{
    static const char *const texts[] = {
        "a", "layers.#", "日本語", "e\xcc\x81", "│", "xyz", "🙂 ok", "\x1b[m", "한글"
    };
    if (next_random(seed) % 4 == 0) {
        cli_screen_clear(screen);
    }
    for (size_t i = 0; i < 12; i++) {
        const char *text = texts[next_random(seed) % (sizeof texts / sizeof texts[0])];
        const cli_pen pen = { .ink = CLI_INK(next_random(seed) % 3), .look = next_random(seed) % 3 };
        const size_t x = next_random(seed) % screen->columns;
        const size_t y = next_random(seed) % screen->rows;
        cli_screen_put(screen, x, y, next_random(seed) % 12, text, strlen(text), pen);
    }
}

static void expect_frame(const cli_screen *screen, const little_terminal *terminal)
{
    for (size_t i = 0; i < screen->columns * screen->rows; i++) {
        assert_int_equal(terminal->codes[i], screen->frame[i].code);
    }
}

static void test_any_frame_arrives(void **state)
{
    static little_terminal terminal;
    uint32_t seed = 7;
    (void)state;
    for (size_t round = 0; round < 40; round++) {
        cli_screen screen;
        make_screen(&screen, 3 + next_random(&seed) % 40, 1 + next_random(&seed) % 12, CLI_COLOURS_256);
        terminal = (little_terminal){ .columns = screen.columns, .rows = screen.rows };
        for (size_t frame = 0; frame < 20; frame++) {
            draw_at_random(&screen, &seed);
            show_frame(&screen, &terminal, false);
            expect_frame(&screen, &terminal);
        }
        cli_screen_free(&screen);
    }
}

/* Where a terminal and the table disagree about a width, what is certain still stands in its place. */
static void test_other_widths_do_not_shift_a_row(void **state)
{
    static little_terminal terminal;
    uint32_t seed = 11;
    cli_screen screen;
    (void)state;
    make_screen(&screen, 30, 6, CLI_COLOURS_NONE);
    terminal = (little_terminal){ .columns = 30, .rows = 6 };
    for (size_t frame = 0; frame < 200; frame++) {
        draw_at_random(&screen, &seed);
        show_frame(&screen, &terminal, true);
        for (size_t i = 0; i < 180; i++) {
            const bool half = screen.frame[i].code == 0;
            assert_true(half || terminal.codes[i] == screen.frame[i].code);
        }
    }
    cli_screen_free(&screen);
}

/* ---- Widths ---- */

static void test_widths(void **state)
{
    (void)state;
    assert_int_equal(cli_character_width('a'), 1);
    assert_int_equal(cli_character_width(0x301), 0);
    assert_int_equal(cli_character_width(0x65E5), 2);
    assert_int_equal(cli_character_width(0x1F642), 2);
    assert_int_equal(cli_character_width(0x200D), 0);
    assert_int_equal(cli_character_width(0xAC00), 2);
    assert_int_equal(cli_character_width(0xAD), 1);
    assert_int_equal(cli_character_width(0x10FFFF), 1);
    assert_int_equal(cli_text_width("日本 e\xcc\x81", strlen("日本 e\xcc\x81")), 6);
    assert_int_equal(cli_text_fit("日本", 6, 3), 3);
    assert_int_equal(cli_text_fit("e\xcc\x81x", 4, 1), 3);
    assert_int_equal(cli_text_width("\xff\xff", 2), 2);
}

/* ---- Keys ---- */

/* What comes of the bytes, as words: "x", "^c", "Up", "Press 3,4". */
static void name_event(const cli_event *event, char *text, size_t size)
{
    static const char *const names[] = { "",        "",       "Up",       "Down",    "Left",      "Right", "Home",
                                         "End",     "PageUp", "PageDown", "Delete",  "Backspace", "Enter", "Tab",
                                         "BackTab", "Escape", "Press",    "WheelUp", "WheelDown" };
    if (event->key == CLI_KEY_CHARACTER) {
        snprintf(text, size, event->pasted ? "p%x" : event->code < 0x80 ? "%c" : "U+%X", (unsigned)event->code);
    } else if (event->key == CLI_KEY_CONTROL) {
        snprintf(text, size, "^%c", (char)event->code);
    } else if (event->key >= CLI_KEY_PRESS) {
        snprintf(text, size, "%s %zu,%zu", names[event->key], event->x, event->y);
    } else {
        snprintf(text, size, "%s", names[event->key]);
    }
}

static void add_event(const cli_event *event, char *text, size_t size)
{
    const size_t used = strlen(text);
    if (used > 0) {
        snprintf(text + used, size - used, " ");
    }
    name_event(event, text + strlen(text), size - strlen(text));
}

static void expect_keys_n(const char *bytes, size_t size, const char *wanted)
{
    cli_keys keys;
    cli_event event;
    char text[512] = "";
    memset(&keys, 0, sizeof keys);
    for (size_t i = 0; i < size; i++) {
        if (cli_keys_take(&keys, (unsigned char)bytes[i], &event)) {
            add_event(&event, text, sizeof text);
        }
    }
    if (cli_keys_waiting(&keys) && cli_keys_idle(&keys, &event)) {
        add_event(&event, text, sizeof text);
    }
    assert_string_equal(text, wanted);
}

static void expect_keys(const char *bytes, const char *wanted)
{
    expect_keys_n(bytes, strlen(bytes), wanted);
}

static void test_characters(void **state)
{
    (void)state;
    expect_keys("aZ/", "a Z /");
    expect_keys("\x03\x04\x1a\x0c", "^c ^d ^z ^l");
    expect_keys("\r\n\t\x7f\x08", "Enter Enter Tab Backspace Backspace");
    expect_keys("é日🙂", "U+E9 U+65E5 U+1F642");
    expect_keys_n("\0a", 2, "a");
    expect_keys("\xff\xc3(\x80g\xe2\x80\xaeh\xed\xa0\x80i",
                "( g h i"); /* no UTF-8, and what would turn the direction */
    expect_keys("\xe6\x97", "");
}

static void test_sequences(void **state)
{
    (void)state;
    expect_keys("\x1b[A\x1b[B\x1b[C\x1b[D", "Up Down Right Left");
    expect_keys("\x1bOA\x1bOB\x1bOH\x1bOF", "Up Down Home End");
    expect_keys("\x1b[1;5A\x1b[1;2B", "Up Down");
    expect_keys("\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[7~\x1b[8~\x1b[3~", "PageUp PageDown Home End Home End Delete");
    expect_keys("\x1b[Z", "BackTab");
    expect_keys("\x1b", "Escape");
    expect_keys("\x1b\x1b", "Escape Escape");
    expect_keys("\x1b\x1b[A", "Escape Up");
    expect_keys("\x1bx", ""); /* Alt */
    expect_keys("\x1b[", "");
}

static void test_unknown_sequences_are_swallowed(void **state)
{
    (void)state;
    expect_keys("\x1b[15~x\x1b[?62;1cx\x1b[>0;276;0cx\x1b[12;34Rx\x1b[99;99;99;99;99~x", "x x x x x");
    expect_keys("\x1b]11;rgb:0000/0000/0000\x07x\x1bP1$r0m\x1b\\x\x1b[200", "x x");
    expect_keys("\x1b[99999999999999999999A", "Up");
    expect_keys("\x1b[1\x03\x1b[\x1b[A", "Up"); /* cut short */
    expect_keys("\x1b[M !!x", "x");             /* the mouse as it was reported of old */
    expect_keys("\x1b[I\x1b[Ox", "x");          /* the window has or loses the focus */
}

static void test_the_mouse(void **state)
{
    (void)state;
    expect_keys("\x1b[<0;4;5M\x1b[<0;4;5m", "Press 3,4");
    expect_keys("\x1b[<64;1;1M\x1b[<65;223;300M", "WheelUp 0,0 WheelDown 222,299");
    expect_keys("\x1b[<2;4;5M\x1b[<32;4;5M\x1b[<35;4;5M", ""); /* another button, motion */
    expect_keys("\x1b[<4;4;5M", "Press 3,4");                  /* with Shift */
    expect_keys("\x1b[<0;0;5M\x1b[<0;4M\x1b[<M\x1b[<0;1;1;1Mx", "x");
}

static void test_pasted_text(void **state)
{
    (void)state;
    expect_keys("\x1b[200~q\x03\r\x1b[A\xc3\xa9\x1b[201~q", "p71 pe9 q");
    expect_keys("\x1b[200~a\x1b\x1b[201~b", "p61 b");
}

/* A sequence that comes byte by byte is that sequence, also when its first byte came too long before the others. */
static void test_slow_sequences(void **state)
{
    cli_keys keys;
    cli_event event;
    (void)state;
    memset(&keys, 0, sizeof keys);
    assert_false(cli_keys_take(&keys, 0x1B, &event));
    assert_true(cli_keys_waiting(&keys));
    assert_true(cli_keys_idle(&keys, &event));
    assert_int_equal(event.key, CLI_KEY_ESCAPE);
    assert_false(cli_keys_waiting(&keys));
    const char *rest = "[<0;4;5m";
    for (size_t i = 0; rest[i] != '\0'; i++) {
        assert_false(cli_keys_take(&keys, (unsigned char)rest[i], &event));
        assert_false(cli_keys_idle(&keys, &event));
    }
    assert_true(cli_keys_take(&keys, 'x', &event));
    assert_int_equal(event.code, 'x');
}

static void test_any_bytes(void **state)
{
    cli_keys keys;
    cli_event event;
    uint32_t seed = 3;
    (void)state;
    memset(&keys, 0, sizeof keys);
    for (size_t i = 0; i < 200000; i++) {
        static const char usual[] = "\x1b[<0123456789;MmA~OPx]\x07\xc3\xa9";
        const uint32_t dice = next_random(&seed);
        const unsigned char byte =
            dice % 3 > 0 ? (unsigned char)usual[dice / 3 % (sizeof usual - 1)] : (unsigned char)(dice >> 4);
        if (cli_keys_take(&keys, byte, &event) || (dice % 64 == 0 && cli_keys_idle(&keys, &event))) {
            assert_true(event.key <= CLI_KEY_WHEEL_DOWN);
            assert_true(event.key != CLI_KEY_CHARACTER || !cli_is_unsafe(event.code));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_changed_is_written),
        cmocka_unit_test(test_nothing_steers_the_terminal),
        cmocka_unit_test(test_text_ends_where_the_row_ends),
        cmocka_unit_test(test_half_of_a_wide_character_is_none),
        cmocka_unit_test(test_marks_belong_to_the_character_before),
        cmocka_unit_test(test_colours_of_terminals),
        cmocka_unit_test(test_a_colour_becomes_the_nearest),
        cmocka_unit_test(test_any_frame_arrives),
        cmocka_unit_test(test_other_widths_do_not_shift_a_row),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_unknown_sequences_are_swallowed),
        cmocka_unit_test(test_the_mouse),
        cmocka_unit_test(test_pasted_text),
        cmocka_unit_test(test_slow_sequences),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
