/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COFFER_JS_COLUMNS_H
#define COFFER_JS_COLUMNS_H

#include "js.h"

/* Writes the table to js_state, as columns. */
coffer_status js_columns(const coffer_table *table);

#endif
