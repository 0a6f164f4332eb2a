# SPDX-License-Identifier: Apache-2.0
"""Draws what matters most of the table of the benchmarks as a chart, and puts the table into its document.

    tools/assurance/bench_chart.py draw TABLE.json CHART.svg      a bar for each row of CHOSEN, on a logarithmic scale around 1
    tools/assurance/bench_chart.py publish TABLE.md DOCUMENT      the table between the document's two marks

The chart is a file of its own that needs no script and no font, and brings its own paper, light or dark as the reader's
system has it, because the page around it may be either.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH = 960
LEFT = 500  # where the bars' part begins; names stand before it
RIGHT = 70  # what is left behind it for figures
LINE = 22
HEAD = 26
# The rows that are drawn, by the beginnings of name, rival and state; each tells of another use.
CHOSEN = [
    ("header: Llama 70B", "simdjson", "warm"),
    ("open file: Llama 70B", "reference", ""),
    ("Python: torch load_file, GPT-2", "safetensors", ""),
    ("Python: get_slice of a column block of 1 GB", "safetensors", ""),
    ("replace 1 GB, default", "reference", ""),
    ("hub 50 ms away, 160 files: coffer.hub", "huggingface_hub", ""),
    ("read 1 GB, one tensor", "2 threads, pread", ""),
    ("verify by xxh3-128, 1 thread", "xxhsum", ""),
]
STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .paper { fill: #ffffff }
    .small { font-size: 11px; fill: #59636e }
    .group { font-weight: 600 }
    .one { stroke: #59636e; stroke-width: 1.5 }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .better { fill: #2a7de1 }
    .worse { fill: #c4681c }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc }
        .paper { fill: #0d1117 }
        .small { fill: #9198a1 }
        .one { stroke: #9198a1 }
        .grid { stroke: #3d444d }
        .better { fill: #4c97f5 }
        .worse { fill: #e08b45 }
    }
"""


def text(x, y, words, kind="", anchor="start"):
    """One line of text; `kind` is its class."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x, top, bottom, kind):
    """A vertical line."""
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{bottom:.0f}" class="{kind}"/>'


def digits(ratio):
    """The ratio with the digits that count."""
    return f"{ratio:.0f}" if ratio >= 99.5 else f"{ratio:.1f}" if ratio >= 9.95 else f"{ratio:.2f}"


def ticks(low, high):
    """The round ratios from `low` to `high`."""
    steps = (0.01, 0.1, 0.25, 0.5, 1, 2, 4, 10, 25, 100, 250, 1000, 10000)
    return [step for step in steps if low <= step <= high]


def chosen(rows):
    """The rows of CHOSEN, in its order. A part of the benchmarks has a part of them."""
    found = []
    for name, other, state in CHOSEN:
        found += [row for row in rows if row["ratio"] is not None and row["name"].startswith(name) and
                  row["other"].startswith(other) and row["state"].startswith(state)][:1]
    return found


def draw_bar(row, y, place):
    """The parts of one row whose text stands on `y`."""
    ratio = row["ratio"]
    one, end = place(1), place(ratio)
    kind = "better" if ratio >= 1 else "worse"
    left, width = min(one, end), max(abs(end - one), 1)
    tip = f'{row["name"]} beside {row["other"]}: {digits(ratio)} times as good ({row["state"]})'
    return [
        text(0, y, row["name"]),
        text(LEFT - 12, y, row["other"], "small", "end"),
        f'<rect x="{left:.1f}" y="{y - 11:.0f}" width="{width:.1f}" height="14" class="{kind}">'
        f"<title>{escape(tip)}</title></rect>",
        text(max(one, end) + 6, y, digits(ratio)),
    ]


def draw(table):
    """The whole picture."""
    rows = chosen(table["rows"])
    ratios = [row["ratio"] for row in rows] + [0.5, 2]
    low, high = math.log(min(ratios)) - 0.1, math.log(max(ratios)) + 0.1

    def place(ratio):
        return LEFT + (math.log(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    top = HEAD
    bottom = top + LINE * len(rows)
    marks = ticks(math.exp(low), math.exp(high))
    parts = [text(0, top - 6, "How many times as fast as the other", "group")]
    parts += [line(place(tick), top, bottom, "grid") for tick in marks]
    for number, row in enumerate(rows, 1):
        parts += draw_bar(row, top + LINE * number - 6, place)
    parts.append(line(place(1), top, bottom, "one"))
    parts += [text(place(tick), bottom + 14, f"{tick:g}", "small", "middle") for tick in marks]
    y = bottom + 36
    parts.append(text(0, y, table["state"], "small"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 20} {y + 10}" role="img">'
    paper = f'<rect x="-10" width="{WIDTH + 20}" height="{y + 10}" class="paper"/>'
    title = "<title>Coffer's benchmarks</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", paper, *parts, "</svg>", ""])


def publish(table, document):
    """The document's text with the table in its place."""
    begin, end = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"
    before, rest = document.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"


def main():
    order, source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        given = file.read()
    if order == "draw":
        made = draw(json.loads(given))
    else:
        with open(target, encoding="utf-8") as file:
            made = publish(given, file.read())
    with open(target, "w", encoding="utf-8") as file:
        file.write(made)


main()
