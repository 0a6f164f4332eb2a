/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model from memory, a descriptor, or the caller's own source; and the options of all ways. */
#include "error.h"
#include "opening.h"
#include "options.h"

/* Copies the options to the size that this version knows, and checks them. Enumerations are
   compared as unsigned, because a caller in another language may pass any number. Patterns are
   checked where they are used: every text is a valid pattern. */
coffer_status coffer__check_open_options(coffer_open_options *options, const coffer_open_options *given,
                                         coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    if ((unsigned)options->access > COFFER_READ) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `access` has no such value");
    }
    if ((unsigned)options->verify > COFFER_VERIFY_RECORDED) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `verify` has no such value");
    }
    if ((unsigned)options->formats > COFFER_FORMATS_ALL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `formats` has no such value");
    }
    if (options->select == NULL && options->select_count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `select` is NULL, and `select_count` is not 0");
    }
    if (options->allocator == NULL) {
        options->allocator = coffer_libc_allocator();
    }
    return COFFER_OK;
}

static coffer_status open_null(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a model cannot be opened from or into NULL");
}

/* Parses the header where it is: the caller promises that the memory does not change. It is also
   the map. Nothing here can find out that the promise is broken. */
coffer_status coffer_open_memory(coffer **model, const void *bytes, size_t size, const coffer_open_options *options,
                                 coffer_error *err)
{
    if (model == NULL || (bytes == NULL && size > 0)) {
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__byte_source source;
    coffer__source_memory(&source, bytes, size);
    coffer *made = coffer__model_of_source(&source, &known, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* The caller's memory is the map, so what is aligned depends on where it lies. */
    made->shards->phase = (uint64_t)(uintptr_t)bytes;
    status = coffer__shard_parse(made->shards, bytes, size, &made->allocator, &known, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* The source covers [offset, offset + size) of the file. It duplicates the descriptor, so the
   caller may close it at once. coffer__source_narrow checks the range. `phase` is where the first
   byte of the range is in the file, as a map would have it. */
coffer_status coffer_open_fd(coffer **model, int fd, uint64_t offset, uint64_t size, const coffer_open_options *options,
                             coffer_error *err)
{
    if (model == NULL) {
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__byte_source source;
    status = coffer__source_fd(&source, fd, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__source_narrow(&source, offset, size, known.allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__open_shard_source(model, &source, NULL, &known, err);
    if (status == COFFER_OK) {
        (*model)->shards->phase = offset;
    }
    return status;
}

/* coffer__open_shard_source takes over the source; before that, every failure closes it here. A source
   that can lend its bytes must be able to take them back, and the other way round. */
coffer_status coffer_open_source(coffer **model, const coffer_source *source, const coffer_open_options *options,
                                 coffer_error *err)
{
    if (source == NULL) {
        return open_null(err);
    }
    coffer__byte_source custom;
    coffer__source_custom(&custom, source);
    /* The caller was promised that its close is called, whatever fails. */
    if (model == NULL || source->read_at == NULL) {
        custom.ops->close(&custom);
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status == COFFER_OK && (source->borrow == NULL) != (source->give_back == NULL)) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "a source must have both borrow and give_back, or neither");
    }
    if (status != COFFER_OK) {
        custom.ops->close(&custom);
        return status;
    }
    return coffer__open_shard_source(model, &custom, NULL, &known, err);
}
