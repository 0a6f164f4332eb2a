/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clang-tidy is told before each file of the library, and no compiler is: that a failure is never COFFER_OK. The
 * analyser looks at one file at a time and cannot know it; it would follow every failed call into the code behind it.
 */
#ifndef COFFER_TOOLS_ANALYSIS_H
#define COFFER_TOOLS_ANALYSIS_H

#include "error.h"

#define coffer__fail(err, code, ...) ((void)coffer__fail(err, code, __VA_ARGS__), (code))
#define coffer__fail_at(err, code, ...) ((void)coffer__fail_at(err, code, __VA_ARGS__), (code))
#define coffer__fail_sizes(err, code, ...) ((void)coffer__fail_sizes(err, code, __VA_ARGS__), (code))
#define coffer__fail_tensor(err, code, ...) ((void)coffer__fail_tensor(err, code, __VA_ARGS__), (code))
#define coffer__fail_path(err, code, ...) ((void)coffer__fail_path(err, code, __VA_ARGS__), (code))
#define coffer__fail_errno(err, code, ...) ((void)coffer__fail_errno(err, code, __VA_ARGS__), (code))

#endif
