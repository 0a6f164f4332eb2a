/* SPDX-License-Identifier: Apache-2.0 */
/* What xxHash's header wants of it. */
#ifndef COFFER_JS_ASSERT_H
#define COFFER_JS_ASSERT_H

#define static_assert _Static_assert

#endif
