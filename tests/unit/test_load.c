/* SPDX-License-Identifier: Apache-2.0 */
/* Why: loads carry out any plan in the background, hand out each item once, and give the bytes that a naive reader
   gives. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* RLIMIT_NPROC */
#include "support_cmocka.h"

#include "staging.h"
#include "support_child.h"
#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_WISHES 40
#define LONG_ENOUGH 60000 /* milliseconds in which whatever can happen has happened */
#define WHOLE_TEST_S 300  /* after which a test that hangs is ended */

static coffer_load *start(const coffer_plan *plan, coffer_staging *staging, const coffer_load_options *options)
{
    coffer_load *load = NULL;
    coffer_error err;
    if (coffer_load_start(&load, plan, staging, options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return load;
}

static coffer_loaded next(coffer_load *load)
{
    coffer_loaded loaded;
    coffer_error err;
    if (coffer_load_next(load, UINT64_MAX, &loaded, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return loaded;
}

/* A plan of all tensors of a model. */
static coffer_plan *plan_of(const coffer *model)
{
    coffer_plan *plan = NULL;
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_int_equal(coffer_plan_add(plan, coffer_at(model, i), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    }
    return plan;
}

static void assert_is_tensor(const coffer *model, const coffer_loaded *loaded)
{
    uint8_t *bytes = malloc((size_t)loaded->size + 1);
    assert_non_null(bytes);
    assert_int_equal(coffer_read(model, loaded->tensor, bytes, loaded->size, NULL, NULL), COFFER_OK);
    assert_memory_equal((const void *)(uintptr_t)loaded->address, bytes, (size_t)loaded->size);
    free(bytes);
}

/* ---- handing out ------------------------------------------------------------------------------------------------- */

static void test_every_tensor_is_handed_out_once(void **state)
{
    (void)state;
    dice of = { 1 };
    coffer *model = random_model(&of, 60, 3 << 20, 20 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    bool *seen = calloc(coffer_count(model), sizeof *seen);
    assert_non_null(seen);
    for (coffer_loaded loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_true(loaded.item < coffer_count(model) && !seen[loaded.item]);
        seen[loaded.item] = true;
        assert_ptr_equal(loaded.tensor, coffer_at(model, loaded.item));
        assert_is_tensor(model, &loaded);
        assert_non_null(loaded.memory);
        coffer_memory_free(loaded.memory);
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(next(load).item, SIZE_MAX);
    coffer_load_free(load);
    free(seen);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* What was handed out outlives the load, the plan and the model. */
static void test_memory_owns_itself(void **state)
{
    (void)state;
    dice of = { 2 };
    coffer *model = random_model(&of, 20, 100000, 0, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    coffer_loaded kept[20];
    uint8_t *copies[20];
    for (size_t i = 0; i < 20; i++) {
        kept[i] = next(load);
        copies[i] = malloc((size_t)kept[i].size + 1);
        assert_non_null(copies[i]);
        memcpy(copies[i], (const void *)(uintptr_t)kept[i].address, (size_t)kept[i].size);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    for (size_t i = 0; i < 20; i++) {
        assert_memory_equal((const void *)(uintptr_t)kept[i].address, copies[i], (size_t)kept[i].size);
        coffer_memory_free(kept[i].memory);
        free(copies[i]);
    }
}

#define LEAF ((uintptr_t)2 << 20)
#define NEIGHBOURS 80

/* A model of small tensors, 8 MB of them. */
static coffer *open_sibling_files(image *made)
{
    static const char letters[] = "abcdefghijklmnop";
    tensor_spec specs[NEIGHBOURS];
    char names[NEIGHBOURS][4];
    coffer *model = NULL;
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        const char name[4] = { letters[i / 16], letters[i % 16], '\0', '\0' };
        memcpy(names[i], name, sizeof name);
        specs[i] = (tensor_spec){ names[i], COFFER_U8, 1, { 60000 + 1000 * i } };
    }
    *made = image_of(specs, NEIGHBOURS);
    assert_int_equal(coffer_open_memory(&model, made->bytes, made->size, NULL, NULL), COFFER_OK);
    return model;
}

/* Loads it, and keeps all tensors. They lie side by side, from the address that is returned on. */
static uintptr_t load_sibling_files(const coffer *model, coffer_loaded *kept)
{
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        kept[i] = next(load);
        begin = kept[i].address < begin ? (uintptr_t)kept[i].address : begin;
        end = kept[i].address + kept[i].size > end ? (uintptr_t)(kept[i].address + kept[i].size) : end;
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    assert_in_range(end - begin, 3 * LEAF, 6 * LEAF);
    return begin;
}

static bool reaches_into(const coffer_loaded *loaded, uintptr_t leaf)
{
    return loaded->memory != NULL && loaded->address / LEAF <= leaf &&
           (loaded->address + loaded->size - 1) / LEAF >= leaf;
}

/* Whether any page of a leaf is in memory. */
static bool leaf_is_there(uintptr_t leaf)
{
    unsigned char pages[LEAF / 4096];
    bool there = false;
    memset(pages, 0, sizeof pages);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
    assert_int_equal(mincore((void *)(leaf * LEAF), LEAF, (void *)pages), 0);
    for (size_t i = 0; i < sizeof pages; i++) {
        there = there || (pages[i] & 1) != 0;
    }
    return there;
}

/* Tensors that lie side by side share huge pages. Each of these goes back to the system with the last tensor in it,
   and the neighbours keep every byte. */
static void test_memory_goes_back_by_huge_pages(void **state)
{
    (void)state;
    image made;
    coffer_loaded kept[NEIGHBOURS];
    coffer *model = open_sibling_files(&made);
    const uintptr_t leaf = load_sibling_files(model, kept) / LEAF + 1; /* tensors fill it */
    assert_true(leaf_is_there(leaf));
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        if (reaches_into(&kept[i], leaf)) {
            coffer_memory_free(kept[i].memory);
            kept[i].memory = NULL;
        }
    }
    assert_false(leaf_is_there(leaf));
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        if (kept[i].memory != NULL) {
            assert_is_tensor(model, &kept[i]);
            coffer_memory_free(kept[i].memory);
        }
    }
    coffer_close(model);
    image_free(&made);
}

/* Whatever the order in which they go. */
static void test_neighbours_go_in_any_order(void **state)
{
    (void)state;
    dice of = { 13 };
    image made;
    coffer_loaded kept[NEIGHBOURS];
    coffer *model = open_sibling_files(&made);
    (void)load_sibling_files(model, kept);
    for (size_t left = NEIGHBOURS; left > 0; left--) {
        const size_t gone = (size_t)dice_below(&of, left);
        assert_is_tensor(model, &kept[gone]);
        coffer_memory_free(kept[gone].memory);
        kept[gone] = kept[left - 1];
    }
    coffer_close(model);
    image_free(&made);
}

static void test_items_are_taken_by_number_once(void **state)
{
    (void)state;
    dice of = { 3 };
    coffer_loaded loaded;
    coffer_error err;
    coffer *model = random_model(&of, 30, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    assert_int_equal(coffer_load_take(load, 29, UINT64_MAX, &loaded, NULL), COFFER_OK);
    assert_int_equal(loaded.item, 29);
    assert_is_tensor(model, &loaded);
    coffer_memory_free(loaded.memory);
    assert_int_equal(coffer_load_take(load, 29, UINT64_MAX, &loaded, &err), COFFER_ERR_TAKEN);
    assert_string_not_equal(err.tensor, "");
    assert_int_equal(coffer_load_take(load, 30, UINT64_MAX, &loaded, &err), COFFER_ERR_ARGUMENT);
    size_t rest = 0;
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_int_not_equal(loaded.item, 29);
        coffer_memory_free(loaded.memory);
        rest++;
    }
    assert_int_equal(rest, 29);
    assert_int_equal(coffer_load_take(load, 3, 0, &loaded, NULL), COFFER_ERR_TAKEN);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
}

static void test_waiting_hands_nothing_out(void **state)
{
    (void)state;
    dice of = { 4 };
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer *model = random_model(&of, 30, 1 << 20, 4 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, NULL), COFFER_OK);
    coffer_load_stats_of(load, &stats);
    assert_int_equal(stats.done, stats.wanted);
    assert_true(stats.read >= stats.wanted && stats.requests > 0 && stats.first > 0);
    assert_true(stats.first <= stats.nanoseconds && stats.threads >= 1);
    size_t count = 0;
    for (coffer_loaded loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        coffer_memory_free(loaded.memory);
        count++;
    }
    assert_int_equal(count, 30);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* ---- budgets ----------------------------------------------------------------------------------------------------- */

static void test_a_budget_makes_the_load_wait_for_its_caller(void **state)
{
    (void)state;
    dice of = { 5 };
    coffer_error err;
    coffer_loaded loaded;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer *model = random_model(&of, 40, 1 << 20, 4 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    uint64_t largest = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        largest = coffer_at(model, i)->size > largest ? coffer_at(model, i)->size : largest;
    }
    options.host_budget = largest - 1;
    coffer_load *load = NULL;
    assert_int_equal(coffer_load_start(&load, plan, NULL, &options, &err), COFFER_ERR_BUDGET);
    assert_int_equal(err.expected, largest);
    options.host_budget = largest;
    load = start(plan, NULL, &options);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_ERR_BUDGET);
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_is_tensor(model, &loaded);
        coffer_memory_free(loaded.memory);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* A load of so many tensors of 3,000,000 bytes, from memory, under a budget, that has come as far as it goes by itself.
   */
typedef struct tight_load {
    image made;
    coffer *model;
    coffer_plan *plan;
    coffer_load *load;
} tight_load;

static tight_load tight_begin(size_t count, uint64_t budget)
{
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 3000000 } },
                                         { "b", COFFER_U8, 1, { 3000000 } },
                                         { "c", COFFER_U8, 1, { 3000000 } },
                                         { "d", COFFER_U8, 1, { 3000000 } } };
    tight_load tight = { .made = image_of(specs, count) };
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    assert_int_equal(coffer_open_memory(&tight.model, tight.made.bytes, tight.made.size, NULL, NULL), COFFER_OK);
    tight.plan = plan_of(tight.model);
    options.host_budget = budget;
    tight.load = start(tight.plan, NULL, &options);
    assert_int_equal(coffer_load_wait(tight.load, UINT64_MAX, NULL), COFFER_ERR_BUDGET);
    return tight;
}

static void tight_end(tight_load *tight)
{
    coffer_load_free(tight->load);
    coffer_plan_free(tight->plan);
    coffer_close(tight->model);
    image_free(&tight->made);
}

/* The second item has to wait until the first was handed out: whoever asks for it before is told so. */
static void test_an_item_behind_a_full_budget_is_an_error(void **state)
{
    (void)state;
    coffer_error err;
    coffer_loaded loaded;
    tight_load tight = tight_begin(2, 4000000);
    assert_int_equal(coffer_load_take(tight.load, 1, UINT64_MAX, &loaded, &err), COFFER_ERR_BUDGET);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer_load_take(tight.load, i, UINT64_MAX, &loaded, &err), COFFER_OK);
        assert_is_tensor(tight.model, &loaded);
        coffer_memory_free(loaded.memory);
    }
    assert_int_equal(coffer_load_wait(tight.load, UINT64_MAX, &err), COFFER_OK);
    tight_end(&tight);
}

/* Asking again and again for one item does not take the places of others: each that is asked for comes before the rest.
   */
static void test_what_is_asked_for_comes_next(void **state)
{
    (void)state;
    coffer_error err;
    coffer_loaded loaded;
    tight_load tight = tight_begin(4, 3000000);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(coffer_load_take(tight.load, 2, UINT64_MAX, &loaded, &err), COFFER_ERR_BUDGET);
    }
    assert_int_equal(coffer_load_take(tight.load, 3, UINT64_MAX, &loaded, &err), COFFER_ERR_BUDGET);
    static const size_t expected[] = { 0, 2, 3, 1, SIZE_MAX };
    for (size_t i = 0; i < 5; i++) {
        loaded = next(tight.load);
        assert_int_equal(loaded.item, expected[i]);
        coffer_memory_free(loaded.memory);
    }
    tight_end(&tight);
}

/* Asks between two chunks, by the load's own thread, whether the load waits for its caller. */
typedef struct between_chunks {
    _Atomic(coffer_load *) load;
    uint64_t until; /* bytes that fit into the budget */
    atomic_bool asked;
    atomic_int answer;
} between_chunks;

static int ask_between_chunks(void *ctx, uint64_t done, uint64_t total)
{
    between_chunks *of = ctx;
    (void)total;
    if (done == 0 || done >= of->until || atomic_load(&of->asked)) {
        return 0;
    }
    while (atomic_load(&of->load) == NULL) {
        (void)usleep(1000);
    }
    atomic_store(&of->answer, (int)coffer_load_wait(atomic_load(&of->load), 0, NULL));
    atomic_store(&of->asked, true);
    return 0;
}

static void add_range(coffer_plan *plan, const coffer_tensor *tensor, int64_t begin, int64_t end)
{
    const coffer_index range = {
        .kind = COFFER_INDEX_RANGE, .has_start = true, .has_stop = true, .start = begin, .stop = end, .step = 1
    };
    assert_int_equal(coffer_plan_add(plan, tensor, &range, 1, NULL, NULL, NULL), COFFER_OK);
}

/* Three slices of a tensor begin in its first cell, and the third does not fit beside the others. With one slot nothing
   is in progress between two chunks of the first; but it is not the caller that the load waits for then. */
static void test_a_refused_item_is_not_what_a_begun_one_waits_for(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 9000000 } } };
    image made = image_of(specs, 1);
    coffer *model = NULL;
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    between_chunks of = { .until = 8000000 + 100 };
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    add_range(plan, coffer_at(model, 0), 0, 8000000);
    add_range(plan, coffer_at(model, 0), 1, 101);
    add_range(plan, coffer_at(model, 0), 2, 3000000);
    how.memory = 1;
    how.threads = 1;
    options.host_budget = of.until;
    options.progress = ask_between_chunks;
    options.progress_ctx = &of;
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    coffer_load *load = start(plan, staging, &options);
    atomic_store(&of.load, load);
    while (!atomic_load(&of.asked)) {
        (void)usleep(1000); /* what is handed out before would make space */
    }
    assert_int_equal(atomic_load(&of.answer), COFFER_NEED_MORE);
    size_t count = 0;
    for (coffer_loaded loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        coffer_memory_free(loaded.memory);
        count++;
    }
    assert_int_equal(count, 3);
    coffer_load_free(load);
    coffer_staging_free(staging);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&made);
}

