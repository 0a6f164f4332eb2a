/* SPDX-License-Identifier: Apache-2.0 */
/* Files that nobody looks for: those whose names are right but for the case of letters, and files of tensors beside an index
   that does not name them. */
#ifndef COFFER_DOCTOR_BESIDE_H
#define COFFER_DOCTOR_BESIDE_H

#include "checkup.h"

/* The entry whose name is this one but for the case of letters; NULL when there is none. */
const coffer__doctor_entry *coffer__doctor_entry_in_any_case(const coffer__doctor_folder *folder, const char *name);
/* Files that loaders would take if their names were in another case. */
void coffer__doctor_check_file_names(const coffer__doctor_folder *folder);
/* A file of tensors that the index which loaders take does not name. */
void coffer__doctor_check_beside(const coffer__doctor_folder *folder, const char *index,
                                 const coffer__doctor_entry *entry);

#endif
