#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/build/demo.sh BUILD_DIR: writes a model of about 500 MB, build/demo/gpt2.safetensors, and shows what `coffer` does with it, each
# step with its time. The model stays there, to be tried out; `make clean` removes it.
set -euo pipefail

build_dir=${1:?usage: tools/build/demo.sh BUILD_DIR}
model=gpt2.safetensors
need_mb=600

find_program() {
    local path
    for path in "$build_dir/$1" "$build_dir"/{bin,cli,examples}/"$1"; do
        if [ -f "$path" ] && [ -x "$path" ]; then
            (cd "$(dirname "$path")" && echo "$PWD/$1")
            return
        fi
    done
    echo "demo: no program $1 in $build_dir; build it first: make" >&2
    return 1
}

heading() {
    printf '\n%s\n' "$bold== $1 ==$plain"
}

# Shows the command as it is typed, runs it, and shows how long it took.
show() {
    printf '%s\n' "$bold\$ $1$plain"
    local start=${EPOCHREALTIME/[.,]/} end
    eval "$1"
    end=${EPOCHREALTIME/[.,]/}
    printf '%s(%d.%d ms)%s\n' "$dim" $(((end - start) / 1000)) $(((end - start) / 100 % 10)) "$plain"
}

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\033[1m' dim=$'\033[2m' plain=$'\033[0m'
fi

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
coffer_program=$(find_program coffer)
demo_program=$(find_program gpt2_demo)
coffer() { "$coffer_program" "$@"; }
gpt2_demo() { "$demo_program" "$@"; }

directory=build/demo
mkdir -p "$directory"
rm -f "$directory/$model"
free_mb=$(df -Pk -- "$directory" | awk 'NR == 2 { print int($4 / 1024) }')
if [ "$free_mb" -lt "$need_mb" ]; then
    echo "demo: $directory has $free_mb MB free, the demo needs $need_mb" >&2
    exit 1
fi
cd "$directory"
exec 2>&1 # messages stay between the commands that they belong to, in a log too

heading 'A model the shape of GPT-2, written by several threads'
show "gpt2_demo $model"

heading 'What is in it'
show "coffer info $model"

heading 'Its structure, equal layers folded'
show "coffer ls --tree $model"

heading 'Its tensors, the largest first'
show "coffer ls --sort size --limit 8 $model"

heading 'Is it sound?'
show "coffer check $model"

heading 'A slice of a tensor; only its own bytes are read'
show "coffer get $model 'h.0.attn.c_attn.weight[:3, :4]'"
show "coffer get $model wte.weight"

heading 'An edit of the metadata, in place: the data is not touched'
echo 'An edit is durable before it returns, so let the disk first have the model that was just written.'
show "sync $model"
show "coffer meta $model --set license=apache-2.0 --set reviewed=yes"
show "coffer meta $model license"
show "coffer check $model"

cat <<END

${bold}What to try next${plain}
  The command on PATH:  sudo make install, or make install PREFIX=\$HOME/.local
                        or, for this shell: PATH=\$PATH:$(dirname "$coffer_program")
  This model:           coffer ls $directory/$model
  Your own files:       coffer info FILE...
                        coffer check --strict FILE...
  All about a command:  coffer help get
  How it was written:   examples/gpt2_demo.c
  Embed the library:    README.md
END
