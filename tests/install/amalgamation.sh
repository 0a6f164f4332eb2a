#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The library as one file: compiles without an option and without a warning, serves programs in C11 and in C++17, exports what
# the library exports, and passes the library's own unit tests, whose objects are taken from a build.
#
#   tests/install/amalgamation.sh BUILD
#
# With FULL=1 in the environment also at other levels of optimisation, at which compilers warn of other things.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' "$checkout/include/coffer/base.h")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$checkout/tools/build/amalgamate.py" .
if grep '#include "' coffer.h; then
    echo 'coffer.h needs the headers above beside it' >&2
    exit 1
fi

silently() { # silently COMMAND...: succeeds and says nothing
    "$@" >said 2>&1 || { cat said >&2; echo "failed: $*" >&2; exit 1; }
    [ ! -s said ] || { cat said >&2; echo "said something: $*" >&2; exit 1; }
}

serves() { # serves WHAT PROGRAM
    [ "$("./$2")" = "coffer $version" ] || { echo "$1: the program does not work" >&2; exit 1; }
    echo "ok: $1"
}

levels=(-O2)
[ -z "${FULL:-}" ] || levels=(-O0 -O2 -O3)
strict=(-std=c11 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wvla)
for compiler in gcc clang; do
    for level in "${levels[@]}"; do
        silently "$compiler" "${strict[@]}" "$level" -fPIC -c coffer.c -o "$compiler$level.o"
    done
    silently "$compiler" -c coffer.c
    silently "$compiler" -std=c11 -pedantic -Wall -Wextra -I. "$here/consumer.c" coffer.o -pthread -o from-c
    serves "one file by $compiler, from C11" from-c
    silently "$compiler" -x c++ -std=c++17 -pedantic -Wall -Wextra -I. "$here/consumer.c" -x none coffer.o -pthread -o from-c++
    serves "one file by $compiler, from C++17" from-c++
done

gcc -shared gcc-O2.o -o libone.so
nm -D -P --defined-only libone.so | cut -d ' ' -f 1 | sort >exported
sed 's/(.*//; s/.*[ *]//' "$checkout/tests/abi/functions.txt" | sort >recorded
diff recorded exported
echo "ok: one file exports the $(wc -l <recorded) functions of the library and nothing else"

# Or nothing at all, for a library that has it inside.
silently gcc -O0 -fPIC -shared -fvisibility=hidden -DCOFFER_API= coffer.c -o libnone.so
if nm -D -P --defined-only libnone.so | grep -F coffer_; then
    echo 'COFFER_API= does not hide the functions above' >&2
    exit 1
fi
echo 'ok: one file exports nothing when it is told to'

export COFFER_SOURCE_DIR=$checkout COFFER_VECTORS=$checkout/tests/vectors COFFER_CLI=$build/coffer COFFER_FAKES=$build/tests/fakes
support=$(find "$build/tests" -name 'support*.c.o')
count=0
# But those of the command's own files, which are no part of the library.
for object in $(find "$build/tests" -name 'test_*.c.o' ! -name 'test_cli_*' | sort); do
    # What find printed are words, one each.
    gcc "$object" $support gcc-O2.o -o unit -lcmocka -pthread -lm
    ./unit >said 2>&1 || { cat said >&2; echo "one file fails $(basename "$object" .c.o)" >&2; exit 1; }
    count=$((count + 1))
done
[ "$count" -gt 15 ]
echo "ok: one file passes $count unit tests"
