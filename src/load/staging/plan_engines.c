/* SPDX-License-Identifier: Apache-2.0 */
/* Which engines a load of a plan would choose. */
#include "error.h"
#include "file_readers.h"
#include "model.h"

/* File readers are opened as a load opens them, one file at a time, and say what was chosen. A shard of which nothing
   is wanted has none. */
static coffer_status cost_engines(coffer__file_readers *file_readers, const coffer_plan *plan, size_t shard,
                                  uint32_t *engines, coffer_error *err)
{
    size_t asked = SIZE_MAX;
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer__load_item *item = &plan->items[i];
        const coffer__file_reader *file_reader = NULL;
        if (item->size == 0 || item->shard == asked || (shard != SIZE_MAX && item->shard != shard)) {
            continue;
        }
        asked = item->shard;
        const coffer_status status = coffer__file_readers_use(file_readers, asked, &file_reader, err);
        if (status != COFFER_OK) {
            return status;
        }
        *engines |= UINT32_C(1) << (unsigned)coffer__file_reader_engine(file_reader);
        coffer__file_readers_leave(file_readers, asked);
    }
    return COFFER_OK;
}

/* The file readers are those of a load with this plan, so the choice is the same: it depends on how many bytes of a
   file are wanted, and the probes lie where those are. Nothing of a group or of a model cache server is asked, as both
   are found only by taking part. */
coffer_status coffer_plan_engines_of(const coffer_plan *plan, size_t shard, uint32_t *engines, coffer_error *err)
{
    if (plan == NULL || engines == NULL || (shard != SIZE_MAX && shard >= plan->model->shard_count)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_plan_engines_of was called with a NULL, or for a shard that the model does not "
                            "have");
    }
    const coffer__file_readers_options options = { .allocator = &plan->allocator, .engine = COFFER_ENGINE_AUTO };
    coffer__file_readers *file_readers = NULL;
    uint32_t found = 0;
    coffer_status status = coffer__file_readers_new(&file_readers, plan, &options, err);
    if (status == COFFER_OK) {
        status = cost_engines(file_readers, plan, shard, &found, err);
    }
    coffer__file_readers_free(file_readers);
    if (status == COFFER_OK) {
        *engines = found;
    }
    return status;
}
