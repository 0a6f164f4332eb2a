#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the page that `coffer report` writes, build/web/index.html, before the command is built, where that takes nothing that is
# not there yet: Node 20 or newer and what `make web` installs. Else it says nothing and changes nothing, and the command is built
# without a page. So `make` needs no Node, and gives who works on the page the page.
#
# A page that is newer than its sources is left as it is. A page that does not build is a warning: the command is built all the
# same, with the page that was there before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

page=build/web/index.html

installed() { # installed FOLDER: what its lock file pins is there
    cmp -s "$1/package-lock.json" "$1/node_modules/.installed-lock.json"
}

can_be_built() {
    [ -x tools/build/web.sh ] && installed web && installed bindings/js && tools/build/setup.sh node >/dev/null
}

is_new() {
    [ -f "$page" ] && [ -z "$(find web bindings/js/{src,wasm,scripts} include src/core src/format src/codec tools/build/web.sh -type f \
        -newer "$page" -not -path '*/node_modules/*' -not -path '*/generated/*' -print -quit)" ]
}

if can_be_built && ! is_new; then
    mkdir -p build/web
    if ! tools/build/web.sh build >build/web/build.log 2>&1; then
        tail -n 5 build/web/build.log >&2
        echo "page: the page of coffer report could not be built; all that was said is in build/web/build.log" >&2
    fi
fi