/* ---- staging buffers and threads --------------------------------------------------------------------------------- */

/* What is little is read at once, by the caller's thread. That must not wait for a staging buffer whose load waits for
   the caller. */
static void test_a_small_load_waits_for_its_staging_buffer_in_the_background(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 3000000 } },
                                         { "b", COFFER_U8, 1, { 3000000 } },
                                         { "c", COFFER_U8, 1, { 10 } } };
    image made = image_of(specs, 3);
    coffer_error err;
    coffer_loaded loaded;
    coffer *model = NULL;
    coffer_plan *little = NULL;
    coffer_staging *staging = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_staging_new(&staging, NULL, NULL), COFFER_OK);
    coffer_plan *plan = plan_of(model);
    assert_int_equal(coffer_plan_new(&little, model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add(little, coffer_find(model, "c", 1), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    options.host_budget = 3000000;
    coffer_load *load = start(plan, staging, &options);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_ERR_BUDGET);
    coffer_load *other = start(little, staging, NULL);
    assert_int_equal(coffer_load_next(other, 0, &loaded, &err), COFFER_NEED_MORE);
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        coffer_memory_free(loaded.memory);
    }
    coffer_load_free(load);
    loaded = next(other);
    assert_is_tensor(model, &loaded);
    coffer_memory_free(loaded.memory);
    coffer_load_free(other);
    coffer_staging_free(staging);
    coffer_plan_free(little);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&made);
}

