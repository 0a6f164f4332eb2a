/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and opens the files beside a model: see fetch_beside.h. From a server each is opened by a thread of its
 * own, since opening is nothing but waiting. The workers share the list of names under the mutex of their thread pool;
 * each file's own fields belong to the worker that took it.
 */
#include "fetch_beside.h"

#include "alloc.h"
#include "error.h"
#include "sniff.h"
#include "thread_pool.h"

#include <string.h>

/* Bytes that are read of each file to tell an answer for people from the file. */
#define BESIDE_SNIFFED 512u
#define BESIDE_MAX_ANSWER 200u /* a text that says that there is no file is shorter than this */

/* The names that transformers, tokenizers, diffusers and PEFT look for. */
static const char *const beside_names[] = {
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
};
#define BESIDE_COUNT (sizeof beside_names / sizeof beside_names[0])
_Static_assert(BESIDE_COUNT <= COFFER__BESIDE_MAX, "there is room for all of them");

/* What is open. The sources live in `files` and use the pool and the allocator, so all of it is one
   block that does not move. The pool refers to entries in it, too. The allocator takes turns because
   workers allocate at once and the caller's need not allow that. */
struct coffer__beside {
    coffer_allocator caller;
    coffer__locked_allocator turns;
    coffer_allocator allocator; /* the caller's, for one thread at a time */
    coffer__pool pool;
    coffer__model_dir place;
    const coffer__listing *listing;        /* what the repository has; NULL: not known */
    char folder[COFFER__HUB_MAX_FILE + 1]; /* of the model in the repository, with a slash; or "" */
    coffer__thread_pool thread_pool;       /* runs while files are opened; its mutex guards `next` */
    size_t next;                           /* the file to open next */
    coffer__beside_file files[BESIDE_COUNT];
};

/* The base must come first: the thread pool finds each worker by the size of the whole. */
typedef struct beside_worker {
    coffer__thread_pool_worker base;
    coffer__beside *beside;
} beside_worker;

/* Nothing of what was opened is kept after it. */
static coffer_status beside_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the files next to the model");
}

/* Whether a status says that a file does not exist, and not that something went wrong. A server
   that denies access or a store that forbids listing cannot be told from one that has no such file,
   and offline only what is cached exists. */
static bool beside_is_absent(coffer_status status)
{
    return status == COFFER_ERR_SHARD_MISSING || status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_ACCESS ||
           status == COFFER_ERR_OFFLINE;
}

