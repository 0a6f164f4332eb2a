#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows by Frama-C's Eva that src/core, src/format and the reader of packed tensors in src/codec are free of undefined behaviour, for
# the inputs that proofs/README.md bounds.
#
#   tools/assurance/prove.sh              every driver; fails on an alarm, and on a statement that no driver reaches and no one excused
#   tools/assurance/prove.sh DRIVER...    these only, whatever is reached
#   tools/assurance/prove.sh --self-test  plants defects in copies of the sources, each of which has to raise an alarm
#
# What the analyser says goes to build/prove/DRIVER-PART.log, what no driver reached to build/prove/unreached.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$PWD
logs=$root/build/prove
jobs=${JOBS:-$(nproc)}
mkdir -p "$logs"

# Driver, in how many parts its inputs are analysed, how many paths may stay apart, and the sources beside it.
reader='json.c text.c ../../proofs/fail.c'
table="table.c json_skip.c sort.c dtype.c alloc.c $reader"
# The table of formats has all of them, so every parser has.
formats='parse.c formats.c frame.c intake.c sniff.c safetensors.c safetensors_write.c bintensors.c bintensors_write.c declared.c'
parser="$formats $table"
drivers() {
    cat <<END
bytes 1 20000 table.c sort.c alloc.c dtype.c text.c ../../proofs/fail.c
text 1 30000 text.c
json 1 30000 $reader
skip 1 30000 json_skip.c sort.c alloc.c $reader
parse 3 100000 $parser
chosen 12 100000 $parser
bintensors 8 100000 $parser
header 4 100000 header.c $parser
slice 1 6000 slice.c box.c slice_text.c dtype.c ../../proofs/fail.c
strides 1 6000 box.c ../../proofs/fail.c
slice_text 1 30000 slice_text.c ../../proofs/fail.c
error 1 30000 error.c text.c
values 1 30000 values.c dtype.c
sniff 3 30000 sniff.c text.c ../../proofs/fail.c
writing 1 30000 writing.c hex.c base64.c json.c alloc.c text.c ../../proofs/fail.c
floats 1 30000 floats.c
packed 1 300 packed_head.c huffman.c xxh3_64.c dtype.c ../../proofs/fail.c
unpack 2 30000 unpack.c packed_head.c packed_planes.c huffman.c huffman_read.c xxh3_64.c dtype.c ../../proofs/fail.c
numbers 6 100 numbers.c distribution.c comparison.c dtype.c ../../proofs/decode.c
END
}

# The sources of a driver, each in its room; what has a path already comes from proofs.
places() {
    local file room
    for file in "$@"; do
        for room in format codec core; do
            [ ! -e "src/$room/$file" ] || break
        done
        echo "src/$room/$file"
    done
}

# analyse TREE LOG DRIVER PART PARTS PATHS SOURCE...
analyse() {
    local tree=$1 log=$2 driver=$3 part=$4 parts=$5 paths=$6
    shift 6
    local begin=$SECONDS special=nan loop=main:0 script sources
    # Elements may be NaN; nothing else may be.
    [[ $driver != values && $driver != floats && $driver != numbers ]] || special=none
    # Its loop runs a few thousand times, and how far it may have come is known only time by time.
    [ "$driver" != numbers ] || loop=main:0,numbers_keep_finite:10000
    mapfile -t sources < <(places "$@")
    script=$(mktemp -d) # the analyser compiles its script where it lies
    cp proofs/reached.ml "$script"
    (
        cd "$tree"
        ulimit -s "$(ulimit -Hs)" # the analyser goes deep where texts are long
        timeout "${PROVE_SECONDS:-600}" frama-c -load-script "$script/reached.ml" -c11 -machdep gcc_x86_64 \
            -cpp-extra-args="-Iinclude -Isrc/core -Isrc/format -Isrc/codec -Iproofs -U__SSE2__ -DPROVE_PART=$part -DPROVE_PARTS=$parts -include proofs/libc.h" \
            -eva -eva-no-print -eva-no-show-progress -eva-slevel "$paths" -eva-slevel-function "$loop" \
            -eva-split-return full -eva-alloc-builtin fresh -warn-invalid-pointer -warn-special-float "$special" \
            "proofs/prove_$driver.c" "${sources[@]}"
    ) >"$log" 2>&1 || echo "the analyser failed or took too long" >>"$log"
    rm -r "$script"
    echo "$((SECONDS - begin))" >"$log.seconds"
}