/* The files are shorter than a cell, so each of them is one. */
static void test_small_files_are_read_by_several_threads(void **state)
{
    (void)state;
    dice of = { 9 };
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_staging *staging = NULL;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer *model = random_model(&of, 60, 1 << 20, 1 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    how.threads = 4;
    assert_true(coffer_shard_count(model) > 4);
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    coffer_load *load = start(plan, staging, NULL);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, NULL), COFFER_OK);
    coffer_load_stats_of(load, &stats);
    assert_int_equal(stats.threads, 4);
    assert_true(stats.done == stats.wanted);
    coffer_load_free(load);
    coffer_staging_free(staging);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* ---- partly in the page cache ------------------------------------------------------------------------------------ */

#define HALVES 8
#define HALVES_SIZE (4 << 20)

/* A model of tensors of 4 MiB, saved, and old enough for its times to tell of the next change. */
static coffer *model_of_halves(void)
{
    char names[HALVES][2] = { { '\0' } };
    tensor_spec specs[HALVES];
    coffer *model = NULL;
    for (int i = 0; i < HALVES; i++) {
        names[i][0] = (char)('a' + i);
        specs[i] = (tensor_spec){ names[i], COFFER_U8, 1, { HALVES_SIZE } };
    }
    image bytes = image_of(specs, HALVES);
    file_write("model", bytes.bytes, bytes.size);
    image_free(&bytes);
    coffer__os_sleep(50);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    return model;
}

