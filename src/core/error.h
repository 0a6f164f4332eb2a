/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way to fail. Every failure of the library is made here: `return coffer__fail(err, CODE, "...", ...)`.
 * A failure that is not made here has no message; a message that is made elsewhere does not escape what
 * it quotes, and names in it come from files that nobody trusts.
 *
 * The format knows no printf: this room may not use libc's. Its conversions, each taking one argument:
 *   %s  const char *, as it is (our own text)         %u  uint64_t, decimal        %x  uint64_t, hexadecimal with 0x
 *   %d  int64_t, decimal                              %q  const char * then size_t: escaped and quoted, cut when long
 *   %p  const char *, a path: escaped, quoted, with much more space than %q        %%
 *   %z  uint64_t, a number of bytes, with its unit: "20 bytes", "2.2 GB (2200119864 bytes)"
 * Every integer argument must be cast to uint64_t or int64_t where it is not one already.
 */
#ifndef COFFER_CORE_ERROR_H
#define COFFER_CORE_ERROR_H

#include "coffer.h"

#include <stdarg.h>

/*
 * Clears *err (when not NULL) and fills its code and message. Returns `code`, so that a failing
 * line is one line. *err is cleared before the arguments are read: none of them may point into it.
 */
coffer_status coffer__fail(coffer_error *err, coffer_status code, const char *format, ...);
/* The same with the byte of the file where the fault is. */
coffer_status coffer__fail_at(coffer_error *err, coffer_status code, uint64_t offset, const char *format, ...);

/* These add to an error that coffer__fail has filled; they do nothing when err is NULL. Each
   returns `code`. coffer__fail_path keeps both ends of a path that is too long. */
coffer_status coffer__fail_sizes(coffer_error *err, coffer_status code, uint64_t expected, uint64_t actual);
coffer_status coffer__fail_tensor(coffer_error *err, coffer_status code, const char *name, size_t name_len);
coffer_status coffer__fail_path(coffer_error *err, coffer_status code, const char *path);
coffer_status coffer__fail_errno(coffer_error *err, coffer_status code, int os_error);

/* An error with nothing in it: what a call that runs the caller's functions starts from. */
void coffer__error_clear(coffer_error *err);

#endif
