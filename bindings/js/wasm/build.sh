#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles src/core, src/format and the shim to one WebAssembly module.
#
#   bindings/js/wasm/build.sh FOLDER    writes FOLDER/coffer.wasm
#
# It takes clang, lld and wasm-opt (binaryen): no C library, no emscripten. The same tools give the same bytes, wherever the
# checkout lies. The module imports nothing, and exports what exports.txt lists; a test sees to that, and to its size.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)

compile=(
    clang --target=wasm32 -std=c11 -Oz -mbulk-memory -mmutable-globals -msign-ext -mnontrapping-fptoint
    -ffreestanding -nostdlibinc -isystem "$here/libc" -fvisibility=hidden -ffunction-sections -fdata-sections
    -fno-ident -ffile-prefix-map="$root=." -Wall -Wextra -Werror -Wno-missing-prototypes
    -I "$root/include" -I "$root/src/core" -I "$root/src/format" -I "$here"
)
link=(
    clang --target=wasm32 -nostdlib -fuse-ld=lld -Wl,--no-entry -Wl,--gc-sections -Wl,--strip-all
    -Wl,-O2 -Wl,-z,stack-size=65536 -Wl,--stack-first
)

objects=$out/objects
rm -rf "$objects"
mkdir -p "$objects"
sources=("$root"/src/core/*.c "$root"/src/format/*.c "$here"/*.c)
for source in "${sources[@]}"; do
    echo "$source"
done | xargs -P "${JOBS:-1}" -I{} sh -c 'source=$1; folder=$2; shift 2
    exec "$@" -c "$source" -o "$folder/$(basename "$source" .c).o"' sh {} "$objects" "${compile[@]}"

"${link[@]}" "$objects"/*.o -o "$objects/linked.wasm"
wasm-opt -Oz --converge --enable-bulk-memory --enable-sign-ext --enable-nontrapping-float-to-int --enable-mutable-globals \
    "$objects/linked.wasm" -o "$out/coffer.wasm"
rm -rf "$objects"