/* Leaves one half of the file in the page cache, and the other on the disk alone. False where the system cannot. */
static bool leave_half(bool second, size_t size)
{
    const size_t middle = size / 2 / 4096 * 4096;
    uint8_t *buffer = malloc(middle + 4096);
    bool kept = false;
    bool gone = true;
    int fd = -1;
    size_t got = 0;
    assert_non_null(buffer);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_EDIT, true, &fd), 0);
    assert_int_equal(coffer__os_sync(fd), 0);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* nothing is read ahead */
    assert_int_equal(coffer__os_read_at(fd, second ? middle : 0, buffer, middle, &got), 0);
    const bool known = coffer__os_is_cached(fd, second ? size - 1 : 0, &kept) == 0 &&
                       coffer__os_is_cached(fd, second ? 0 : size - 1, &gone) == 0;
    const bool local = coffer__os_storage_of(fd) == COFFER__OS_LOCAL;
    (void)coffer__os_close(fd);
    free(buffer);
    return known && local && kept && !gone;
}

/* Whether the page cache gave one part of what was loaded, and the disk, past it, the other. */
static bool came_from_both(coffer_load *load)
{
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_load_stats_of(load, &stats);
    return stats.cached > 0 && stats.direct > 0;
}

/* Loads what is half cached with one slot, so that the order is certain, or with as many as the staging buffer has. */
static void load_half(const coffer *model, bool second, bool one_slot, uint64_t host_budget)
{
    coffer_staging *staging = NULL;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_plan *plan = plan_of(model);
    size_t first = SIZE_MAX;
    how.memory = one_slot ? 1 : 0;
    how.threads = one_slot ? 1 : 0;
    options.host_budget = host_budget;
    const bool left = leave_half(second, (size_t)look("model").st_size);
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    coffer_load *load = start(plan, staging, &options);
    for (size_t i = 0; i < HALVES; i++) {
        const coffer_loaded loaded = next(load);
        first = i == 0 ? loaded.item : first;
        assert_is_tensor(model, &loaded);
        coffer_memory_free(loaded.memory);
    }
    assert_true(next(load).item == SIZE_MAX);
    if (left && came_from_both(load) && one_slot && host_budget == 0) {
        assert_int_equal(first, second ? 0 : HALVES / 2);
    }
    coffer_load_free(load);
    coffer_staging_free(staging);
    coffer_plan_free(plan);
}

/* The disk is at work from the beginning on, whichever half is in the page cache: the first tensor that it has to bring
   does not wait for those that are cached. A budget that lets in one tensor at a time leaves nothing behind. */
static void test_the_disk_does_not_wait_for_what_is_cached(void **state)
{
    (void)state;
    coffer *model = model_of_halves();
    for (unsigned round = 0; round < 8; round++) {
        load_half(model, (round & 1) != 0, (round & 2) != 0, (round & 4) != 0 ? HALVES_SIZE : 0);
    }
    coffer_close(model);
}

