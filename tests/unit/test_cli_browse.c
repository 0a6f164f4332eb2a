/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of coffer browse without a terminal: keys change it, and it is drawn. What must hold after any keys at any
 * size is checked after many at random; what single keys do, here and on real screens in tests/python.
 */
#include "browse.h"
#include "support_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Models ---- */

typedef struct small_file {
    unsigned char bytes[65536];
    size_t size;
    coffer *model;
} small_file;

static void add_tensor(char *text, size_t capacity, const char *name, const char *dtype, const char *shape, size_t *end,
                       size_t size)
{
    const size_t used = strlen(text);
    const int len =
        snprintf(text + used, capacity - used, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                 used > 1 ? "," : "", name, dtype, shape, *end, *end + size);
    assert_true(len > 0 && (size_t)len < capacity - used);
    *end += size;
}

static void open_small(small_file *file, const char *text, size_t data)
{
    coffer_error err;
    const size_t len = strlen(text);
    memset(file->bytes, 0, sizeof file->bytes);
    assert_true(8 + len + data <= sizeof file->bytes);
    file->bytes[0] = (unsigned char)(len & 255);
    file->bytes[1] = (unsigned char)(len >> 8);
    memcpy(file->bytes + 8, text, len);
    file->size = 8 + len + data;
    for (size_t i = 0; i < data; i++) {
        file->bytes[8 + len + i] = (unsigned char)(i * 37);
    }
    assert_int_equal(coffer_open_memory(&file->model, file->bytes, file->size, NULL, &err), COFFER_OK);
}

/* Layers, odd names, every shape; the second file lacks one, has another, and one of another kind. */
static void make_file(small_file *file, bool second)
{
    static char text[32768];
    char name[128];
    size_t end = 0;
    strcpy(text, "{");
    add_tensor(text, sizeof text, "model.embed.weight", "F32", "[16,4]", &end, 256);
    for (unsigned layer = 0; layer < 12; layer++) {
        snprintf(name, sizeof name, "model.layers.%u.attn.q.weight", layer);
        add_tensor(text, sizeof text, name, "F16", "[4,4]", &end, 32);
        snprintf(name, sizeof name, "model.layers.%u.mlp.up.weight", layer);
        add_tensor(text, sizeof text, name, layer == 3 ? "F32" : "BF16", layer == 3 ? "[8]" : "[4,4]", &end, 32);
    }
    add_tensor(text, sizeof text, "scalar", "I64", "[]", &end, 8);
    add_tensor(text, sizeof text, "empty", "F32", "[0,7]", &end, 0);
    add_tensor(text, sizeof text, "\\u001b[2J\\n\\u202e", "U8", "[3]", &end, 3);
    add_tensor(text, sizeof text, second ? "only in B" : "日本語/é́", "F4", "[2,4]", &end, 4);
    add_tensor(text, sizeof text, "kind", "U8", second ? "[1,4]" : "[4]", &end, 4);
    strcat(text, "}");
    open_small(file, text, end);
}

static void make_data(browse_data *data, small_file *a, small_file *b)
{
    make_file(a, false);
    if (b != NULL) {
        make_file(b, true);
    }
    assert_true(browse_data_make(data, a->model, "a.safetensors", b != NULL ? b->model : NULL, b != NULL ? "b" : NULL));
}

static void end_data(browse_data *data)
{
    browse_data_free(data);
    coffer_close((coffer *)data->models[0]);
    coffer_close((coffer *)data->models[1]);
}

/* ---- Typing ---- */

static browse_wish type_keys(browse *state, const char *bytes)
{
    cli_keys keys;
    cli_event event;
    browse_wish wish = BROWSE_WISH_NONE;
    memset(&keys, 0, sizeof keys);
    for (size_t i = 0; bytes[i] != '\0'; i++) {
        if (cli_keys_take(&keys, (unsigned char)bytes[i], &event)) {
            wish = browse_handle(state, &event);
        }
    }
    if (cli_keys_waiting(&keys) && cli_keys_idle(&keys, &event)) {
        wish = browse_handle(state, &event);
    }
    browse_catch_up(state);
    return wish;
}

static const coffer_tensor *tensor_under(const browse *state)
{
    const uint32_t item = browse_row_item(&state->tree, &state->tree.rows[state->cursor]);
    return item == BROWSE_NONE ? NULL : browse_tensor_at(state->data, item);
}

