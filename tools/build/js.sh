#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the JavaScript package, and with `check` lints and tests it.
#
#   tools/build/js.sh build|check
#
# Uses no network: tools/build/setup.sh js installed what bindings/js/package-lock.json pins. The module is built twice, the second
# time from a copy of the sources in another place, and has to be the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$PWD
package=$root/bindings/js

say() {
    printf '\n== %s\n' "$1"
}

check_deterministic() {
    local elsewhere
    elsewhere=$(mktemp -d)
    trap 'rm -rf "$elsewhere"' RETURN
    mkdir -p "$elsewhere/a checkout/bindings/js"
    cp -r include src "$elsewhere/a checkout"
    cp -r bindings/js/wasm "$elsewhere/a checkout/bindings/js"
    "$elsewhere/a checkout/bindings/js/wasm/build.sh" "$elsewhere/out"
    cmp "$elsewhere/out/coffer.wasm" "$package/build/coffer.wasm"
    cmp "$elsewhere/out/model.wasm" "$package/build/model.wasm"
    cmp "$elsewhere/out/packed.wasm" "$package/build/packed.wasm"
}

if ! node=$(tools/build/setup.sh node); then
    echo 'tools/build/js.sh: there is no Node of version 20 or newer here: run make deps FOR=js first' >&2
    exit 1
fi
export PATH=$node:$PATH
export COFFER_VECTORS=$root/tests/vectors COFFER_PYTHON=$root/.venv/bin/python
# The command that the package is compared with: that of the whole test run, or that of `make js`.
for command in "$root"/build/{release,check-gcc}/coffer; do
    [ ! -x "$command" ] || export COFFER_CLI=$command
done
cd "$package"

# By Deno and Bun, too: those that package-lock.json pins, for the machines that they are built for. What npm installs as
# deno and bun are programs that start them, and these want scripts at installation, which are switched off.
pinned() { # pinned NAME FILE...: the first of the files
    local file
    for file in "${@:2}"; do
        [ ! -x "$file" ] || { echo "$PWD/$file"; return; }
    done
    command -v "$1" || true
}
export COFFER_DENO=${COFFER_DENO-$(pinned deno node_modules/@deno/*/deno)}
export COFFER_BUN=${COFFER_BUN-$(pinned bun node_modules/@oven/*/bin/bun)}

say "building, by node $(node --version)"
node scripts/build.mjs
ls -l dist/*.wasm

if [ "${1:-build}" = check ]; then
    say 'the same again, elsewhere'
    (cd "$root" && check_deterministic)
    say 'linting'
    node_modules/.bin/eslint --max-warnings 0 .
    node_modules/.bin/prettier --check --log-level warn .
    say 'testing'
    node --test --test-reporter=tap tests/*.test.mjs
fi