/* In a child, whose user may have no more threads. */
static int load_without_threads(void *ctx)
{
    const coffer_plan *plan = ctx;
    const struct rlimit none = { 0, 0 };
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_load *load = NULL;
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))) {
        return 2;
    }
    if (coffer_load_start(&load, plan, NULL, NULL, NULL) != COFFER_OK || coffer_load_wait(load, 0, NULL) != COFFER_OK) {
        return 3;
    }
    coffer_load_stats_of(load, &stats);
    coffer_load_free(load);
    options.host_budget = 3000000;
    const coffer_status status = coffer_load_start(&load, plan, NULL, &options, NULL);
    return stats.threads == 1 && stats.done == stats.wanted && status == COFFER_ERR_IO ? 0 : 4;
}

/* The caller's thread then reads it all, unless a budget would make it wait for itself. */
static void test_a_load_without_threads(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 3000000 } }, { "b", COFFER_U8, 1, { 3000000 } } };
    image made = image_of(specs, 2);
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    coffer_plan *plan = plan_of(model);
    assert_int_equal(child_run(load_without_threads, plan), 0);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&made);
}

/* What a load says of little, which is read at once. */
static void test_a_small_load_counts(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 10 } } };
    image made = image_of(specs, 1);
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    coffer_load_stats_of(load, &stats);
    assert_int_equal(stats.threads, 1);
    assert_int_equal(stats.done, 10);
    assert_int_equal(stats.read, 10);
    assert_int_equal(stats.requests, 1);
    const uint64_t took = stats.nanoseconds;
    coffer_load_cancel(load);
    coffer_load_stats_of(load, &stats);
    assert_true(took > 0 && stats.nanoseconds == took); /* it was over before */
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&made);
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* A model of tensors of several cells with digests, in which one byte of one tensor is another, if `damaged` is
   below its count. */
static coffer *digested_model(size_t damaged)
{
    dice of = { 6 };
    coffer *model = random_model(&of, 12, 40 << 20, 0, some_algorithm(), NULL);
    if (damaged < coffer_count(model)) {
        size_t size = 0;
        uint8_t *bytes = file_read("model.safetensors", &size);
        const coffer_tensor *tensor = coffer_at(model, damaged);
        bytes[tensor->offset + tensor->size / 2] ^= 1;
        coffer_close(model);
        file_write("model.safetensors", bytes, size);
        free(bytes);
        assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    }
    return model;
}

/* The tensor with the most bytes. */
static size_t largest_of(const coffer *model)
{
    size_t largest = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        largest = coffer_at(model, i)->size > coffer_at(model, largest)->size ? i : largest;
    }
    return largest;
}

static void test_whole_tensors_are_verified_on_the_way(void **state)
{
    (void)state;
    coffer_loaded loaded;
    coffer *model = digested_model(SIZE_MAX);
    coffer_plan *plan = plan_of(model);
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    for (int unverified = 0; unverified < 2; unverified++) {
        options.unverified = unverified == 1;
        coffer_load *load = start(plan, NULL, &options);
        for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
            assert_true(loaded.verified == (unverified == 0));
            assert_is_tensor(model, &loaded);
            coffer_memory_free(loaded.memory);
        }
        coffer_load_free(load);
    }
    coffer_plan_free(plan);
    coffer_close(model);
}

/* A damaged tensor is not handed out. To a place with gaps it comes through slots, and is hashed there. */
static void test_damage_is_found_before_anything_is_handed_out(void **state)
{
    (void)state;
    coffer *model = digested_model(SIZE_MAX);
    const size_t damaged = largest_of(model);
    coffer_close(model);
    work_dir_remove();
    work_dir_make();
    model = digested_model(damaged);
    const coffer_tensor *tensor = coffer_at(model, damaged);
    uint8_t *memory = malloc((size_t)tensor->size * 2);
    int64_t strides[4];
    assert_non_null(memory);
    assert_true(tensor->size > 5 << 20);
    for (int strided = 0; strided < 2; strided++) {
        coffer_error err;
        coffer_loaded loaded;
        coffer_plan *plan = NULL;
        coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
        int64_t stride = 2 * (int64_t)(coffer_dtype_bits(tensor->dtype) / 8);
        for (size_t d = tensor->rank; d > 0; d--) {
            strides[d - 1] = stride;
            stride *= (int64_t)tensor->shape[d - 1];
        }
        const coffer_destination place = { .address = (uintptr_t)memory, .size = tensor->size * 2, .strides = strides };
        assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_plan_add(plan, tensor, NULL, 0, strided == 1 ? &place : NULL, NULL, &err), COFFER_OK);
        coffer_load *load = start(plan, NULL, &options);
        assert_int_equal(coffer_load_next(load, UINT64_MAX, &loaded, &err), COFFER_ERR_TENSOR_DIGEST);
        assert_string_equal(err.tensor, tensor->name);
        assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_ERR_TENSOR_DIGEST);
        coffer_load_free(load);
        options.unverified = true;
        load = start(plan, NULL, &options);
        loaded = next(load);
        assert_false(loaded.verified);
        coffer_load_free(load);
        coffer_memory_free(loaded.memory);
        coffer_plan_free(plan);
    }
    free(memory);
    coffer_close(model);
}