static void expect_under(const browse *state, const char *name)
{
    const coffer_tensor *tensor = tensor_under(state);
    assert_non_null(tensor);
    assert_string_equal(tensor->name, name);
}

static void test_the_tree_folds(void **unused)
{
    static small_file file;
    browse_data data;
    browse state;
    (void)unused;
    make_data(&data, &file, NULL);
    assert_true(browse_begin(&state, &data, 80, 24));
    /* model, embed, layers.#, attn × 12, mlp with weight × 11 and weight (3), and five others */
    assert_int_equal(state.tree.row_count, 12);
    assert_int_equal(state.tree.nodes[state.tree.rows[0].node].tensors, 25);
    type_keys(&state, "jj");
    assert_int_equal(state.tree.nodes[state.tree.rows[state.cursor].node].tensors, 24);
    type_keys(&state, " ");
    assert_int_equal(state.tree.row_count, 8);
    type_keys(&state, "E");
    assert_int_equal(state.tree.row_count, 6);
    assert_int_equal(state.cursor, 0);
    type_keys(&state, "G");
    expect_under(&state, "kind");
    browse_free(&state);
    end_data(&data);
}

static void test_a_search_opens_what_hides(void **unused)
{
    static small_file file;
    browse_data data;
    browse state;
    (void)unused;
    make_data(&data, &file, NULL);
    assert_true(browse_begin(&state, &data, 80, 24));
    type_keys(&state, "E/rs.7.mlp");
    expect_under(&state, "model.layers.7.mlp.up.weight");
    type_keys(&state, "\x1b");
    assert_int_equal(state.cursor, 0);
    type_keys(&state, "/layers.1\r");
    expect_under(&state, "model.layers.1.attn.q.weight");
    type_keys(&state, "nn");
    expect_under(&state, "model.layers.11.attn.q.weight");
    type_keys(&state, "N");
    expect_under(&state, "model.layers.10.attn.q.weight");
    type_keys(&state, "/SCALAR\r");
    assert_string_equal(state.message, "not found");
    type_keys(&state, "/scal\r");
    expect_under(&state, "scalar");
    browse_free(&state);
    end_data(&data);
}

static void test_a_filter_and_the_orders(void **unused)
{
    static small_file file;
    browse_data data;
    browse state;
    (void)unused;
    make_data(&data, &file, NULL);
    assert_true(browse_begin(&state, &data, 80, 24));
    type_keys(&state, "f*.attn.*\rt");
    assert_int_equal(state.tree.row_count, 12);
    type_keys(&state, "\x1b");
    assert_int_equal(state.tree.row_count, 30);
    type_keys(&state, "fzzz\r");
    assert_int_equal(state.tree.row_count, 0);
    type_keys(&state, "jkGg\r lhsv/x\rnd");
    type_keys(&state, "\x1b\x1b\x1b");
    assert_int_equal(state.tree.row_count, 30);
    while (state.tree.sort != BROWSE_SORT_SIZE) {
        type_keys(&state, "s");
    }
    type_keys(&state, "g");
    expect_under(&state, "model.embed.weight");
    type_keys(&state, "G");
    expect_under(&state, "empty");
    browse_free(&state);
    end_data(&data);
}

static void test_two_models(void **unused)
{
    static small_file a;
    static small_file b;
    browse_data data;
    browse state;
    size_t count = 0;
    (void)unused;
    make_data(&data, &a, &b);
    assert_int_equal(data.count, 31);
    assert_true(browse_begin(&state, &data, 80, 24));
    type_keys(&state, "dt");
    assert_int_equal(state.tree.row_count, 3);
    assert_int_equal(browse_difference_at(&data, state.tree.items[0]), BROWSE_ONLY_A);
    assert_int_equal(browse_difference_at(&data, state.tree.items[state.tree.folds.leaf_count - 1]) != BROWSE_ALIKE,
                     true);
    type_keys(&state, "dtg");
    assert_int_equal(type_keys(&state, "c"), BROWSE_WISH_COMPARE);
    uint32_t *items = browse_items_below(&state, &count);
    assert_int_equal(count, 25);
    free(items);
    browse_free(&state);
    end_data(&data);
}

