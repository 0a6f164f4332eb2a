/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for any source: it leaves all reading to the source itself. Memory is copied, URLs are requested, callers'
 * functions are called. Small files are read like that, too, since everything else costs more calls than it saves.
 */
#include "engine_own.h"

const coffer__read_engine coffer__engine_source = { .id = COFFER_ENGINE_BUFFERED, .name = "source" };
