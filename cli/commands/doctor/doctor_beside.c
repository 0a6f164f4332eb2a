/* SPDX-License-Identifier: Apache-2.0 */
/* Files that nobody looks for: see doctor_beside.h. */
#include "doctor_beside.h"

#include "cli_text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Names under which loaders look for files. */
static const char *const KNOWN_NAMES[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "model_index.json",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
};

const doctor_entry *doctor_entry_in_any_case(const doctor_folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++) {
        const doctor_entry *entry = &folder->entries[i];
        if (strcasecmp(entry->name, name) == 0 && strcmp(entry->name, name) != 0) {
            return entry;
        }
    }
    return NULL;
}

/* Whether a file may get the name: weights only where loaders find no others, which they would then pass over. */
static bool may_be_called(const doctor_folder *folder, const char *name)
{
    bool may = true;
    const bool weights = strstr(name, ".safetensors") != NULL;
    for (size_t i = 0; i < folder->count && weights && may; i++) {
        const char *other = folder->entries[i].name;
        may = strcasecmp(other, name) == 0 || (!cli_ends_in(other, ".index.json") && !cli_ends_in(other, ".bin"));
    }
    for (size_t i = 0; i < sizeof KNOWN_NAMES / sizeof KNOWN_NAMES[0] && weights && may; i++) {
        may = strstr(KNOWN_NAMES[i], ".safetensors") == NULL || doctor_entry_of(folder, KNOWN_NAMES[i]) == NULL;
    }
    return may;
}

void doctor_check_file_names(const doctor_folder *folder)
{
    for (size_t i = 0; i < sizeof KNOWN_NAMES / sizeof KNOWN_NAMES[0] && folder->only == NULL; i++) {
        const doctor_entry *entry = doctor_entry_in_any_case(folder, KNOWN_NAMES[i]);
        if (entry == NULL || entry->type != DOCTOR_FILE || doctor_entry_of(folder, KNOWN_NAMES[i]) != NULL) {
            continue;
        }
        doctor_finding *finding = doctor_add_in(
            folder, DOCTOR_WARNING, "file_case", entry->name,
            "loaders look for %s, and do not find this file where the case of letters matters", KNOWN_NAMES[i]);
        char *from = doctor_path(folder, entry->name);
        char *to = doctor_path(folder, KNOWN_NAMES[i]);
        if (from != NULL && to != NULL && may_be_called(folder, KNOWN_NAMES[i])) {
            doctor_fix(folder->doctor, finding, DOCTOR_WORDS("mv", "-n", from, to));
        }
        free(from);
        free(to);
    }
}

/* Files of tensors that belong beside an index as they are: those of other loaders, adapters, and variants, whose name continues with a dot: model.fp16.safetensors. */
static bool belongs_beside(const char *name, size_t stem, const char *index)
{
    return strncmp(name, "consolidated", strlen("consolidated")) == 0 ||
           strncmp(name, "adapter_model", strlen("adapter_model")) == 0 ||
           (strncmp(name, index, stem) == 0 && name[stem] == '.');
}

void doctor_check_beside(const doctor_folder *folder, const char *index, const doctor_entry *entry)
{
    const size_t stem = strcspn(index, ".");
    if (belongs_beside(entry->name, stem, index)) {
        return;
    }
    const bool like_a_part = strncmp(entry->name, index, stem) == 0 || strstr(entry->name, "-of-") != NULL;
    doctor_finding *finding =
        doctor_add_in(folder, like_a_part ? DOCTOR_WARNING : DOCTOR_NOTE, "beside_index", entry->name,
                      "%s does not name the file, so that loaders of the model pass over it", index);
    char *path = doctor_path(folder, entry->name);
    if (path != NULL) {
        doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "ls", path));
    }
    free(path);
}