static void test_wishes(void **unused)
{
    static small_file file;
    browse_data data;
    browse state;
    (void)unused;
    make_data(&data, &file, NULL);
    assert_true(browse_begin(&state, &data, 80, 24));
    assert_int_equal(type_keys(&state, "\x03"), BROWSE_WISH_INTERRUPT);
    assert_int_equal(type_keys(&state, "\x1a"), BROWSE_WISH_SUSPEND);
    assert_int_equal(type_keys(&state, "\x0c"), BROWSE_WISH_REDRAW);
    assert_int_equal(type_keys(&state, "r"), BROWSE_WISH_READ);
    assert_int_equal(type_keys(&state, "c"), BROWSE_WISH_NONE);
    assert_int_equal(type_keys(&state, "mq"), BROWSE_WISH_NONE);
    assert_int_equal(type_keys(&state, "/q\x03"), BROWSE_WISH_INTERRUPT);
    assert_int_equal(type_keys(&state, "\rq"), BROWSE_WISH_QUIT);
    assert_int_equal(type_keys(&state, "\x1b[200~q\x1b[201~"), BROWSE_WISH_NONE);
    browse_resize(&state, 30, 5);
    assert_int_equal(type_keys(&state, "m"), BROWSE_WISH_NONE);
    assert_int_equal(state.view, BROWSE_VIEW_LIST);
    assert_int_equal(type_keys(&state, "q"), BROWSE_WISH_QUIT);
    browse_free(&state);
    end_data(&data);
}

/* ---- Work ---- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static atomic_uint changes;

static void count_change(void)
{
    atomic_fetch_add(&changes, 1);
}

static void await_found(browse_work *work, uint32_t item, browse_found *found)
{
    for (size_t i = 0; i < 6000; i++) {
        browse_work_look(work, item, found);
        if (found->stage >= BROWSE_STAGE_DONE) {
            return;
        }
        usleep(10000);
    }
    fail();
}

static void test_numbers_are_read(void **unused)
{
    static small_file file;
    browse_data data;
    browse_found found;
    (void)unused;
    make_data(&data, &file, NULL);
    browse_work *work = browse_work_new(&data, count_change);
    assert_non_null(work);
    browse_work_look(work, 0, &found);
    assert_int_equal(found.stage, BROWSE_STAGE_NOTHING);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t item = 0; item < data.count; item++) {
            const coffer_tensor *tensor = browse_tensor_at(&data, item);
            browse_work_read(work, item);
            await_found(work, item, &found);
            assert_int_equal(found.stage, BROWSE_STAGE_DONE);
            assert_int_equal(found.numbers.count, coffer_tensor_elements(tensor));
        }
    }
    /* Those that nobody waits for are cancelled, and the last one is read. */
    for (uint32_t i = 0; i < 300; i++) {
        browse_work_read(work, i % 5 == 4 ? BROWSE_NONE : i % (uint32_t)data.count);
    }
    browse_work_read(work, 2);
    await_found(work, 2, &found);
    assert_true(atomic_load(&changes) > 0);
    browse_work_read(work, 20);
    browse_work_free(work);
    browse_work_free(NULL);
    end_data(&data);
}

static void await_slice(browse_work *work, const browse_part *part, browse_slice *slice)
{
    for (size_t i = 0; i < 6000; i++) {
        browse_work_look_at_part(work, part, slice);
        if (browse_part_same(&slice->part, part) && slice->stage >= BROWSE_STAGE_DONE) {
            return;
        }
        usleep(10000);
    }
    fail();
}

/* Every element of a part is that of the tensor which lies there. */
static void check_slice(const coffer_tensor *tensor, const unsigned char *bytes, const browse_slice *slice)
{
    const browse_part *part = &slice->part;
    const bool rows = browse_part_has_rows(tensor);
    const uint64_t columns = rows ? tensor->shape[tensor->rank - 1] : part->columns;
    const uint64_t first =
        rows ? (part->matrix * tensor->shape[tensor->rank - 2] + part->row) * columns + part->column : part->row;
    for (uint32_t row = 0; row < part->rows; row++) {
        for (uint32_t i = 0; i < browse_part_row_length(part, tensor, row); i++) {
            double found[2] = { 0, 0 };
            double wanted[2] = { 0, 0 };
            coffer_decode(tensor->dtype, slice->bytes, browse_part_index(part, tensor, row) + i, 1, found);
            coffer_decode(tensor->dtype, bytes, first + row * columns + i, 1, wanted);
            assert_memory_equal(found, wanted, sizeof found);
        }
    }
}

