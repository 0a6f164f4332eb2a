/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata without a format, and odd dtypes: see doctor_loading.h. */
#include "doctor_loading.h"

#include <inttypes.h>
#include <string.h>

/* ---- The format ---- */

/* transformers up to 4.57 refuses metadata whose format is none of these, and up to 4.47 a file without any. Which tensors are
   in the file does not depend on it: setting a key that is not there loses nothing. */
static bool is_known_format(const char *format, size_t len)
{
    static const char *const formats[] = { "pt", "tf", "flax", "mlx" };
    bool known = false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        known = known || (strlen(formats[i]) == len && memcmp(formats[i], format, len) == 0);
    }
    return known;
}

/* How a file's metadata are for transformers. */
typedef enum format_state { FORMAT_GOOD, FORMAT_NO_METADATA, FORMAT_MISSING, FORMAT_OTHER } format_state;

static format_state state_of(const coffer_table *table)
{
    size_t len = 0;
    const char *format = coffer_table_metadata_get(table, "format", strlen("format"), &len);
    if (coffer_table_format(table) != COFFER_FORMAT_SAFETENSORS) {
        return FORMAT_GOOD;
    }
    if (!coffer_table_has_metadata(table)) {
        return FORMAT_NO_METADATA;
    }
    return format == NULL ? FORMAT_MISSING : is_known_format(format, len) ? FORMAT_GOOD : FORMAT_OTHER;
}

void coffer__doctor_check_format(const coffer__doctor_folder *folder, const char *name, const char *path,
                                 const coffer *model)
{
    static const char *const reasons[] = {
        [FORMAT_GOOD] = "",
        [FORMAT_NO_METADATA] = "there are no metadata: transformers before 4.48 wants format=pt, tf, flax or mlx",
        [FORMAT_MISSING] = "the metadata have no format: transformers before version 5 refuses the file without "
                           "format=pt, tf, flax or mlx",
        [FORMAT_OTHER] = "the metadata have a format that transformers before version 5 refuses: it wants pt, tf, flax "
                         "or mlx",
    };
    format_state worst = FORMAT_GOOD;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const format_state state = state_of(coffer_shard_table(model, i));
        worst = state > worst ? state : worst;
    }
    if (worst == FORMAT_GOOD) {
        return;
    }
    coffer__finding *finding =
        coffer__doctor_add_in(folder, worst == FORMAT_NO_METADATA ? COFFER_SEVERITY_NOTE : COFFER_SEVERITY_WARNING,
                              "format", name, "%s", reasons[worst]);
    if (worst != FORMAT_OTHER && coffer__doctor_owns(folder, model)) {
        coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "meta", path, "--set", "format=pt"));
    }
}

/* ---- Dtypes ---- */

static bool is_weight(const coffer_tensor *tensor)
{
    static const char ending[] = ".weight";
    const size_t len = strlen(ending);
    return tensor->name_len > len && memcmp(tensor->name + tensor->name_len - len, ending, len) == 0;
}

/* Tensors of a dtype that is odd in some way. */
typedef struct odd_tensors {
    uint64_t count;
    const coffer_tensor *first;
} odd_tensors;

static void see_odd(odd_tensors *odd, const coffer_tensor *tensor)
{
    odd->first = odd->count++ == 0 ? tensor : odd->first;
}

static void tell_odd(const coffer__doctor_folder *folder, const char *name, const char *path, const odd_tensors *odd,
                     const char *why)
{
    if (odd->count == 0) {
        return;
    }
    coffer__finding *finding = coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "odd_dtype", name,
                                                     "%" PRIu64 " tensor%s %s, such as this one of %s: %s", odd->count,
                                                     odd->count == 1 ? "" : "s", odd->count == 1 ? "is odd" : "are odd",
                                                     coffer_dtype_name(odd->first->dtype), why);
    coffer__doctor_about(folder->doctor, finding, odd->first->name, odd->first->name_len);
    if (folder->input == NULL) {
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "ls", "--dtypes", path));
    }
}

void coffer__doctor_check_odd_dtypes(const coffer__doctor_folder *folder, const char *name, const char *path,
                                     const coffer *model)
{
    odd_tensors wide = { .count = 0 };
    odd_tensors whole = { .count = 0 };
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const coffer_kind kind = coffer_dtype_kind(tensor->dtype);
        if (tensor->dtype == COFFER_F64) {
            see_odd(&wide, tensor);
        } else if (is_weight(tensor) && kind != COFFER_KIND_FLOAT) {
            see_odd(&whole, tensor);
        }
    }
    tell_odd(folder, name, path, &wide, "no model is computed in F64, and loaders convert it");
    tell_odd(folder, name, path, &whole,
             "weights are floats, unless they are quantised, and config.json has no quantization_config");
}