/* ---- files that change ------------------------------------------------------------------------------------------- */

static coffer_status load_all(const coffer_plan *plan, coffer_error *err)
{
    coffer_load *load = NULL;
    coffer_status status = coffer_load_start(&load, plan, NULL, NULL, err);
    if (status == COFFER_OK) {
        status = coffer_load_wait(load, UINT64_MAX, err);
    }
    coffer_load_free(load);
    return status;
}

static void test_files_that_changed_are_refused(void **state)
{
    (void)state;
    coffer_error err;
    for (int kind = 0; kind < 3; kind++) {
        dice of = { 7 };
        size_t size = 0;
        coffer *model = random_model(&of, 12, 3 << 20, 0, COFFER_NO_ALGORITHM, NULL);
        coffer_plan *plan = plan_of(model);
        uint8_t *bytes = file_read("model.safetensors", &size);
        assert_int_equal(load_all(plan, &err), COFFER_OK);
        if (kind == 0) {
            assert_int_equal(truncate(work_path("model.safetensors"), (off_t)size / 2), 0);
        } else if (kind == 1) {
            file_write("other", bytes, size);
            assert_int_equal(rename(work_path("other"), work_path("model.safetensors")), 0);
        } else {
            bytes[size - 1] ^= 1;
            file_write("model.safetensors", bytes, size);
        }
        assert_int_equal(load_all(plan, &err), COFFER_ERR_CHANGED);
        assert_non_null(strstr(err.path, "model.safetensors"));
        coffer_plan_free(plan);
        coffer_close(model);
        free(bytes);
        work_dir_remove();
        work_dir_make();
    }
}

/* ---- the first tensor -------------------------------------------------------------------------------------------- */

/* A source that gives nothing from `limit` on until that rises. */
typedef struct gated_source {
    image bytes;
    atomic_uint limit;
} gated_source;

static coffer_status gated_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    gated_source *source = ctx;
    (void)err;
    while (offset >= atomic_load(&source->limit)) {
        (void)usleep(1000);
    }
    memcpy(buffer, source->bytes.bytes + offset, size);
    return COFFER_OK;
}

/* A tensor is handed out when at most three chunks after that of its last byte were read, and so it is with the first
   while all that follows is not there yet, however many threads read. */
static void test_the_first_tensor_does_not_wait_for_the_rest(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "first", COFFER_U8, 1, { 5000000 } },
                                         { "second", COFFER_U8, 1, { 30000000 } },
                                         { "third", COFFER_U8, 1, { 30000000 } } };
    gated_source source = { .bytes = image_of(specs, 3) };
    const coffer_source custom = { .read_at = gated_read, .ctx = &source, .size = source.bytes.size };
    coffer *model = NULL;
    atomic_store(&source.limit, UINT_MAX);
    assert_int_equal(coffer_open_source(&model, &custom, NULL, NULL), COFFER_OK);
    coffer_plan *plan = plan_of(model);
    const uint64_t end = coffer_at(model, 0)->offset + coffer_at(model, 0)->size;
    const uint64_t chunk = COFFER__CELL;
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        coffer_error err;
        coffer_loaded loaded;
        coffer_staging *staging = NULL;
        coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
        how.threads = threads;
        assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
        atomic_store(&source.limit, (unsigned)((end + chunk - 1) / chunk * chunk + 3 * chunk));
        coffer_load *load = start(plan, staging, NULL);
        const coffer_status status = coffer_load_next(load, LONG_ENOUGH, &loaded, &err);
        const coffer_status after = coffer_load_wait(load, 0, &err);
        atomic_store(&source.limit, UINT_MAX);
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(loaded.item, 0);
        assert_int_equal(after, COFFER_NEED_MORE);
        coffer_memory_free(loaded.memory);
        coffer_load_free(load);
        coffer_staging_free(staging);
    }
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&source.bytes);
}

/* ---- ending early ------------------------------------------------------------------------------------------------ */

/* A source that answers after a while, and may fail. */
typedef struct slow_source {
    image bytes;
    atomic_uint reads;
    unsigned fail_at; /* the number of the read that fails; 0: none does */
} slow_source;

static coffer_status slow_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    slow_source *source = ctx;
    const struct timespec moment = { 0, 1000000 };
    (void)err;
    nanosleep(&moment, NULL);
    if (++source->reads == source->fail_at) {
        return COFFER_ERR_IO;
    }
    memcpy(buffer, source->bytes.bytes + offset, size);
    return COFFER_OK;
}

static coffer *slow_model(slow_source *source)
{
    static const tensor_spec specs[] = { { "a", COFFER_U8, 2, { 3000, 1000 } },
                                         { "b", COFFER_F32, 2, { 300, 1000 } },
                                         { "c", COFFER_BF16, 1, { 4000000 } } };
    coffer *model = NULL;
    *source = (slow_source){ .bytes = image_of(specs, 3) };
    const coffer_source custom = { .read_at = slow_read, .ctx = source, .size = source->bytes.size };
    assert_int_equal(coffer_open_source(&model, &custom, NULL, NULL), COFFER_OK);
    source->reads = 0;
    return model;
}

