#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows by Frama-C's Eva that src/core is free of undefined behaviour, for the inputs that proofs/README.md bounds.
#
#   tools/prove.sh              every driver; fails on an alarm, and on a statement that no driver reaches and no one excused
#   tools/prove.sh --long       the same with one driver more, of many chosen headers, which takes longer than all the others
#   tools/prove.sh --self-test  plants defects in copies of the sources, each of which has to raise an alarm
#
# What the analyser says goes to build/prove/DRIVER.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
logs=$root/build/prove
jobs=${JOBS:-$(nproc)}
long=0
mkdir -p "$logs"

# Driver, how many paths may stay apart, and the sources beside it.
reader='json.c text.c ../../proofs/fail.c'
parser="parse.c intake.c safetensors.c table.c json_skip.c sort.c dtype.c alloc.c sniff.c $reader"
drivers() {
    cat <<END
bytes 20000 table.c sort.c alloc.c dtype.c text.c ../../proofs/fail.c
text 30000 text.c
json 30000 $reader
skip 30000 json_skip.c sort.c alloc.c $reader
parse 100000 $parser
bintensors 100000 bintensors.c $parser
header 100000 header.c $parser
slice 6000 slice.c dtype.c ../../proofs/fail.c
slice_text 30000 slice_text.c ../../proofs/fail.c
error 30000 error.c text.c
values 30000 values.c dtype.c
sniff 30000 sniff.c ../../proofs/fail.c
END
    [ "$long" = 0 ] || echo "chosen 100000 $parser"
}

# analyse TREE LOG DRIVER PATHS SOURCE...
analyse() {
    local tree=$1 log=$2 driver=$3 paths=$4
    shift 4
    local begin=$SECONDS special=nan
    # Elements may be NaN; nothing else may be.
    [ "$driver" != values ] || special=none
    (
        cd "$tree"
        ulimit -s "$(ulimit -Hs)" # the analyser goes deep where texts are long
        timeout "${PROVE_SECONDS:-$((300 + long * 6000))}" frama-c -c11 -machdep gcc_x86_64 \
            -cpp-extra-args="-Iinclude -Isrc/core -Iproofs -U__SSE2__ -include proofs/libc.h" \
            -eva -eva-no-print -eva-no-show-progress -eva-slevel "$paths" -eva-slevel-function main:0 \
            -eva-split-return full -eva-alloc-builtin fresh -warn-invalid-pointer -warn-special-float "$special" \
            "proofs/prove_$driver.c" "${@/#/src/core/}" -metrics -metrics-eva-cover
    ) >"$log" 2>&1 || echo "the analyser failed or took too long" >>"$log"
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

# FUNCTION REACHED TOTAL of the library's functions in all logs; the best that a driver did for each.
coverage() {
    awk '
        function base(name) { sub(/_[0-9]+$/, "", name); return name }
        /\[metrics\] Defined functions/ { defined = 1; next }
        /Specified-only functions/ { defined = 0 }
        defined { line = $0; while (match(line, /[A-Za-z_][A-Za-z0-9_]* \([0-9]+ calls?\)/)) {
                name = substr(line, RSTART, RLENGTH); sub(/ .*/, "", name); all[base(name)] = 1
                line = substr(line, RSTART + RLENGTH) } }
        / stmts out of / { sub(/:/, "", $1); name = base($1)
            if (!(name in total) || $6 - $2 < total[name] - reached[name]) { reached[name] = $2; total[name] = $6 } }
        END { for (name in all) print name, reached[name] + 0, total[name] + 0 }' "$@" |
        grep -vE '^(main|prove_[a-z0-9_]*) ' | sort
}

prove() {
    local failed=0 driver paths sources
    rm -f "$logs"/*.log
    while read -r driver paths sources; do
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        # shellcheck disable=SC2086
        analyse "$root" "$logs/$driver.log" "$driver" "$paths" $sources &
    done < <(drivers)
    wait
    while read -r driver paths sources; do
        complaints "$logs/$driver.log" >"$logs/$driver.wrong"
        printf '%-12s %5s s  %s\n' "$driver" "$(cat "$logs/$driver.log.seconds")" \
            "$([ -s "$logs/$driver.wrong" ] && echo 'NOT PROVED' || echo 'no alarm')"
        [ ! -s "$logs/$driver.wrong" ] || { sed 's/^/    /' "$logs/$driver.wrong"; failed=1; }
    done < <(drivers)
    coverage "$logs"/*.log >"$logs/coverage.txt"
    awk '{ functions++; reached += $2; total += $3 } END {
        printf "%d functions, %d of %d statements reached\n", functions, reached, total }' "$logs/coverage.txt"
    # unreached.txt: FUNCTION STATEMENTS REASON; "all" for a function that no driver enters.
    awk 'NR == FNR { if ($1 !~ /^#/ && NF > 2) excused[$1] = $2; next }
        $3 == 0 && excused[$1] != "all" { print "    no driver enters " $1; bad = 1 }
        $3 > $2 && excused[$1] + 0 < $3 - $2 { printf "    %s: %d of %d statements not reached\n", $1, $3 - $2, $3; bad = 1 }
        END { exit bad }' proofs/unreached.txt "$logs/coverage.txt" || { echo 'not excused in proofs/unreached.txt'; failed=1; }
    return "$failed"
}

# ---- Planted defects --------------------------------------------------------------------------------------------------

# plant NAME DRIVER FILE SED: the driver must raise an alarm when the file is changed so.
plant() {
    local name=$1 driver=$2 file=$3 change=$4 tree paths sources
    tree=$(mktemp -d)
    mkdir -p "$tree/src"
    cp -r include proofs "$tree"
    cp -r src/core "$tree/src"
    sed -i -E "$change" "$tree/$file"
    if cmp -s "$file" "$tree/$file"; then
        echo "self-test: $name: the change does not apply to $file any more" >&2
        rm -r "$tree"
        return 1
    fi
    read -r paths sources < <(drivers | awk -v d="$driver" '$1 == d { sub(/^[^ ]+ /, ""); print }')
    # shellcheck disable=SC2086
    analyse "$tree" "$logs/planted.log" "$driver" "$paths" $sources
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
    plant 'padding that is longer than the header' header src/core/header.c \
        's/\(size - COFFER__FRAME_SIZE - text_size\)/(size - text_size)/'
    plant 'a key that is longer than its place' parse src/core/safetensors.c 's/char key\[12\]/char key[11]/'
    plant 'a table that is shorter than it says' parse src/core/table.c \
        's/coffer__alloc\(allocator, size\);/coffer__alloc(allocator, size \/ 2);/'
    plant 'a signature that is longer than the file' sniff src/core/sniff.c 's/size >= row->magic_size \&\& //'
}

case ${1:-} in
'') prove ;;
--long)
    long=1
    prove
    ;;
--self-test) self_test ;;
*)
    echo "usage: tools/prove.sh [--long | --self-test]" >&2
    exit 2
    ;;
esac
