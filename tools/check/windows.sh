#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tries what was built for Windows in build/port-windows, by Wine: the command on the vectors, on names that are long, are not
# ASCII, or have backslashes, on Ctrl-C, and on the golden cases that tests/windows/goldens.txt names.
#
#   tools/check/windows.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
coffer=$work/coffer
printf '#!/bin/sh\nexec "%s/tools/check/wine.sh" "%s/build/port-windows/coffer.exe" "$@"\n' "$PWD" "$PWD" >"$coffer"
chmod +x "$coffer"

trap 'rm -rf "$work"' EXIT

fail() {
    echo "windows: $*" >&2
    exit 1
}

# The vectors have the verdicts in their names.
try_vectors() {
    local sound=(tests/vectors/ok_*.safetensors) broken=(tests/vectors/err_*.safetensors) said
    "$coffer" check "${sound[@]}" >/dev/null || fail 'check: a sound vector was refused'
    said=$("$coffer" check "${broken[@]}" 2>&1 >/dev/null) && fail 'check: no error in broken vectors'
    grep -q "^coffer: 0 of ${#broken[@]} files are ok; ${#broken[@]} fail, 0 could not be read" <<<"$said" ||
        fail "check: a broken vector was taken: $(tail -1 <<<"$said")"
    echo "vectors: ${#sound[@]} sound, ${#broken[@]} broken"
}

# Messages are those of this system: its libraries, and no package manager of another one.
try_words() {
    local folder=$work/words
    mkdir "$folder"
    cp "$(ls tests/vectors/ok_*.safetensors | head -n 1)" "$folder/model.safetensors"
    (
        cd "$folder"
        "$coffer" info https://127.0.0.1:1/model.safetensors || true
        "$coffer" devices || true
        "$coffer" help extract-lora
        "$coffer" hash model.safetensors --sign key.pem -o bundle || true
    ) >"$folder/said" 2>&1
    ! grep -E '\.so\b|apt install|docker' "$folder/said" || fail 'messages name what Windows does not have'
    echo 'words: those of this system'
}

# Names that are long, are not ASCII, or have backslashes; lines that end in \n alone.
try_names() {
    local folder=$work/names long models file
    models=(tests/vectors/ok_*.safetensors)
    long=$(printf 'a-folder-of-fifty-signs-so-that-a-few-of-them-do/%.0s' 1 2 3 4 5 6 7)
    mkdir -p "$folder/$long" "$folder/Größe"
    for file in "${long}model.safetensors" 'Größe/模型.safetensors' 'Größe/model.safetensors'; do
        cp "${models[0]}" "$folder/$file"
        (cd "$folder" && "$coffer" check "$file") >/dev/null || fail "check $file"
        (cd "$folder" && "$coffer" meta "$file" --set tried=yes) >/dev/null 2>&1 || fail "meta --set $file"
        (cd "$folder" && "$coffer" meta "$file") | grep "tried.*yes$" >/dev/null || fail "meta $file"
        (cd "$folder" && "$coffer" check "${file//\//\\}") >/dev/null || fail "check ${file//\//\\}"
    done
    (cd "$folder" && "$coffer" ls Größe/model.safetensors) | grep $'\r' >/dev/null && fail 'lines end in more than \n'
    echo "names: long, in UTF-8 and with backslashes"
}

# Ctrl-C while a file is written: Wine makes one of SIGINT. A program that this shell starts in a group of its own does not ignore it.
try_interrupt() {
    local folder=$work/interrupt pid code=0 header='{"t":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}}'
    mkdir "$folder"
    python3 - "$header" "$folder/model.safetensors" <<'END'
import struct, sys
header = sys.argv[1].encode()
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    file.truncate(8 + len(header) + 2_000_000_000)
END
    set -m
    "$coffer" cast "$folder/model.safetensors" '*=F16' -o "$folder/out.safetensors" </dev/null >/dev/null 2>"$work/said" &
    pid=$!
    set +m
    until compgen -G "$folder/.out*" >/dev/null; do
        kill -0 $pid 2>/dev/null || fail "interrupt: it ended by itself: $(cat "$work/said")"
        sleep 0.1
    done
    kill -INT $pid
    wait $pid || code=$?
    [ $code -eq $((0xC000013A & 0xFF)) ] || fail "interrupt: exit code $code"
    grep -q '^coffer: interrupted' "$work/said" || fail "interrupt: $(cat "$work/said")"
    [ "$(ls -A "$folder")" = model.safetensors ] || fail "interrupt: it left $(ls -A "$folder")"
    echo 'interrupt: said, and nothing left'
}

try_goldens() {
    local cases
    mapfile -t cases < <(sed -n 's,^[a-z]*/[a-z_]*$,tests/python/test_golden.py::test_case[&],p' tests/windows/goldens.txt)
    COFFER_SOURCE_DIR=$PWD COFFER_CLI=$coffer .venv/bin/python -m pytest -q --tb=short -p no:cacheprovider "${cases[@]}"
}

try_vectors
try_words
try_names
try_interrupt
try_goldens
