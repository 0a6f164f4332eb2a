/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model cache server: each file of a model as memory that is sealed against every change, and a thread that passes it
 * to whoever calls the file's name (served.h). The files are read by a load whose destinations are that memory, so they
 * come as fast as any load, and with their digests checked; what no tensor covers, the header, is read afterwards.
 *
 * Who has the memory keeps it, also when the model cache server ends. So nothing has to be told to anybody.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "libc_allocator.h"
#include "model.h"
#include "served.h"
#include "thread_pool.h"

#include <errno.h>
#include <stdatomic.h>

/* How often the caller's progress is asked while the files are read, in milliseconds. */
#define SERVER_MOMENT 50
#define SERVER_STEP ((uint64_t)1 << 30) /* bytes that become huge pages at once */
/* Before callers who could not be let in are tried again, in milliseconds; well below how long they wait (served.c). */
#define SERVER_PAUSE 20

typedef struct server_file {
    int fd;
    int listener;
    uint64_t size;
    coffer__os_map map; /* while it is filled */
    _Atomic(uint32_t) given;
} server_file;

typedef struct server_worker {
    coffer__thread_pool_worker base;
    coffer_cache_server *server;
} server_worker;

/* The thread only reads this, but for the counts of the files, and all that it looks at is set before the thread
   starts. */
struct coffer_cache_server {
    coffer_allocator allocator;
    server_file *files;
    size_t count;
    uint64_t bytes;
    int callers; /* a set of all listeners; -1: none */
    coffer__thread_pool thread_pool;
    coffer_error thread_pool_error;
    server_worker worker;
    bool answers; /* the thread runs */
};

/* The model is named, as the user may have asked for several. */
static coffer_status server_taken(coffer_error *err, const char *path)
{
    coffer__fail(err, COFFER_ERR_LOCKED, "another process keeps this model in memory already");
    return path == NULL ? COFFER_ERR_LOCKED : coffer__fail_path(err, COFFER_ERR_LOCKED, path);
}

/* Why nobody can be answered by the name of a file. Names belong to nobody, so another user's process may be the first
   to take one; it is never called by loads of this user, and keeps them from being found. */
static coffer_status server_nameless(coffer_error *err, const char *name, const char *path, int os_error)
{
    int caller = -1;
    const int found = os_error == EADDRINUSE ? coffer__os_call(name, &caller) : os_error;
    if (found == EPERM) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "nothing is shared here: this process has the number of the users that its namespace does "
                            "not know, so others cannot be told from it; give the namespace a map of users");
    }
    if (found == EACCES) {
        coffer__fail(err, COFFER_ERR_LOCKED,
                     "a process of another user has taken the name by which this model would be found in memory, so it "
                     "cannot be kept: that process is the one that listens on @%s; end it, or use another network "
                     "namespace",
                     name);
        return path == NULL ? COFFER_ERR_LOCKED : coffer__fail_path(err, COFFER_ERR_LOCKED, path);
    }
    if (found == 0) {
        (void)coffer__os_close(caller);
    }
    return os_error == EADDRINUSE ? server_taken(err, path)
                                  : coffer__errno_status(err, "answer other processes", path, os_error);
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

/* It ends when the wait fails, which coffer_cache_server_free brings about by ending the listener. The counter is
   atomic, as the model cache server's owner may ask for it at any time. Where callers cannot be let in, as the process
   has no descriptor left, the next wait would come back at once; so there is a pause, and then they are tried again. */
static void server_work(void *arg)
{
    const server_worker *worker = arg;
    coffer_cache_server *server = worker->server;
    uint32_t number = 0;
    while (coffer__os_callers_await(server->callers, &number) == 0) {
        server_file *file = &server->files[number];
        uint32_t given = 0;
        const int os_error = coffer__os_answer_all(file->listener, file->fd, &given);
        atomic_fetch_add(&file->given, given);
        if (os_error != 0) {
            coffer__os_sleep(SERVER_PAUSE);
        }
    }
}

/* It comes after all files are sealed, so nobody who calls gets memory that is still being filled. Two model cache
   servers that have read the same model at the same time are told apart here: a name is given to one of them. */
static coffer_status server_listen(coffer_cache_server *server, const coffer *model, coffer_error *err)
{
    int os_error = coffer__os_callers_new(&server->callers);
    for (size_t i = 0; os_error == 0 && i < server->count; i++) {
        const coffer__shard *shard = &model->shards[i];
        char name[COFFER__SERVED_NAME];
        coffer__served_name(name, coffer__source_seen(&shard->source));
        os_error = coffer__os_answer(name, &server->files[i].listener);
        if (os_error != 0) {
            return server_nameless(err, name, shard->path, os_error);
        }
        os_error = coffer__os_callers_add(server->callers, server->files[i].listener, (uint32_t)i);
    }
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "answer other processes", NULL, os_error);
}