# What is wrong in a log: alarms, what was not shown, and paths that the analyser gave up.
complaints() {
    grep -A1 -E 'eva:alarm\]|assumed to be dead|the analyser failed|User Error|annot-error\]|missing-spec|implicit-function' "$1" || true
    grep -q '^\[eva\] done for function main' "$1" || echo "the analysis did not come to its end"
    # Bodies are analysed; only the analyser's own functions and these of libc may be taken by their contracts.
    sed -n 's/^\[eva\] using specification for function //p' "$1" |
        grep -vE '^(Frama_C_.*|exit|malloc|calloc|free|memcpy|memmove|memset|strlen)$' | sed 's/^/only a contract is known of /' || true
    awk '/^    (Assertions|Preconditions) / && ($4 > 0 || $6 > 0) { print "not shown:" $0 }' "$1"
}

# FUNCTION FILE:LINE YES|NO for each statement of the library's in any log: whether one of the runs reaches it. A function that
# is compiled more than once goes by one name, without the numbers at its end.
reached() {
    awk '$1 == "reached" && $4 ~ /^src\/(core|format)\// {
            sub(/(_[0-9]+)+$/, "", $2)
            statement = $2 " " $4
            at[$2 " " $3] = statement
            if ($5 == "yes") is_reached[$2 " " $3] = 1 }
        END { for (i in at) print at[i], i in is_reached ? "yes" : "no" }' "$@" | sort
}

# analyse_all DRIVER...: the parts of these drivers, as many at a time as there are jobs.
analyse_all() {
    local driver parts paths sources part
    while read -r driver parts paths sources; do
        [[ " $* " == *" $driver "* ]] || continue
        for ((part = 0; part < parts; part++)); do
            while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
            # shellcheck disable=SC2086
            analyse "$root" "$logs/$driver-$part.log" "$driver" "$part" "$parts" "$paths" $sources &
        done
    done < <(drivers)
    wait
}

# Prints what came of a driver; fails if it is not proved.
verdict() {
    local log wrong=$logs/$1.wrong
    for log in "$logs/$1"-*.log; do complaints "$log"; done >"$wrong"
    printf '%-12s %5s s  %s\n' "$1" "$(cat "$logs/$1"-*.log.seconds | awk '{ sum += $1 } END { print sum }')" \
        "$([ -s "$wrong" ] && echo 'NOT PROVED' || echo 'no alarm')"
    sed 's/^/    /' "$wrong"
    [ ! -s "$wrong" ]
}