static void test_parts_are_read(void **unused)
{
    static small_file file;
    static browse_slice slice;
    static char text[4096];
    browse_data data;
    uint32_t seed = 3;
    size_t end = 0;
    (void)unused;
    strcpy(text, "{");
    add_tensor(text, sizeof text, "matrices", "U16", "[3,2,70,9]", &end, 7560);
    add_tensor(text, sizeof text, "vector", "F32", "[300]", &end, 1200);
    add_tensor(text, sizeof text, "scalar", "C64", "[]", &end, 8);
    add_tensor(text, sizeof text, "halves", "F4", "[3,25,6]", &end, 225);
    add_tensor(text, sizeof text, "of six", "F6_E2M3", "[4,41]", &end, 123);
    strcat(text, "}");
    open_small(&file, text, end);
    assert_true(browse_data_make(&data, file.model, "m", NULL, NULL));
    browse_work *work = browse_work_new(&data, count_change);
    assert_non_null(work);
    for (size_t i = 0; i < 400; i++) {
        const uint32_t item = next_random(&seed) % (uint32_t)data.count;
        const coffer_tensor *tensor = browse_tensor_at(&data, item);
        browse_part part = { .item = item,
                             .rows = 1 + next_random(&seed) % 80,
                             .columns = 1 + next_random(&seed) % 80,
                             .matrix = next_random(&seed) % 8,
                             .row = next_random(&seed) % 400,
                             .column = next_random(&seed) % 12 };
        browse_part_fit(&part, tensor);
        browse_part_move(&part, tensor, (browse_axis)(next_random(&seed) % 3), next_random(&seed) % 5, i % 2 == 0);
        browse_work_read_part(work, &part);
        await_slice(work, &part, &slice);
        assert_int_equal(slice.stage, BROWSE_STAGE_DONE);
        check_slice(tensor, file.bytes + tensor->offset, &slice);
    }
    browse_work_free(work);
    end_data(&data);
}

static void test_moving_over_a_tensor(void **unused)
{
    static small_file file;
    static char text[1024];
    browse_data data;
    browse state;
    size_t end = 0;
    (void)unused;
    strcpy(text, "{");
    add_tensor(text, sizeof text, "x", "F32", "[2,3,40,30]", &end, 28800);
    strcat(text, "}");
    open_small(&file, text, end);
    assert_true(browse_data_make(&data, file.model, "m", NULL, NULL));
    assert_true(browse_begin(&state, &data, 120, 24));
    type_keys(&state, "\r\r");
    assert_int_equal(state.view, BROWSE_VIEW_SLICE);
    const browse_part first = browse_seen_part(&state);
    type_keys(&state, "jl.");
    assert_int_equal(state.place.row, 1);
    assert_int_equal(state.place.column, 1);
    assert_int_equal(state.place.matrix, 1);
    type_keys(&state, "\x1b[A\x1b[D,hk,");
    assert_true(browse_part_same(&state.place, &first));
    type_keys(&state, "G$..........");
    assert_int_equal(state.place.row, 40 - first.rows);
    assert_int_equal(state.place.column, 30 - first.columns);
    assert_int_equal(state.place.matrix, 5);
    type_keys(&state, "g\x1b[6~0\t");
    assert_int_equal(state.place.row, first.rows);
    assert_int_equal(state.place.column, first.columns);
    browse_resize(&state, 200, 60);
    assert_int_equal(browse_seen_part(&state).rows, 40);
    type_keys(&state, "q");
    assert_int_equal(state.view, BROWSE_VIEW_LIST);
    assert_true(state.focus);
    assert_int_equal(browse_seen_part(&state).matrix, 5);
    browse_free(&state);
    end_data(&data);
}

static void test_bytes_are_compared(void **unused)
{
    static small_file a;
    static small_file b;
    browse_data data;
    (void)unused;
    make_data(&data, &a, &b);
    const coffer_tensor *other = coffer_find(b.model, "scalar", 6);
    b.bytes[other->offset] ^= 1;
    browse_work *work = browse_work_new(&data, count_change);
    uint32_t *items = malloc(data.count * sizeof *items);
    for (uint32_t i = 0; i < data.count; i++) {
        items[i] = i;
    }
    browse_work_compare(work, items, data.count);
    for (size_t i = 0; i < 6000 && browse_work_compared(work).running; i++) {
        usleep(10000);
    }
    const browse_progress progress = browse_work_compared(work);
    assert_false(progress.running);
    assert_int_equal(progress.differing, 1);
    assert_int_equal(progress.done, progress.total);
    assert_int_equal(browse_work_same(work, 0), BROWSE_SAME);
    assert_int_equal(browse_work_same(work, 25), BROWSE_DIFFERS);
    assert_int_equal(browse_work_same(work, (uint32_t)data.count - 1), BROWSE_NOT_COMPARED);
    browse_work_compare(work, NULL, 0);
    browse_work_free(work);
    end_data(&data);
}

