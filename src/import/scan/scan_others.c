/* SPDX-License-Identifier: Apache-2.0 */
/* What no other reader knows: see scan_others.h. */
#include "scan_others.h"

#include "alloc.h"
#include "gzip.h"
#include "kinds.h"
#include "paths.h"
#include "readers.h"
#include "scan_code.h"
#include "scan_contents.h"
#include "tar.h"

#include <string.h>

/* Text that is read as a whole. */
#define OTHERS_MAX_TEXT ((uint64_t)64 << 20)

/* Whether bytes begin as an archive. One that begins with its end has no members. */
static bool others_is_zip(const uint8_t *head, size_t size)
{
    return size >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

static bool others_is_tar(const uint8_t *head, size_t size)
{
    return size >= COFFER__TAR_BLOCK && coffer__tar_is_head(head);
}

static coffer_status others_read_archive(const coffer__input_files *input, const coffer__wants *wants,
                                         coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    uint8_t head[16] = { 0 };
    const size_t size = input->size < sizeof head ? (size_t)input->size : sizeof head;
    const coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__gzip_is(head, sizeof head)) {
        return coffer__scan_part(&file, "", err);
    }
    return others_is_zip(head, sizeof head) ? coffer__scan_zip(&file, err) : coffer__scan_tar(&file, false, err);
}

/* Text is looked at as a whole, since what it names may be anywhere. */
static coffer_status others_read_text(const coffer__reader_file *file, coffer_error *err)
{
    const size_t size = (size_t)file->size;
    uint8_t *text = coffer__alloc_array(file->plan->allocator, size, 1, err);
    coffer_status status = text == NULL
                               ? COFFER_ERR_MEMORY
                               : coffer__input_files_read(file->input, file->file, file->size, 0, text, size, err);
    if (status == COFFER_OK) {
        status = coffer__scan_text(file, "", 0, file->input->path, file->input->path_len, text, size, err);
    }
    coffer__free_array(file->plan->allocator, text, size, 1);
    return status;
}

static coffer_status others_read_code(const coffer__input_files *input, const coffer__wants *wants,
                                      coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    uint8_t head[COFFER__SCAN_HEAD];
    const size_t size = input->size < sizeof head ? (size_t)input->size : sizeof head;
    const size_t name = coffer__path_name_at(input->path);
    coffer_weight weight = COFFER_WEIGHT_NOTE;
    const coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    const char *sentence = coffer__scan_code_of(head, size, input->path + name, input->path_len - name, &weight);
    if (sentence != NULL) {
        return coffer__import_plan_put_finding(plan, weight, 0, UINT64_MAX, "", sentence, input->path + name,
                                               input->path_len - name, err);
    }
    if (!coffer__scan_is_telling(head, size, input->path + name, input->path_len - name)) {
        return COFFER_OK;
    }
    return input->size <= OTHERS_MAX_TEXT
               ? others_read_text(&file, err)
               : coffer__import_plan_put_finding(plan, COFFER_WEIGHT_OPAQUE, 0, UINT64_MAX, "",
                                                 "this text is too large: the code that it may name was not looked at",
                                                 "", 0, err);
}

/* These know no file by themselves: outside of a scan they have nothing to read. */
static bool others_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                         size_t path_len)
{
    (void)head;
    (void)head_size;
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return false;
}

const coffer__reader coffer__reader_archive = { "archive", "an archive", others_sniff, others_read_archive };
const coffer__reader coffer__reader_code = { "code", "code, or what holds or names it", others_sniff,
                                             others_read_code };

coffer_status coffer__scan_unknown(const coffer__input_files *input, const coffer__wants *wants,
                                   coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err)
{
    uint8_t head[COFFER__SCAN_HEAD];
    const size_t size = input->size < sizeof head ? (size_t)input->size : sizeof head;
    coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, size, err);
    const bool packed = coffer__gzip_is(head, size) && !coffer__kind_is_tensors(head, size);
    if (status == COFFER_OK && (packed || others_is_zip(head, size) || others_is_tar(head, size))) {
        *reader = &coffer__reader_archive;
        return status;
    }
    if (status == COFFER_OK && !coffer__kind_is_tensors(head, size)) {
        status = others_read_code(input, wants, plan, err);
    }
    *reader = plan->findings.count > 0 ? &coffer__reader_code : NULL;
    return status;
}