/* Case matters, as the names are our own. */
static bool beside_ends(const char *name, const char *suffix)
{
    const size_t len = strlen(name);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

/* Whether bytes begin with a text of small letters, in either case. The bytes need not be text and
   have no NUL at their end. Setting bit 5 turns an ASCII capital into its small letter. It also
   takes a few control characters for punctuation, which does no harm: no real file begins like
   that. */
static bool beside_begins(const uint8_t *bytes, size_t size, const char *text)
{
    size_t at = 0;
    while (at < size && text[at] != '\0' &&
           (bytes[at] == (uint8_t)text[at] || (bytes[at] | 0x20) == (uint8_t)text[at])) {
        at++;
    }
    return text[at] == '\0';
}

/* Whether a body is a message for people and not the file. Vocabularies and templates are text, and
   may begin with a "<" of their own, so only what is unmistakable counts for them. `kind` is what
   coffer__sniff makes of the first bytes. The bound on the size keeps a longer vocabulary that
   begins with "404" from being dropped. */
static bool beside_is_answer(const coffer__beside_file *file, coffer_status kind, const uint8_t *bytes, size_t size)
{
    /* JSON begins with neither markup nor prose, so the sniffer's verdict is enough. */
    if (beside_ends(file->name, ".json")) {
        return kind == COFFER_ERR_IS_HTML || kind == COFFER_ERR_IS_TEXT;
    }
    return beside_begins(bytes, size, "<!doctype html") || beside_begins(bytes, size, "<html") ||
           (file->source.size < BESIDE_MAX_ANSWER &&
            (beside_begins(bytes, size, "entry not found") || beside_begins(bytes, size, "not found") ||
             beside_begins(bytes, size, "404")));
}

/* A server may answer that it has a file, and send a page that says it has not. If the name was
   only guessed, that means that the file does not exist. If the repository lists the file, it is an
   error, and so is a Git LFS pointer in any case. `there` is changed only for an answer that stands
   for "no such file"; the caller closes the source then. The bytes read here are not kept: pieces
   of the file are asked for when the fetch has decided where they go. */
static coffer_status beside_judge(coffer__beside_file *file)
{
    uint8_t first[BESIDE_SNIFFED];
    const size_t size = file->source.size < sizeof first ? (size_t)file->source.size : sizeof first;
    const coffer_status status =
        coffer__source_read_watched(&file->source, 0, first, size, file->whole->place.watch, &file->error);
    if (status != COFFER_OK || size == 0) {
        return status;
    }
    const coffer_status kind = coffer__sniff(first, size, &file->error);
    /* A pointer means that the repository has the file, but not its contents. */
    if (kind == COFFER_ERR_IS_LFS_POINTER || !beside_is_answer(file, kind, first, size)) {
        return kind == COFFER_ERR_IS_LFS_POINTER ? kind : COFFER_OK;
    }
    if (file->whole->listing != NULL) {
        return coffer__fail(&file->error, kind == COFFER_ERR_IS_HTML ? kind : COFFER_ERR_IS_TEXT,
                            "the repository has this file, but the server sends %s",
                            kind == COFFER_ERR_IS_HTML ? "a web page" : "a text that denies it");
    }
    file->there = false;
    return COFFER_OK;
}

/* Whether the repository may have the file: one that was not listed may have anything. A listing
   saves the requests for files that do not exist, and makes their absence certain. */
static bool beside_is_listed(const coffer__beside *beside, const char *name)
{
    return beside->listing == NULL ||
           coffer__listing_has(beside->listing, beside->folder, strlen(beside->folder), name);
}

/* Opens one file and judges what it is. Afterwards the source is open exactly if `there` is true;
   coffer__beside_close relies on that. A file that does not exist is not a failure. Runs on any
   worker. It touches only its own file and what its contract allows several threads: the pool, and
   the allocator that takes turns. The failure stays in file->error until all have ended. */
static void beside_open_file(void *arg)
{
    coffer__beside_file *file = arg;
    coffer__beside *beside = file->whole;
    const coffer__name name = { file->name, strlen(file->name) };
    file->status = coffer__model_dir_open(&beside->place, name, &beside->allocator, &beside->pool, &file->pooled,
                                          &file->source, &file->error);
    file->there = file->status == COFFER_OK;
    const bool opened = file->there;
    if (opened) {
        file->status = beside_judge(file);
        file->there = file->there && file->status == COFFER_OK;
    }
    /* An answer that stands for no file, or a failure to read: nothing uses the source after
       this. */
    if (opened && !file->there) {
        file->source.ops->close(&file->source);
    }
    /* What does not exist is left out and is no failure. */
    if (beside_is_absent(file->status)) {
        file->status = COFFER_OK;
    }
}

/* Takes names until there are none left or the user cancels. The mutex is held for a counter only,
   never while a server is waited for. A failure of one file does not stop the others, since which
   failure is reported must not depend on their speed. */
static void beside_work(void *arg)
{
    const beside_worker *worker = arg;
    coffer__beside *beside = worker->beside;
    while (!coffer__thread_pool_stop(&worker->base, 0)) {
        coffer__os_mutex_lock(&beside->thread_pool.mutex);
        const size_t i = beside->next < BESIDE_COUNT ? beside->next++ : BESIDE_COUNT;
        coffer__os_mutex_unlock(&beside->thread_pool.mutex);
        if (i == BESIDE_COUNT) {
            return;
        }
        if (beside_is_listed(beside, beside->files[i].name)) {
            beside_open_file(&beside->files[i]);
        }
    }
}

/* The failure of the first file, in the order of the names, that exists and could not be opened. So
   the error does not depend on which thread was faster. Called after all workers were joined, so
   nothing needs the mutex. The path is added here, because coffer__model_dir_open leaves it out. */
static coffer_status beside_first_failure(const coffer__beside *beside, coffer_error *err)
{
    size_t i = 0;
    while (i < BESIDE_COUNT && beside->files[i].status == COFFER_OK) {
        i++;
    }
    if (i == BESIDE_COUNT) {
        return COFFER_OK;
    }
    const coffer__beside_file *failed = &beside->files[i];
    if (err != NULL) {
        *err = failed->error;
    }
    coffer__path path;
    (void)coffer__model_dir_join(&beside->place, (coffer__name){ failed->name, strlen(failed->name) }, &path);
    return coffer__fail_path(err, failed->status, path.text);
}

/* Opens all files. Local ones are opened by the calling thread alone. The thread pool's watch lives on
   this stack, so the place must forget it before the function returns. With a server the calling
   thread only asks the user (`caller_asks`), so there is one more worker than there are files.
   Waits are latency and not work: as many threads as files cost nothing and turn fourteen round
   trips into one. */
static coffer_status beside_open_files(coffer__beside *beside, const coffer_fetch_options *options, coffer_error *err)
{
    beside_worker workers[BESIDE_COUNT + 1];
    for (size_t i = 0; i < BESIDE_COUNT; i++) {
        beside->files[i].name = beside_names[i];
        beside->files[i].whole = beside;
    }
    for (size_t i = 0; i < BESIDE_COUNT + 1; i++) {
        workers[i].beside = beside;
    }
    /* No total: bytes are not counted here, the user is only asked whether to continue. */
    beside->thread_pool = (coffer__thread_pool){
        .work = beside_work,
        .progress = options->progress,
        .progress_ctx = options->progress_ctx,
        .err = err,
        .caller_asks = true,
    };
    const coffer__watch watch = coffer__thread_pool_watch(&beside->thread_pool);
    beside->place.watch = &watch;
    const size_t count = beside->place.web == NULL ? 1 : BESIDE_COUNT + 1;
    const coffer_status status = coffer__thread_pool_run(&beside->thread_pool, workers, count, sizeof workers[0]);
    beside->place.watch = NULL;
    return status == COFFER_OK ? beside_first_failure(beside, err) : status;
}

/* The three early failures release by hand what exists by then; from there on coffer__beside_close
   releases everything. Nothing is downloaded and no file is created by it. A listing is used only
   if opening the model has made one; it is borrowed from the model. */
coffer_status coffer__beside_open(coffer__beside **beside, const coffer *model, const coffer_fetch_options *options,
                                  coffer_error *err)
{
    const coffer_allocator caller = model->allocator;
    coffer__beside *made = coffer__alloc_zeroed(&caller, sizeof *made);
    *beside = NULL;
    if (made == NULL) {
        return beside_no_memory(err);
    }
    made->caller = caller;
    /* What a failure releases is in the reverse order of what was made. */
    if (!coffer__locked_allocator_open(&made->turns, &caller, &made->allocator)) {
        coffer__free(&caller, made, sizeof *made);
        return beside_no_memory(err);
    }
    if (coffer__pool_init(&made->pool, BESIDE_COUNT, &made->allocator) != 0) {
        coffer__locked_allocator_close(&made->turns);
        coffer__free(&caller, made, sizeof *made);
        return beside_no_memory(err);
    }
    /* Files of a repository are asked for at the commit of the model's files, so that they fit
       them. */
    coffer_status status = coffer__model_dir_of(model, &made->place, err);
    if (status == COFFER_OK && model->listing.known) {
        const coffer__location *origin = coffer__web_origin(model->web);
        coffer__hub_folder(&origin->hub, origin->is_folder, made->folder);
        made->listing = &model->listing;
    }
    if (status == COFFER_OK) {
        status = beside_open_files(made, options, err);
    }
    if (status != COFFER_OK) {
        coffer__beside_close(made);
        return status;
    }
    *beside = made;
    return COFFER_OK;
}

/* The order is that of the names above, for every model. */
const coffer__beside_file *coffer__beside_at(const coffer__beside *beside, size_t i)
{
    return beside != NULL && i < BESIDE_COUNT ? &beside->files[i] : NULL;
}

/* NULL is allowed. Sources go first, since they return their descriptors to the pool; the allocator
   that takes turns goes last, and the block itself is freed with a copy of the caller's, as the
   original is in the block. */
void coffer__beside_close(coffer__beside *beside)
{
    if (beside == NULL) {
        return;
    }
    for (size_t i = 0; i < BESIDE_COUNT; i++) {
        if (beside->files[i].there) {
            beside->files[i].source.ops->close(&beside->files[i].source);
        }
    }
    coffer__pool_close(&beside->pool);
    coffer__locked_allocator_close(&beside->turns);
    const coffer_allocator caller = beside->caller;
    coffer__free(&caller, beside, sizeof *beside);
}