static void test_a_load_is_cancelled(void **state)
{
    (void)state;
    slow_source source;
    coffer_error err;
    coffer_loaded loaded;
    coffer *model = slow_model(&source);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    coffer_load_cancel(load);
    assert_int_equal(coffer_load_next(load, UINT64_MAX, &loaded, &err), COFFER_ERR_CANCELLED);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&source.bytes);
}

/* Cancels after so many calls. */
static int count_down(void *ctx, uint64_t done, uint64_t total)
{
    unsigned *left = ctx;
    assert_true(done <= total);
    return *left == 0 || --*left == 0;
}

static void test_progress_is_told_and_cancels(void **state)
{
    (void)state;
    slow_source source;
    coffer_error err;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer_staging *staging = NULL;
    how.threads = 1; /* the one that calls: with others it depends on them how often it comes to that */
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    coffer *model = slow_model(&source);
    coffer_plan *plan = plan_of(model);
    for (unsigned calls = 1; calls < 4; calls++) {
        unsigned left = calls;
        options.progress = count_down;
        options.progress_ctx = &left;
        coffer_load *load = start(plan, staging, &options);
        const coffer_status status = coffer_load_wait(load, UINT64_MAX, &err);
        assert_true(status == COFFER_ERR_CANCELLED || status == COFFER_OK);
        coffer_load_free(load);
        assert_int_equal(left, 0);
    }
    coffer_staging_free(staging);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&source.bytes);
}

/* Where requests are slow and bytes fast, gaps are read that are worth leaving out elsewhere. The first chunks have a
   request for each row of the slice; then the load has learnt, and reads a cell by one. */
static void test_gaps_are_read_where_requests_are_slow(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 2, { 600, 40000 } } }; /* 12 cells */
    const coffer_index slice[] = { { COFFER_INDEX_RANGE, false, false, 0, 0, 1 },
                                   { COFFER_INDEX_RANGE, true, true, 100, 4100, 1 } };
    slow_source source = { .bytes = image_of(specs, 1) };
    const coffer_source custom = { .read_at = slow_read, .ctx = &source, .size = source.bytes.size };
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_plan_cost cost = { .struct_size = sizeof cost };
    coffer *model = NULL;
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    how.threads = 1;
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    assert_int_equal(coffer_open_source(&model, &custom, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add(plan, coffer_at(model, 0), slice, 2, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_cost_of(plan, SIZE_MAX, &cost, NULL), COFFER_OK);
    assert_int_equal(cost.requests, 600);
    coffer_load *load = start(plan, staging, NULL);
    const coffer_loaded loaded = next(load);
    for (size_t i = 0; i < 600; i++) {
        const uint8_t *row = source.bytes.bytes + source.bytes.data_offset + i * 40000 + 100;
        assert_memory_equal((const void *)(uintptr_t)(loaded.address + i * 4000), row, 4000);
    }
    coffer_load_stats_of(load, &stats);
    assert_in_range(stats.requests, 12, 300);
    assert_true(stats.read > cost.read);
    coffer_memory_free(loaded.memory);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    coffer_close(model);
    image_free(&source.bytes);
}

static void test_every_read_fails_once(void **state)
{
    (void)state;
    slow_source source;
    coffer_error err;
    coffer *model = slow_model(&source);
    coffer_plan *plan = plan_of(model);
    coffer_status status = COFFER_ERR_IO;
    for (unsigned i = 1; status != COFFER_OK; i++) {
        assert_true(i < 100);
        source.reads = 0;
        source.fail_at = i;
        status = load_all(plan, &err);
        assert_true(status == COFFER_OK || status == COFFER_ERR_IO);
    }
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&source.bytes);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    memory_meter meter;
    coffer_error err;
    const coffer_allocator allocator = metered_allocator(&meter);
    dice of = { 8 };
    coffer *model = random_model(&of, 12, 1 << 20, 1 << 20, some_algorithm(), NULL);
    bool over = false;
    for (size_t i = 1; !over; i++) {
        coffer_plan *plan = NULL;
        meter.requests = 0;
        meter.fail_at = i;
        coffer_status status = coffer_plan_new(&plan, model, &allocator, &err);
        for (size_t k = 0; status == COFFER_OK && k < coffer_count(model); k++) {
            const coffer_tensor *tensor = coffer_at(model, k);
            const coffer_index half = { COFFER_INDEX_RANGE, true, false, 1, 0, 2 };
            status = coffer_plan_add(plan, tensor, &half, k % 3 == 0 && tensor->rank > 1 ? 1 : 0, NULL, NULL, &err);
        }
        status = status == COFFER_OK ? load_all(plan, &err) : status;
        if (status != COFFER_OK && status != COFFER_ERR_MEMORY) {
            fail_msg("%s", err.message);
        }
        over = status == COFFER_OK && meter.requests < i;
        coffer_plan_free(plan);
        assert_int_equal(meter.blocks, 0);
    }
    coffer_close(model);
}

/* ---- any plan ---------------------------------------------------------------------------------------------------- */

