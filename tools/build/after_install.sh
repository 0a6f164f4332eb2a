#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/build/after_install.sh PREFIX: sees to it that what was installed is found, and says what is left to do for that.
set -euo pipefail

prefix=$(realpath -m "$1")
# What root wrote into the build would be in the way of whoever has the checkout, when they build or install again.
if [ "$(id -u)" -eq 0 ]; then
    chown -Rh --reference=. build
fi
if [ -n "${DESTDIR:-}" ]; then
    exit 0 # staged for a package, whose own tools do the rest
fi
# As a shell reads it back.
quoted() {
    printf '%q' "$1"
}

library=$(find "$prefix" -maxdepth 3 -name 'libcoffer.so' -print -quit)
# The loader's list of libraries covers the folders that the system names; /usr/local is one of them on Debian.
if [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
echo "Installed under $prefix: coffer, libcoffer, coffer.h"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "  Put the command on PATH:        export PATH=$(quoted "$prefix/bin"):\$PATH" ;;
esac
# All of the list is read: with -q grep would end before ldconfig does, which then fails.
if ! ldconfig -p 2>/dev/null | grep -F "=> $(dirname "$library")/" >/dev/null; then
    echo "  Let programs find the library:  export LD_LIBRARY_PATH=$(quoted "$(dirname "$library")")"
    echo "  Let pkg-config find it:         export PKG_CONFIG_PATH=$(quoted "$(dirname "$library")/pkgconfig")"
fi
