/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of a model that is in the page cache, GPT-2's 160 tensors: beside merely looking at every byte with every processor,
 * from a fresh map and by reads into a small buffer; beside one processor; and beside sha256sum and xxhsum of the file, which do
 * the same work as verifying it. Last, what verifying costs while the model is loaded: beside loading it and hashing it.
 */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)1 << 20)
#define MAX_THREADS 16u

typedef struct hash_job {
    const char *path;
    size_t size; /* of the file */
    coffer_algorithm algorithm;
    uint32_t threads; /* as in coffer_read_options */
    bool by_reads;    /* of the floor: pread instead of a map */
} hash_job;

/* ---- ours -------------------------------------------------------------------------------------------------------- */

static coffer *open_model(const hash_job *job, coffer_verifying verify)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = verify;
    bench_check(coffer_open(&model, job->path, &options, &err), &err);
    return model;
}

/* What is measured of a model that was just opened. */
typedef coffer_status (*hash_work)(coffer *model, const hash_job *job, const coffer_digest_options *options,
                                   coffer_error *err);

/* Opening is a part of it, so that every run begins without a map. */
static double run(const hash_job *job, hash_work work)
{
    coffer_error err;
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    options.threads = job->threads;
    const double start = bench_now();
    coffer *model = open_model(job, COFFER_VERIFY_NOTHING);
    bench_check(work(model, job, &options, &err), &err);
    coffer_close(model);
    return bench_now() - start;
}

static coffer_status digest(coffer *model, const hash_job *job, const coffer_digest_options *options, coffer_error *err)
{
    coffer_digest *digests = bench_alloc(coffer_count(model) * sizeof *digests);
    const coffer_status status =
        coffer_digest_tensors(model, NULL, coffer_count(model), job->algorithm, digests, options, err);
    free(digests);
    return status;
}

static coffer_status verify(coffer *model, const hash_job *job, const coffer_digest_options *options, coffer_error *err)
{
    (void)job;
    return coffer_verify(model, NULL, coffer_count(model), NULL, options, err);
}

static double run_digest(void *ctx)
{
    return run(ctx, digest);
}

static double run_verify(void *ctx)
{
    return run(ctx, verify);
}

static double load(const hash_job *job, coffer_verifying verify)
{
    coffer_error err;
    const double start = bench_now();
    coffer *model = open_model(job, verify);
    const size_t count = coffer_count(model);
    coffer_read_target *targets = bench_alloc(count * sizeof *targets);
    char *buffer = coffer_buffer_new(job->size);
    for (size_t i = 0; i < count && buffer != NULL; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        targets[i] = (coffer_read_target){ tensor, buffer + tensor->offset, tensor->size };
    }
    if (buffer == NULL) {
        bench_die("coffer_buffer_new", NULL);
    }
    bench_check(coffer_read_many(model, targets, count, NULL, &err), &err);
    const double seconds = bench_now() - start;
    coffer_buffer_free(buffer, job->size);
    free(targets);
    coffer_close(model);
    return seconds;
}

static double run_load_verified(void *ctx)
{
    return load(ctx, COFFER_VERIFY_ALL);
}

static double run_load_and_digest(void *ctx)
{
    return load(ctx, COFFER_VERIFY_NOTHING) + run_digest(ctx);
}

/* ---- floors ------------------------------------------------------------------------------------------------------ */

/* What the threads share: whoever is free takes the next piece. */
typedef struct looking {
    const hash_job *job;
    int fd;
    const uint8_t *map; /* NULL: read into a buffer */
    atomic_size_t next;
    atomic_uint_fast64_t sum; /* so that nobody leaves the looking out */
} looking;

static void *look(void *ctx)
{
    looking *shared = ctx;
    uint64_t sum = 0;
    uint8_t *buffer = bench_alloc(PIECE_SIZE);
    const size_t size = shared->job->size;
    for (size_t at = atomic_fetch_add(&shared->next, PIECE_SIZE); at < size;
         at = atomic_fetch_add(&shared->next, PIECE_SIZE)) {
        const size_t piece = size - at < PIECE_SIZE ? size - at : PIECE_SIZE;
        const uint8_t *bytes = buffer;
        if (shared->map != NULL) {
            bytes = shared->map + at;
        } else if (pread(shared->fd, buffer, piece, (off_t)at) != (ssize_t)piece) {
            bench_die("pread", NULL);
        }
        for (size_t i = 0; i + sizeof sum <= piece; i += sizeof sum) {
            uint64_t word = 0;
            memcpy(&word, bytes + i, sizeof word);
            sum += word;
        }
    }
    free(buffer);
    atomic_fetch_add(&shared->sum, sum);
    return NULL;
}