static void fulfil(wish *wishes, size_t count, coffer_plan *plan, coffer_staging *staging,
                   const coffer_load_options *options, dice *of)
{
    size_t fulfilled = 0;
    coffer_loaded loaded;
    coffer_load *load = NULL;
    coffer_error err;
    const coffer_status status = coffer_load_start(&load, plan, staging, options, &err);
    if (status == COFFER_ERR_ENGINE) {
        load = start(plan, NULL, options); /* this system does not have it, and says so before anything is read */
    } else if (status != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    if (options->host_budget == 0 && dice_below(of, 2) == 0) {
        assert_int_equal(coffer_load_take(load, (size_t)dice_below(of, count), UINT64_MAX, &loaded, NULL), COFFER_OK);
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
        fulfilled++;
    }
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
        fulfilled++;
    }
    assert_int_equal(fulfilled, count);
    coffer_load_free(load);
}

static void random_round(uint64_t seed)
{
    static const coffer_engine engines[] = { COFFER_ENGINE_AUTO, COFFER_ENGINE_BUFFERED, COFFER_ENGINE_DIRECT,
                                             COFFER_ENGINE_RING, COFFER_ENGINE_MAPPED };
    dice of = { seed };
    coffer_staging *staging = NULL;
    wish wishes[MAX_WISHES];
    uint64_t largest = 0;
    coffer_plan *plan = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    const size_t count = 1 + (size_t)dice_below(&of, MAX_WISHES);
    coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
    opening.verify = dice_below(&of, 4) == 0 ? COFFER_VERIFY_RECORDED : COFFER_VERIFY_NOTHING;
    const size_t tensors = 1 + (size_t)dice_below(&of, 12);
    const uint64_t size = (uint64_t)1 << (4 + dice_below(&of, 20));
    const uint64_t limit = dice_below(&of, 2) == 0 ? 0 : 1 << 20;
    coffer *model = random_model(&of, tensors, size, limit,
                                 dice_below(&of, 2) == 0 ? COFFER_NO_ALGORITHM : some_algorithm(), &opening);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        wishes[i] = random_wish(&of, plan, model);
        largest = wishes[i].size > largest ? wishes[i].size : largest;
    }
    how.memory = dice_below(&of, 2) == 0 ? 1 : 0;
    how.threads = (uint32_t)dice_below(&of, 5);
    how.engine = engines[dice_below(&of, sizeof engines / sizeof engines[0])];
    options.uncached = dice_below(&of, 4) == 0;
    options.host_budget = dice_below(&of, 3) == 0 ? largest + dice_below(&of, 2 * largest + 1) : 0;
    options.order = dice_below(&of, 2) == 0 ? COFFER_ORDER_FILE : COFFER_ORDER_PLAN;
    assert_int_equal(coffer_staging_new(&staging, &how, NULL), COFFER_OK);
    fulfil(wishes, count, plan, staging, &options, &of);
    coffer_staging_free(staging);
    coffer_plan_free(plan);
    coffer_close(model);
    for (size_t i = 0; i < count; i++) {
        wish_free(&wishes[i]);
    }
    work_dir_remove();
    work_dir_make();
}

static void test_any_plan_gives_the_bytes_of_a_naive_reader(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 200; seed++) {
        random_round(seed);
    }
}

int main(void)
{
    (void)alarm(WHOLE_TEST_S);
#define LOAD_TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        LOAD_TEST(test_every_tensor_is_handed_out_once),
        LOAD_TEST(test_memory_owns_itself),
        LOAD_TEST(test_memory_goes_back_by_huge_pages),
        LOAD_TEST(test_neighbours_go_in_any_order),
        LOAD_TEST(test_items_are_taken_by_number_once),
        LOAD_TEST(test_waiting_hands_nothing_out),
        LOAD_TEST(test_a_budget_makes_the_load_wait_for_its_caller),
        LOAD_TEST(test_an_item_behind_a_full_budget_is_an_error),
        LOAD_TEST(test_what_is_asked_for_comes_next),
        LOAD_TEST(test_a_refused_item_is_not_what_a_begun_one_waits_for),
        LOAD_TEST(test_a_small_load_waits_for_its_staging_buffer_in_the_background),
        LOAD_TEST(test_small_files_are_read_by_several_threads),
        LOAD_TEST(test_the_disk_does_not_wait_for_what_is_cached),
        LOAD_TEST(test_a_load_without_threads),
        LOAD_TEST(test_a_small_load_counts),
        LOAD_TEST(test_whole_tensors_are_verified_on_the_way),
        LOAD_TEST(test_damage_is_found_before_anything_is_handed_out),
        LOAD_TEST(test_files_that_changed_are_refused),
        LOAD_TEST(test_the_first_tensor_does_not_wait_for_the_rest),
        LOAD_TEST(test_a_load_is_cancelled),
        LOAD_TEST(test_progress_is_told_and_cancels),
        LOAD_TEST(test_gaps_are_read_where_requests_are_slow),
        LOAD_TEST(test_every_read_fails_once),
        LOAD_TEST(test_every_allocation_fails_once),
        LOAD_TEST(test_any_plan_gives_the_bytes_of_a_naive_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