/* ---- Any keys ---- */

static void check_state(browse *state, cli_screen *screen)
{
    size_t size = 0;
    browse_draw(state, screen);
    assert_non_null(cli_screen_render(screen, &size));
    assert_true(state->cursor < state->tree.row_count || state->tree.row_count == 0);
    assert_true(state->top <= state->cursor);
    assert_true(state->cursor - state->top < browse_list_rows(state));
    for (size_t i = 0; i < screen->columns * screen->rows; i++) {
        assert_true(screen->frame[i].code == 0 || screen->frame[i].code >= 0x20);
    }
}

static void try_keys(const browse_data *data, browse_work *work, uint32_t *seed, size_t count)
{
    static const char *const keys[] = { "j",
                                        "k",
                                        "l",
                                        "h",
                                        "g",
                                        "G",
                                        "\x04",
                                        "\x15",
                                        "\x06",
                                        "\x02",
                                        " ",
                                        "\r",
                                        "\t",
                                        "e",
                                        "E",
                                        "s",
                                        "t",
                                        "d",
                                        "c",
                                        "m",
                                        "b",
                                        "?",
                                        "v",
                                        "n",
                                        "N",
                                        "\x1b",
                                        "q",
                                        "f",
                                        "/",
                                        "layers.1",
                                        "*",
                                        "[",
                                        "é",
                                        "\x7f",
                                        "\x1b[<0;5;6M",
                                        "\x1b[<65;9;9M",
                                        "\x1b[<64;99;9M",
                                        "\x1b[Z",
                                        "\x1b[5~",
                                        "\x1b[F",
                                        "zz",
                                        ",",
                                        ".",
                                        "0",
                                        "$",
                                        "\x1b[C",
                                        "\r\r\r",
                                        "日" };
    browse state;
    cli_screen screen;
    memset(&screen, 0, sizeof screen);
    screen.colours = (cli_colours)(next_random(seed) % 4);
    assert_true(cli_screen_resize(&screen, 80, 24));
    assert_true(browse_begin(&state, data, 80, 24));
    state.work = work;
    for (size_t i = 0; i < count; i++) {
        const uint32_t dice = next_random(seed);
        if (dice % 41 == 0) {
            assert_true(cli_screen_resize(&screen, 1 + next_random(seed) % 160, 1 + next_random(seed) % 50));
            browse_resize(&state, screen.columns, screen.rows);
        }
        type_keys(&state, keys[dice / 41 % (sizeof keys / sizeof keys[0])]);
        browse_work_look(work, browse_wanted(&state), &state.found);
        browse_work_read(work, browse_wanted(&state));
        const browse_part part = browse_seen_part(&state);
        browse_work_read_part(work, &part);
        browse_work_look_at_part(work, &part, &state.slice);
        check_state(&state, &screen);
    }
    browse_free(&state);
    cli_screen_free(&screen);
}

static void test_any_keys(void **unused)
{
    static small_file a;
    static small_file b;
    static small_file none;
    uint32_t seed = 5;
    (void)unused;
    for (size_t round = 0; round < 3; round++) {
        browse_data data;
        make_data(&data, &a, round == 1 ? &b : NULL);
        if (round == 2) {
            end_data(&data);
            open_small(&none, "{}      ", 0);
            assert_true(browse_data_make(&data, none.model, "none", NULL, NULL));
        }
        browse_work *work = browse_work_new(&data, count_change);
        for (size_t i = 0; i < 6; i++) {
            try_keys(&data, work, &seed, round == 2 ? 60 : 250);
        }
        browse_work_free(work);
        end_data(&data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tree_folds),
        cmocka_unit_test(test_a_search_opens_what_hides),
        cmocka_unit_test(test_a_filter_and_the_orders),
        cmocka_unit_test(test_two_models),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_numbers_are_read),
        cmocka_unit_test(test_parts_are_read),
        cmocka_unit_test(test_moving_over_a_tensor),
        cmocka_unit_test(test_bytes_are_compared),
        cmocka_unit_test(test_any_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
