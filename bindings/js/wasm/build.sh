#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the library's sources and the shim to three WebAssembly modules.
#
#   bindings/js/wasm/build.sh FOLDER       writes into FOLDER
#   bindings/js/wasm/build.sh --options    tells how the shim is compiled, one option in a line, for clang-tidy
#
#   coffer.wasm    headers: reading, checking and building them
#   model.wasm     what is wanted of a model besides: its index, slices and values of tensors, statistics
#                  and comparisons of them, and digests; by XXH3 if
#                  xxhash.h is there, whose licence is then in xxhash-license.txt
#   packed.wasm    tensors of packed files, decoded
#
# It takes clang, lld and wasm-opt (binaryen): no C library, no emscripten. The same tools give the same bytes, wherever the
# checkout lies. The modules import nothing, and export what exports.txt, model_exports.txt and packed_exports.txt list; a test sees to that, and
# to their size.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
compile=(
    clang --target=wasm32 -std=c11 -mbulk-memory -mmutable-globals -msign-ext -mnontrapping-fptoint
    -ffreestanding -nostdlibinc -isystem "$here/libc" -fvisibility=hidden -ffunction-sections -fdata-sections
    -fno-ident -ffile-prefix-map="$root=." -Wall -Wextra -Werror -Wno-missing-prototypes
    -I "$root/include" -I "$root/src/core" -I "$root/src/format" -I "$here"
)
model_rooms=(-I "$root/src/hash" -I "$root/src/os" -I "$root/src/io" -I "$root/src/model")
packed_rooms=(-I "$root/src/codec")
if [ "$1" = --options ]; then
    printf '%s\n' "${compile[@]:1}" "${model_rooms[@]}" "${packed_rooms[@]}"
    exit
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
objects=$out/objects

link=(
    clang --target=wasm32 -nostdlib -fuse-ld=lld -Wl,--no-entry -Wl,--gc-sections -Wl,--strip-all
    -Wl,-O2 -Wl,-z,stack-size=131072 -Wl,--stack-first
)
optimise=(
    wasm-opt --converge --enable-bulk-memory --enable-sign-ext --enable-nontrapping-float-to-int --enable-mutable-globals
)

# Compiles a module: its name, how to optimise, other options, --, its sources. What every header passes through is worth
# 7 KB more: it takes two thirds of the time.
make_module() {
    local name=$1 level=$2 options=() folder=$objects/$1
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    mkdir -p "$folder"
    printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -I{} sh -c 'source=$1; folder=$2; shift 2
        case $source in */format/safetensors.c | */core/json.c | */core/table.c) set -- "$@" -Os ;; esac
        exec "$@" -c "$source" -o "$folder/$(basename "$source" .c).o"' sh {} "$folder" "${compile[@]}" "$level" "${options[@]}"
    "${link[@]}" "$folder"/*.o -o "$folder/linked.wasm"
    "${optimise[@]}" "$level" "$folder/linked.wasm" -o "$out/$name.wasm"
}

# The one header that is not ours, in a folder of its own, so that nothing else of the system is included.
find_xxhash() {
    local header
    header=$(echo '#include <xxhash.h>' | clang -M -x c - 2>/dev/null | tr ' \\' '\n\n' | grep '/xxhash\.h$' || true)
    mkdir -p "$objects/xxhash"
    rm -f "$out/xxhash-license.txt"
    if [ -n "$header" ]; then
        cp "$header" "$objects/xxhash"
        # Its licence, which goes along with what is compiled of it, is the comment at its head.
        sed '/\*\//q' "$header" >"$out/xxhash-license.txt"
    fi
}

rm -rf "$objects"
find_xxhash
shim=("$here"/js_{job,memory}.c)
make_module coffer -Oz -- "$root"/src/{core,format}/*.c "${shim[@]}" "$here"/js_{building,columns,questions,reading}.c
make_module model -Os "${model_rooms[@]}" -isystem "$objects/xxhash" -- \
    "$root"/src/core/*.c "$root"/src/format/sniff.c "$root"/src/hash/{hash,sha256_portable,xxh3}.c \
    "$root"/src/model/{folder_names,index,missing,model_dir_name,names,shard_name}.c "$root"/src/io/path_text.c \
    "${shim[@]}" "$here"/js_{folder,hash,index,numbers,texts,values}.c
make_module packed -O2 "${packed_rooms[@]}" -- "$root"/src/core/*.c \
    "$root"/src/codec/{huffman,huffman_read,packed_head,packed_planes,unpack,xxh3_64}.c "${shim[@]}" "$here"/js_packed.c
rm -rf "$objects"
