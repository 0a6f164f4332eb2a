#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program for Windows by Wine, with a folder for its settings in build/wine and without its messages.
#
#   tools/check/wine.sh PROGRAM.exe [ARGUMENT...]
set -euo pipefail
build=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build
mkdir -p "$build/wine"
# Names of files are in the locale's encoding there.
export LC_ALL=C.UTF-8 WINEPREFIX=$build/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=

# Wine wants one page, 0x7ffe0000, that every program of Windows knows. Its loader lies 48 MB below, and the kernel puts the heap after it
# at a random distance of up to 1 GB: without this, one program in some thousands has its heap there and ends with 1, without a word.
run=()
if setarch -R true 2>/dev/null; then
    run=(setarch -R)
fi

# The first program starts Wine's server and services, which live on with the descriptors of that program: whoever waits for the end
# of its output would wait for them. So they are started by a program without output, and end a minute after the last one.
server=server-$(stat -c %D "$WINEPREFIX")-$(printf '%x' "$(stat -c %i "$WINEPREFIX")")
if ! compgen -G "/tmp/*wine-*/$server/socket" >/dev/null && ! compgen -G "/tmp/.wine-*/$server/socket" >/dev/null; then
    (
        flock 9
        /usr/lib/wine/wineserver64 -p60 9>&- || true
        "${run[@]}" /usr/lib/wine/wine64 cmd /c exit 9>&- || true
    ) </dev/null >/dev/null 2>&1 9>"$build/wine.lock"
fi
exec "${run[@]}" /usr/lib/wine/wine64 "$@"
