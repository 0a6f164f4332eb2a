/* SPDX-License-Identifier: Apache-2.0 */
/* Files that nobody looks for: see doctor_beside.h. */
#include "doctor_beside.h"

#include "text.h"

#include <stdlib.h>
#include <string.h>

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

static bool same_in_any_case(const char *a, const char *b)
{
    while (*a != '\0' && coffer__text_lower(*a) == coffer__text_lower(*b)) {
        a++;
        b++;
    }
    return coffer__text_lower(*a) == coffer__text_lower(*b);
}

const coffer__doctor_entry *coffer__doctor_entry_in_any_case(const coffer__doctor_folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++) {
        const coffer__doctor_entry *entry = &folder->entries[i];
        if (same_in_any_case(entry->name, name) && strcmp(entry->name, name) != 0) {
            return entry;
        }
    }
    return NULL;
}

/* Whether a file may get the name: weights only where loaders find no others, which they would then pass over. */
static bool may_be_called(const coffer__doctor_folder *folder, const char *name)
{
    bool may = true;
    const bool weights = strstr(name, ".safetensors") != NULL;
    for (size_t i = 0; i < folder->count && weights && may; i++) {
        const char *other = folder->entries[i].name;
        may = same_in_any_case(other, name) ||
              (!coffer__text_has_ending(other, ".index.json") && !coffer__text_has_ending(other, ".bin"));
    }
    for (size_t i = 0; i < sizeof KNOWN_NAMES / sizeof KNOWN_NAMES[0] && weights && may; i++) {
        may = strstr(KNOWN_NAMES[i], ".safetensors") == NULL || coffer__doctor_entry_of(folder, KNOWN_NAMES[i]) == NULL;
    }
    return may;
}

void coffer__doctor_check_file_names(const coffer__doctor_folder *folder)
{
    for (size_t i = 0; i < sizeof KNOWN_NAMES / sizeof KNOWN_NAMES[0] && folder->only == NULL; i++) {
        const coffer__doctor_entry *entry = coffer__doctor_entry_in_any_case(folder, KNOWN_NAMES[i]);
        if (entry == NULL || entry->type != COFFER__DOCTOR_FILE ||
            coffer__doctor_entry_of(folder, KNOWN_NAMES[i]) != NULL) {
            continue;
        }
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_WARNING, "file_case", entry->name,
            "loaders look for %s, and do not find this file where the case of letters matters", KNOWN_NAMES[i]);
        char *from = coffer__doctor_path(folder, entry->name);
        char *to = coffer__doctor_path(folder, KNOWN_NAMES[i]);
        if (from != NULL && to != NULL && may_be_called(folder, KNOWN_NAMES[i])) {
            coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("mv", "-n", from, to));
        }
        coffer__block_free(from);
        coffer__block_free(to);
    }
}

/* Files of tensors that belong beside an index as they are: those of other loaders, adapters, and variants, whose name continues with a dot: model.fp16.safetensors. */
static bool belongs_beside(const char *name, size_t stem, const char *index)
{
    return strncmp(name, "consolidated", strlen("consolidated")) == 0 ||
           strncmp(name, "adapter_model", strlen("adapter_model")) == 0 ||
           (strncmp(name, index, stem) == 0 && name[stem] == '.');
}

void coffer__doctor_check_beside(const coffer__doctor_folder *folder, const char *index,
                                 const coffer__doctor_entry *entry)
{
    const size_t stem = strcspn(index, ".");
    if (belongs_beside(entry->name, stem, index)) {
        return;
    }
    const bool like_a_part = strncmp(entry->name, index, stem) == 0 || strstr(entry->name, "-of-") != NULL;
    coffer__finding *finding = coffer__doctor_add_in(
        folder, like_a_part ? COFFER_SEVERITY_WARNING : COFFER_SEVERITY_NOTE, "beside_index", entry->name,
        "%s does not name the file, so that loaders of the model pass over it", index);
    char *path = coffer__doctor_path(folder, entry->name);
    if (path != NULL) {
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "ls", path));
    }
    coffer__block_free(path);
}