static double run_look(void *ctx)
{
    const hash_job *job = ctx;
    pthread_t threads[MAX_THREADS];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t count = processors < 1 ? 1 : processors > (long)MAX_THREADS ? MAX_THREADS : (size_t)processors;
    const double start = bench_now();
    looking shared = { .job = job, .fd = open(job->path, O_RDONLY | O_CLOEXEC) };
    void *map = job->by_reads ? NULL : mmap(NULL, job->size, PROT_READ, MAP_SHARED, shared.fd, 0);
    if (shared.fd < 0 || map == MAP_FAILED) {
        bench_die("open or mmap", NULL);
    }
    shared.map = map;
    for (size_t i = 1; i < count; i++) {
        if (pthread_create(&threads[i], NULL, look, &shared) != 0) {
            bench_die("pthread_create", NULL);
        }
    }
    look(&shared);
    for (size_t i = 1; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    if (map != NULL) {
        munmap(map, job->size);
    }
    close(shared.fd);
    return bench_now() - start;
}

/* What libcrypto or xxHash itself does, with bytes that are in memory. */
static double run_hasher(void *ctx)
{
    const hash_job *job = ctx;
    static uint8_t bytes[PIECE_SIZE];
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    coffer_hasher *hasher = NULL;
    coffer_error err;
    bench_check(coffer_hasher_new(&hasher, job->algorithm, coffer_libc_allocator(), &err), &err);
    const double start = bench_now();
    for (size_t at = 0; at < job->size; at += PIECE_SIZE) {
        bench_check(coffer_hasher_update(hasher, bytes, sizeof bytes, &err), &err);
    }
    bench_check(coffer_hasher_finish(hasher, digest, coffer_algorithm_digest_size(job->algorithm), &err), &err);
    const double seconds = bench_now() - start;
    coffer_hasher_free(hasher);
    return seconds;
}

static double run_sha256sum(void *ctx)
{
    const hash_job *job = ctx;
    return bench_fresh_process("sha256sum", job->path, NULL, NULL, NULL);
}

static double run_xxhsum(void *ctx)
{
    const hash_job *job = ctx;
    return bench_fresh_process("xxhsum", "-H2", job->path, NULL, NULL);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void measure_digests(const hash_job *all)
{
    hash_job one = *all;
    hash_job by_reads = *all;
    one.threads = 1;
    by_reads.by_reads = true;
    const bool fast = all->algorithm == COFFER_XXH3_128;
    const bench_rival rivals[] = {
        { run_digest, (void *)all }, { run_digest, &one },    { run_hasher, &one },
        { run_look, (void *)all },   { run_look, &by_reads },
    };
    const bench_result result = bench_contest(rivals, fast ? 5 : 3, bench_size(fast ? 9 : 5, 2));
    const double scale = (double)all->size / 1e9;
    char name[80];
    (void)snprintf(name, sizeof name, "%s of 160 tensors", coffer_algorithm_name(all->algorithm));
    bench_row_of(name, "GB/s", scale, &result, "the same, 1 thread", 1, "cached");
    bench_row_of(name, "GB/s", scale, &result, "the algorithm alone, 1 thread", 2, "in memory");
    if (fast) {
        bench_row_of(name, "GB/s", scale, &result, "looking at a fresh map, all threads", 3, "cached");
        bench_row_of(name, "GB/s", scale, &result, "pread and looking, all threads", 4, "cached");
    }
}

static void measure_verifying(const hash_job *all)
{
    hash_job one = *all;
    one.threads = 1;
    const bool fast = all->algorithm == COFFER_XXH3_128;
    const bench_rival rivals[] = {
        { run_verify, &one },
        { fast ? run_xxhsum : run_sha256sum, &one },
        { run_verify, (void *)all },
    };
    const size_t count = bench_has_program(fast ? "xxhsum" : "sha256sum") ? 2 : 1;
    const bench_result result = bench_contest(rivals, count, bench_size(fast ? 9 : 5, 2));
    const char *other = fast ? "xxhsum -H2 of the file" : "sha256sum of the file";
    const double scale = (double)all->size / 1e9;
    char name[80];
    (void)snprintf(name, sizeof name, "verify by %s, 1 thread", coffer_algorithm_name(all->algorithm));
    bench_row_of(name, "GB/s", scale, &result, other, 1, "cached");
    const bench_rival wide[] = { rivals[2], rivals[1] };
    const bench_result with_all = bench_contest(wide, count, bench_size(fast ? 9 : 5, 2));
    (void)snprintf(name, sizeof name, "verify by %s, all threads", coffer_algorithm_name(all->algorithm));
    bench_row_of(name, "GB/s", scale, &with_all, other, 1, "cached");
}

static void measure_loading(const hash_job *job)
{
    const bench_rival rivals[] = { { run_load_verified, (void *)job }, { run_load_and_digest, (void *)job } };
    const bench_result result = bench_contest(rivals, 2, bench_size(5, 2));
    char name[80];
    (void)snprintf(name, sizeof name, "load and verify by %s", coffer_algorithm_name(job->algorithm));
    bench_row_of(name, "GB/s", (double)job->size / 1e9, &result, "load, then digests", 1, "cached");
}

static void make_file(const char *path)
{
    coffer_header *header = bench_is_quick() ? bench_matrix(1000, 1000) : bench_model(BENCH_GPT2);
    bench_write_full(path, header);
    coffer_header_free(header);
}

/* Records the digests that are verified by; the file may grow by it. */
static void record(hash_job *job)
{
    coffer_error err;
    bench_check(coffer_record_digests(job->path, job->algorithm, NULL, NULL, &err), &err);
    coffer *model = open_model(job, COFFER_VERIFY_NOTHING);
    job->size = (size_t)coffer_shard_size(model, 0);
    coffer_close(model);
}

int main(void)
{
    hash_job job = { .path = bench_path("hash.safetensors") };
    bench_need_disk(2 * (uint64_t)BENCH_GB);
    make_file(job.path);
    const coffer_algorithm algorithms[] = { COFFER_XXH3_128, COFFER_SHA256 };
    for (size_t i = 0; i < 2; i++) {
        job.algorithm = algorithms[i];
        record(&job);
        measure_digests(&job);
        measure_verifying(&job);
        measure_loading(&job);
    }
    remove(job.path);
    return 0;
}
