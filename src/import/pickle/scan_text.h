/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a pickle as Python would write them, for people who want to know what a loader would have been told. */
#ifndef COFFER_PICKLE_SCAN_TEXT_H
#define COFFER_PICKLE_SCAN_TEXT_H

#include "pickle_classify.h"

#define COFFER__SCAN_TEXT 512

/* Writes a value, NUL-terminated: "os.system('rm -rf /')". What does not fit, and what is nested deeper than a person would
   read, is an ellipsis. Texts are as they are: escape them before they are shown. */
void coffer__scan_render(const coffer__graph *graph, coffer__value value, char text[COFFER__SCAN_TEXT]);

#endif
