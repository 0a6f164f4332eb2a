/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, with the headers that it wants in front of it. */
#ifndef COFFER_TESTS_SUPPORT_CMOCKA_H
#define COFFER_TESTS_SUPPORT_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