/* It is the last step, so a model cache server that was made answers, and one that was not never did. */
static coffer_status server_answer(coffer_cache_server *server, coffer_error *err)
{
    server->worker.server = server;
    server->thread_pool =
        (coffer__thread_pool){ .work = server_work, .err = &server->thread_pool_error, .own_code = true };
    const coffer_status status =
        coffer__thread_pool_begin(&server->thread_pool, &server->worker, 1, sizeof server->worker);
    server->answers = status == COFFER_OK;
    if (status != COFFER_OK && err != NULL) {
        *err = server->thread_pool_error;
    }
    return status;
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

/* Another model cache server is noticed before anything is read. This test is only a courtesy, which spares reading all
   of a model for nothing; server_listen decides. The memory is mapped to be written here, and the map goes before it is
   sealed. */
static coffer_status server_memory(server_file *file, const coffer__shard *shard, coffer_error *err)
{
    const coffer__os_info *seen = coffer__source_seen(&shard->source);
    char name[COFFER__SERVED_NAME];
    int caller = -1;
    if (seen == NULL || seen->size != shard->source.size || seen->size == 0) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "only models in files of this system can be kept in memory");
    }
    coffer__served_name(name, seen);
    int os_error = coffer__os_call(name, &caller);
    if (os_error == 0) {
        (void)coffer__os_close(caller);
        return server_taken(err, shard->path);
    }
    if (os_error == EACCES || os_error == EPERM) {
        return server_nameless(err, name, shard->path, os_error);
    }
    file->size = seen->size;
    os_error = coffer__os_shared_new("coffer-kept", file->size, &file->fd);
    if (os_error == ENOSYS || os_error == EOPNOTSUPP) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "this system has no memory that can be sealed");
    }
    os_error = os_error != 0 ? os_error : coffer__os_shared_map(file->fd, file->size, &file->map);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "make memory for a file", shard->path, os_error);
}

static coffer_status server_cancelled(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
}

/* In huge pages memory is filled, and later copied, in less than half of the time. Making them takes a while, which
   nothing interrupts: so it goes by steps. */
static coffer_status server_in_huge_pages(const coffer_cache_server *server, coffer_progress progress,
                                          void *progress_ctx, coffer_error *err)
{
    for (size_t i = 0; i < server->count; i++) {
        const server_file *file = &server->files[i];
        const uint64_t whole = file->size / COFFER__OS_HUGE_PAGE * COFFER__OS_HUGE_PAGE;
        for (uint64_t at = 0; at < whole; at += SERVER_STEP) {
            if (progress != NULL && progress(progress_ctx, 0, server->bytes) != 0) {
                return server_cancelled(err);
            }
            coffer__os_shared_huge(&file->map, at, whole - at < SERVER_STEP ? whole - at : SERVER_STEP);
        }
    }
    return COFFER_OK;
}

/* A whole tensor goes to where it is in the file. The destinations are apart because tensors of a file never overlap,
   and each lies in its own file's memory. */
