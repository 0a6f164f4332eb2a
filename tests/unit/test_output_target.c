/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output targets. The one here stands for a device: it has little memory of its own to put bytes together in, keeps what it gave until the
 * next time, and what it holds is not in the program's memory as it came. That it is made here, with nothing but output target.h, shows that
 * a new output target touches no executor. Then rows of all kinds come down on it and in sinks.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "output_target.h"
#include "sink.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

#define STORE 60000u
#define SLOT 1000u

/* ---- an output target ----------------------------------------------------------------------------------------------------- */

typedef struct device {
    coffer__output_target output_target;
    uint8_t slots[2][SLOT];
    size_t slot;     /* that was given last */
    uint8_t *holds;  /* every byte turned around */
    uint8_t *counts; /* how often it came */
    uint64_t next;   /* where the next byte has to come, in order */
    uint64_t pieces;
    uint64_t fail_at; /* the piece that fails; 0: none */
} device;

static coffer_status device_place(coffer__output_target *output_target, size_t size, uint8_t **memory,
                                  coffer_error *err)
{
    (void)err;
    device *d = output_target->state;
    assert_true(size > 0 && size <= SLOT);
    d->slot = 1 - d->slot;
    memset(d->slots[d->slot], 0, SLOT);
    *memory = d->slots[d->slot];
    return COFFER_OK;
}

static coffer_status device_landed(coffer__output_target *output_target, uint64_t at, const uint8_t *bytes, size_t size,
                                   coffer_error *err)
{
    device *d = output_target->state;
    const uint8_t *slot = d->slots[d->slot];
    assert_true(bytes >= slot && size <= SLOT && (size_t)(bytes - slot) <= SLOT - size && at + size <= STORE);
    assert_true(!output_target->in_order || at == d->next);
    d->next = at + size;
    for (size_t i = 0; i < size; i++) {
        d->holds[at + i] = (uint8_t)~bytes[i];
        d->counts[at + i]++;
    }
    if (++d->pieces == d->fail_at) {
        memset(err, 0, sizeof *err);
        err->code = COFFER_ERR_IO;
        return COFFER_ERR_IO;
    }
    return COFFER_OK;
}

static void device_begin(device *d, bool in_order)
{
    static const coffer__output_target_ops ops = { device_place, device_landed, NULL };
    *d = (device){ .output_target = { .ops = &ops, .most = SLOT, .in_order = in_order, .state = d } };
    d->holds = calloc(1, STORE);
    d->counts = calloc(1, STORE);
    assert_true(d->holds != NULL && d->counts != NULL);
}

static void device_end(device *d)
{
    free(d->holds);
    free(d->counts);
}

/* ---- rows of all kinds ----------------------------------------------------------------------------------------------- */

#define ROWS 6u

typedef struct plan {
    uint8_t *bytes;
    coffer__byte_source source;
    coffer__box boxes[4];
    coffer__transfer_op rows[ROWS];
    uint64_t size;
    uint8_t *wanted;
} plan;

static void plan_add(plan *p, size_t i, const coffer__box *box, uint64_t offset, uint64_t size)
{
    p->rows[i] =
        (coffer__transfer_op){ .source = &p->source, .offset = offset, .box = box, .size = size, .at = p->size };
    if (box == NULL) {
        memcpy(p->wanted + p->size, p->bytes + offset, (size_t)size);
    } else {
        for (uint64_t k = 0; k < box->run_count; k++) {
            memcpy(p->wanted + p->size + k * box->run_size, p->bytes + offset + coffer__box_run(box, k),
                   (size_t)box->run_size);
        }
    }
    p->size += size;
}

static uint64_t plan_box(plan *p, size_t i, uint64_t item, uint64_t n, uint64_t m, int64_t along_n, int64_t along_m)
{
    const uint64_t sizes[] = { n, m };
    const int64_t strides[] = { along_n, along_m };
    const coffer__strided view = { 0, item, 2, sizes, strides };
    assert_int_equal(coffer__box_from_strides(&p->boxes[i], &view, STORE, NULL), COFFER_OK);
    return item * n * m;
}

