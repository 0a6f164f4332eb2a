#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles CPython 3.11 for another Linux on x86-64, by Zig's clang: with zlib and libffi, without OpenSSL and what else the Python
# package's tests do not use. Little is optimised, so that it takes minutes.
#
#   tools/build/compile_python.sh FOLDER LIBC    the sources are in FOLDER/python3.11, FOLDER/zlib and FOLDER/libffi, and it becomes /opt/python
#                                          of the root FOLDER/system; LIBC is musl, or gnu.VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

zig=$PWD/build/zig-venv/bin
python=$PWD/build/python-venv/bin/python
target=x86_64-linux-$2
host=x86_64-linux-${2%%.*}
# CPython's configure takes the libc from the name of the machine that compiles, and takes two equal names for one machine.
build=x86_64-pc-linux-${2%%.*}
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig-cache
# CPython's configure refuses a readelf without a folder as this machine's own; it reads the files of every machine.
READELF=$(command -v readelf)
export READELF CC="$zig/zig-cc -target $target" AR=$zig/zig-ar RANLIB=$zig/zig-ranlib
export CFLAGS='-O1 -fPIC -fno-sanitize=all -Wno-date-time -Wno-unused-command-line-argument'
cd "$1"
root=$PWD/system
libraries=$PWD/libraries
export PKG_CONFIG_LIBDIR=$libraries/lib/pkgconfig

(
    cd zlib
    CHOST=$host ./configure --static --prefix="$libraries"
    make install
)
(
    cd libffi
    ./configure --host="$host" --build="$build" --prefix="$libraries" --disable-shared --disable-docs --disable-exec-static-tramp \
        --disable-multi-os-directory
    make install
)
(
    cd python3.11
    # This takes this machine's headers for the other's.
    sed -i 's/self\.add_\(multiarch\|cross_compiling\)_paths()/pass/' setup.py
    export OPT=-DNDEBUG CPPFLAGS=-I$libraries/include LDFLAGS="-dynamic -s -L$libraries/lib"
    # The last three are what configure would run programs for.
    ./configure --host="$host" --build="$build" --prefix=/opt/python --with-build-python="$python" --without-ensurepip \
        --disable-test-modules ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no
    make -j "${JOBS:-$(nproc)}"
    make install DESTDIR="$root"
)