static coffer_status server_plan(const coffer_cache_server *server, const coffer *model, coffer_plan *plan,
                                 coffer_error *err)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const uintptr_t base = (uintptr_t)server->files[tensor->shard].map.base;
        const coffer_destination destination = { .address = base + tensor->offset, .size = tensor->size };
        const coffer_status status = coffer_plan_add(plan, tensor, NULL, 0, &destination, NULL, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Waits for the load on the calling thread, which is the one that may call `progress`. The wait is cut into short
   ones for that; the load itself has no callback, whose thread would be another. */
static coffer_status server_wait(coffer_load *load, coffer_progress progress, void *progress_ctx, coffer_error *err)
{
    coffer_status status = COFFER_NEED_MORE;
    while (status == COFFER_NEED_MORE) {
        coffer_load_stats stats = { .struct_size = sizeof stats };
        status = coffer_load_wait(load, SERVER_MOMENT, err);
        coffer_load_stats_of(load, &stats);
        if ((status == COFFER_OK || status == COFFER_NEED_MORE) && progress != NULL &&
            progress(progress_ctx, stats.done, stats.wanted) != 0) {
            return server_cancelled(err);
        }
    }
    return status;
}

/* Freeing a load that has not ended cancels it and waits for its threads, so the maps may go afterwards in any
   case. */
static coffer_status server_load(const coffer_cache_server *server, const coffer *model, coffer_progress progress,
                                 void *progress_ctx, coffer_error *err)
{
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    coffer_status status = coffer_plan_new(&plan, model, &server->allocator, err);
    if (status == COFFER_OK) {
        status = server_plan(server, model, plan, err);
    }
    if (status == COFFER_OK) {
        status = coffer_load_start(&load, plan, NULL, NULL, err);
    }
    if (status == COFFER_OK) {
        status = server_wait(load, progress, progress_ctx, err);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    return status;
}

/* Reads what no tensor of the model covers: the header, holes, and tensors that other files have instead. Tensors are
   in order of their offsets. */
static coffer_status server_rest(const server_file *file, const coffer__shard *shard, coffer_error *err)
{
    uint64_t at = 0;
    coffer_status status = COFFER_OK;
    const size_t count = coffer_table_count(shard->table);
    for (size_t i = 0; status == COFFER_OK && i <= count; i++) {
        const coffer_tensor *tensor = coffer_table_at(shard->table, i);
        const uint64_t next = tensor == NULL ? file->size : tensor->offset;
        if (next > at) {
            status = coffer__source_read(&shard->source, at, (uint8_t *)file->map.base + at, (size_t)(next - at), err);
        }
        at = tensor == NULL ? next : tensor->offset + tensor->size;
    }
    return status;
}

/* Reads the rest, and seals the memory. That needs the map gone. */
static coffer_status server_finish(server_file *file, const coffer__shard *shard, coffer_error *err)
{
    const coffer_status status = server_rest(file, shard, err);
    coffer__os_unmap(&file->map);
    file->map = (coffer__os_map){ NULL, 0 };
    if (status != COFFER_OK) {
        return shard->path != NULL ? coffer__fail_path(err, status, shard->path) : status;
    }
    const int os_error = coffer__os_shared_seal(file->fd, true);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "seal memory", shard->path, os_error);
}

/* Every descriptor is set to "none" before anything can fail, since coffer_cache_server_free closes all that are not.
   */
static coffer_status server_files(coffer_cache_server *server, const coffer *model, coffer_progress progress,
                                  void *progress_ctx, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    server->files = coffer__alloc_array(&server->allocator, model->shard_count, sizeof *server->files, err);
    if (server->files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    server->count = model->shard_count;
    for (size_t i = 0; i < server->count; i++) {
        server->files[i].fd = -1;
        server->files[i].listener = -1;
    }
    for (size_t i = 0; status == COFFER_OK && i < server->count; i++) {
        status = server_memory(&server->files[i], &model->shards[i], err);
        server->bytes += server->files[i].size;
    }
    if (status == COFFER_OK) {
        status = server_in_huge_pages(server, progress, progress_ctx, err);
    }
    if (status == COFFER_OK) {
        status = server_load(server, model, progress, progress_ctx, err);
    }
    for (size_t i = 0; status == COFFER_OK && i < server->count; i++) {
        status = server_finish(&server->files[i], &model->shards[i], err);
    }
    return status;
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

/* The model is closed in the end, whatever came of it: a model cache server needs only the memory, and its names were
   made from what the model saw when it was opened. */
coffer_status coffer_cache_server_new(coffer_cache_server **server, const char *path, const coffer_allocator *allocator,
                                      coffer_progress progress, void *progress_ctx, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    if (server == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_cache_server_new was called with a NULL it does not allow");
    }
    *server = NULL;
    options.allocator = allocator == NULL ? coffer_libc_allocator() : allocator;
    coffer_status status = coffer_open(&model, path, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer_cache_server *made = coffer__alloc_array(options.allocator, 1, sizeof *made, err);
    status = made == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
    if (made != NULL) {
        made->allocator = *options.allocator;
        made->callers = -1;
        status = server_files(made, model, progress, progress_ctx, err);
    }
    if (status == COFFER_OK) {
        status = server_listen(made, model, err);
    }
    if (status == COFFER_OK) {
        status = server_answer(made, err);
    }
    coffer_close(model);
    if (status != COFFER_OK) {
        coffer_cache_server_free(made);
        return status;
    }
    *server = made;
    return COFFER_OK;
}

/* Whoever attaches calls for each file that it loads, so the file that was asked for most often says how many came. */
void coffer_cache_server_state(coffer_cache_server *server, uint64_t *bytes, uint64_t *attached)
{
    uint64_t most = 0;
    for (size_t i = 0; server != NULL && i < server->count; i++) {
        const uint32_t given = atomic_load(&server->files[i].given);
        most = given > most ? given : most;
    }
    if (bytes != NULL) {
        *bytes = server == NULL ? 0 : server->bytes;
    }
    if (attached != NULL) {
        *attached = most;
    }
}

/* A map is left only where making the model cache server failed in the middle; unmapping nothing does nothing. */
static void server_file_close(const server_file *file)
{
    coffer__os_unmap(&file->map);
    if (file->listener >= 0) {
        (void)coffer__os_close(file->listener);
    }
    if (file->fd >= 0) {
        (void)coffer__os_close(file->fd);
    }
}

/* The thread ends first, as it uses the descriptors; a model has at least one file, so there is a listener by which it
   is told. Loads that have the memory keep it: the system frees it with the last descriptor or map. */
void coffer_cache_server_free(coffer_cache_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->answers) {
        coffer__os_answer_stop(server->files[0].listener);
        (void)coffer__thread_pool_finish(&server->thread_pool);
    }
    for (size_t i = 0; i < server->count; i++) {
        server_file_close(&server->files[i]);
    }
    if (server->callers >= 0) {
        (void)coffer__os_close(server->callers);
    }
    const coffer_allocator allocator = server->allocator;
    coffer__free_array(&allocator, server->files, server->count, sizeof *server->files);
    coffer__free_array(&allocator, server, 1, sizeof *server);
}