# Every source of the two rooms has to be beside a driver, or excused as a whole.
sources_without_driver() {
    local file
    for file in src/core/*.c src/format/*.c; do
        drivers | grep -qw -- "$(basename "$file")" || grep -q "^$(basename "$file") all " proofs/unreached.txt ||
            echo "    no driver has $file"
    done
}

# What no driver reaches has to be in unreached.txt: FUNCTION STATEMENTS REASON; "all" for a function that no driver enters.
unexcused() {
    sources_without_driver
    awk 'NR == FNR { if ($1 !~ /^#/ && NF > 2) excused[$1] = $2; next }
        { total[$1]++; reached[$1] += $3 == "yes" }
        END { for (name in total) {
            left = total[name] - reached[name]
            if (reached[name] == 0 && excused[name] != "all") print "    no driver enters " name
            else if (reached[name] > 0 && left != excused[name] + 0)
                printf "    %s: %d of %d statements not reached, %d excused\n", name, left, total[name], excused[name] }
            for (name in excused) if (name !~ /\./ && (!(name in total) || excused[name] == "all" && reached[name] > 0))
                print "    excused, but reached: " name }' proofs/unreached.txt "$logs/reached.txt" | sort
}

prove() {
    local failed=0 driver chosen=${*:-$(drivers | cut -d' ' -f1)}
    rm -f "$logs"/*.log "$logs"/*.seconds
    # shellcheck disable=SC2086
    analyse_all $chosen
    for driver in $chosen; do verdict "$driver" || failed=1; done
    reached "$logs"/*.log >"$logs/reached.txt"
    awk '$3 == "no" { print $2, $1 }' "$logs/reached.txt" | sort -t: -k1,1 -k2,2n >"$logs/unreached.txt"
    awk '{ functions[$1]; total++; reached += $3 == "yes" } END {
        printf "%d functions, %d of %d statements reached\n", length(functions), reached, total }' "$logs/reached.txt"
    [ $# = 0 ] || return "$failed"
    unexcused >"$logs/unexcused.txt"
    [ ! -s "$logs/unexcused.txt" ] || { echo 'not as in proofs/unreached.txt:'; cat "$logs/unexcused.txt"; failed=1; }
    return "$failed"
}

# ---- Planted defects --------------------------------------------------------------------------------------------------

# plant NAME DRIVER FILE SED [PART PARTS]: the driver must raise an alarm when the file is changed so.
plant() {
    local name=$1 driver=$2 file=$3 change=$4 part=${5:-0} parts=${6:-1} tree paths sources
    tree=$(mktemp -d)
    mkdir -p "$tree/src"
    cp -r include proofs "$tree"
    cp -r src/core src/format src/codec "$tree/src"
    sed -i -E "$change" "$tree/$file"
    if cmp -s "$file" "$tree/$file"; then
        echo "self-test: $name: the change does not apply to $file any more" >&2
        rm -r "$tree"
        return 1
    fi
    read -r paths sources < <(drivers | awk -v d="$driver" '$1 == d { sub(/^[^ ]+ [^ ]+ /, ""); print }')
    # shellcheck disable=SC2086
    analyse "$tree" "$logs/planted.log" "$driver" "$part" "$parts" "$paths" $sources
    rm -r "$tree"
    if grep -qE 'eva:alarm\]' "$logs/planted.log"; then
        echo "self-test: $name raises $(grep -cE 'eva:alarm\]' "$logs/planted.log") alarms"
    else
        echo "self-test: $name raises no alarm" >&2
        return 1
    fi
}

self_test() {
    plant 'a cursor that looks one byte too far' json src/core/json.c \
        's/position < json->in\.length \?/position <= json->in.length ?/'
    plant 'an escape whose length is not checked' json src/core/json.c \
        's/coffer__left\(&json->in\) < skip \+ 4/coffer__left(\&json->in) < skip + 3/'
    plant 'a character that is longer than the text' text src/core/text.c 's/ \|\| size > text_len//'
    plant 'padding that is longer than the header' header src/format/frame.c \
        's/, size - used\)/, size)/'
    plant 'a key that is longer than its place' parse src/format/safetensors.c 's/char key\[12\]/char key[11]/'
    plant 'a table that is shorter than it says' parse src/core/table.c \
        's/coffer__alloc\(allocator, size\);/coffer__alloc(allocator, size \/ 2);/'
    plant 'a bin after the last one' numbers src/core/numbers.c \
        's/histogram->bin_count - 1 :/histogram->bin_count :/' 5 6
    plant 'lengths of streams that leave their chunk' unpack src/codec/unpack.c \
        's/COFFER__PACKED_STREAM_HEAD > chunk->record\.size - at/at > chunk->record.size/'
    plant 'a signature that is longer than the file' sniff src/format/sniff.c 's/size >= row->magic_size \&\& //'
}

case ${1:-} in
--self-test) self_test ;;
-*)
    echo "usage: tools/assurance/prove.sh [DRIVER... | --self-test]" >&2
    exit 2
    ;;
*) prove "$@" ;;
esac