/* Short and long ones, a small box, a transpose that is larger than a slot, one with runs that are, and one that repeats. */
static void plan_begin(plan *p)
{
    *p = (plan){ .bytes = malloc(STORE), .wanted = calloc(1, STORE) };
    assert_true(p->bytes != NULL && p->wanted != NULL);
    for (size_t i = 0; i < STORE; i++) {
        p->bytes[i] = (uint8_t)(i * 167 + (i >> 8) * 13);
    }
    coffer__source_memory(&p->source, p->bytes, STORE);
    plan_add(p, 0, NULL, 7, 300);
    plan_add(p, 1, NULL, 5000, 4321);
    plan_add(p, 2, &p->boxes[0], 100, plan_box(p, 0, 4, 5, 7, 4, 40));
    plan_add(p, 3, &p->boxes[1], 0, plan_box(p, 1, 4, 90, 70, 4, 400));
    plan_add(p, 4, &p->boxes[2], 16, plan_box(p, 2, 1500, 3, 1, 2000, 0));
    plan_add(p, 5, &p->boxes[3], 33, plan_box(p, 3, 2, 11, 200, 20, 0));
    assert_true(p->size <= STORE);
}

static void plan_end(plan *p)
{
    free(p->bytes);
    free(p->wanted);
}

static void land_on_device(bool in_order, const coffer__tile_limits *tiles, uint64_t *pieces)
{
    plan p;
    device d;
    size_t failed = ROWS;
    const coffer__transfer_options options = {
        .allocator = coffer_libc_allocator(), .threads = 2, .tiles = tiles, .failed = &failed
    };
    plan_begin(&p);
    device_begin(&d, in_order);
    assert_int_equal(coffer__land(&d.output_target, p.rows, ROWS, &options, NULL), COFFER_OK);
    for (uint64_t i = 0; i < p.size; i++) {
        assert_int_equal(d.counts[i], 1);
        assert_int_equal((uint8_t)~d.holds[i], p.wanted[i]);
    }
    *pieces = d.pieces;
    device_end(&d);
    plan_end(&p);
}

static void a_device_of_its_own(void **state)
{
    (void)state;
    const coffer__tile_limits tiles = { 800, 40, 40, 0 };
    uint64_t in_order = 0;
    uint64_t anywhere = 0;
    land_on_device(true, NULL, &in_order);
    land_on_device(true, &tiles, &in_order);
    land_on_device(false, NULL, &anywhere);
    land_on_device(false, &tiles, &anywhere);
    /* Tiles have many ends, and bands few. */
    assert_true(anywhere > in_order);
}

static void failures_of_a_output_target(void **state)
{
    (void)state;
    for (uint64_t fail_at = 1; fail_at < 40; fail_at += 6) {
        plan p;
        device d;
        coffer_error err;
        const coffer__transfer_options options = { .allocator = coffer_libc_allocator() };
        plan_begin(&p);
        device_begin(&d, fail_at % 4 == 1);
        d.fail_at = fail_at;
        assert_int_equal(coffer__land(&d.output_target, p.rows, ROWS, &options, &err), COFFER_ERR_IO);
        assert_int_equal(err.code, COFFER_ERR_IO);
        assert_int_equal(d.pieces, fail_at);
        device_end(&d);
        plan_end(&p);
    }
}

/* ---- sinks --------------------------------------------------------------------------------------------------------- */

static void in_a_sink(void **state)
{
    (void)state;
    const coffer__tile_limits tiles[] = { { 800, 40, 40, 0 }, { 1 << 20, 4096, 4096, 64 } };
    for (size_t i = 0; i < 3; i++) {
        plan p;
        coffer__byte_sink sink;
        const coffer__transfer_options options = { .allocator = coffer_libc_allocator(),
                                                   .tiles = i < 2 ? &tiles[i] : NULL };
        plan_begin(&p);
        uint8_t *got = calloc(1, (size_t)p.size);
        assert_non_null(got);
        assert_int_equal(coffer__sink_memory(&sink, coffer_libc_allocator(), got, (size_t)p.size, NULL), COFFER_OK);
        assert_int_equal(sink.ops->reserve(&sink, p.size, NULL), COFFER_OK);
        assert_int_equal(coffer__land_in_sink(&sink, p.rows, ROWS, &options, NULL), COFFER_OK);
        assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
        assert_memory_equal(got, p.wanted, (size_t)p.size);
        free(got);
        plan_end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_of_its_own),
        cmocka_unit_test(failures_of_a_output_target),
        cmocka_unit_test(in_a_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
