#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the page, one file of HTML: build/web/index.html. With `check` also lints and tests it, and compares its sources with those of
# cli/page.html, which is for builds without Node; `prebuilt` replaces that.
#
#   tools/build/web.sh build|check|prebuilt
#
# Uses no network: tools/build/setup.sh web installed what web/package-lock.json and bindings/js/package-lock.json pin. The package
# that the page is made with, bindings/js/dist, is built when it is missing or older than its sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() {
    printf '\n== %s\n' "$1"
}

package_is_old() {
    local built=bindings/js/dist/index.js
    [ ! -f "$built" ] || [ -n "$(find include src bindings/js/{src,wasm,scripts} -type f -newer "$built" \
        -not -path '*/generated/*' -print -quit)" ]
}

PATH=$(tools/build/setup.sh node):$PATH
export PATH
# Reports that the command has written are tests of the page, where there is a command.
export COFFER_CLI=${COFFER_CLI-$PWD/build/check-gcc/coffer}
if package_is_old; then
    tools/build/js.sh build
fi
cd web

say "building, by node $(node --version)"
node_modules/.bin/tsc -p .
node scripts/build.mjs

sources_of() {
    grep -o 'name="coffer-sources" content="[0-9a-f]*"' "$1"
}

if [ "${1:-build}" = prebuilt ]; then
    cp ../build/web/index.html ../cli/page.html
fi

if [ "${1:-build}" = check ]; then
    if [ "$(sources_of ../build/web/index.html)" != "$(sources_of ../cli/page.html)" ]; then
        echo 'web: cli/page.html is not of these sources: tools/build/web.sh prebuilt' >&2
        exit 1
    fi
    say 'the same again'
    node scripts/build.mjs ../build/web/again.html
    cmp ../build/web/index.html ../build/web/again.html
    rm ../build/web/again.html
    say 'linting'
    node_modules/.bin/eslint --max-warnings 0 .
    node_modules/.bin/prettier --check --log-level warn .
    say 'testing'
    node --test --test-reporter=tap tests/*.test.mjs
fi
