# SPDX-License-Identifier: Apache-2.0
"""Compares the benchmarks of this tree with those of another commit, which is built next to it: tools/assurance/bench.sh --against.

    bench/against.py COMMIT [--rounds N] [--quick] NAME...

Each round runs the named benchmarks of both trees, one after the other, and the next round begins with the other tree. The
figures are medians over the rounds. The ratio of a row is the median of the rounds' ratios: 2 is twice the speed, half the
time or half the memory of the other commit, and the spread is the smallest and largest ratio of a round. A row is called
*slower* or *faster* only where every round says so by more than 2 %; rows that only one of the two trees has are named.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a checkout does not have and set-up has made: environments, and the Hub's own client.
MADE = (".venv", "build/python-venv", "build/frameworks-venv", "build/hub-client")


def git(*arguments, tree=ROOT):
    return subprocess.run(["git", "-C", tree, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def script(tree, name):
    """Where a script of tools is in this tree."""
    found = [path for path in git("ls-files", "tools", tree=tree).splitlines() if path.split("/")[-1] == name]
    if len(found) != 1:
        sys.exit(f"against: {tree} has no tools/{name}")
    return tree / found[0]


def checkout(commit):
    """A tree of the commit, which stays for the next comparison."""
    tree = ROOT / "build/bench/against" / commit
    if not tree.exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", "--force", tree, commit)
    for made in MADE:
        target, link = ROOT / made, tree / made
        if target.exists() and not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(target.resolve())
    return tree


def build(tree):
    subprocess.run([script(tree, "build.sh"), "release"], check=True, stdout=sys.stderr)


def measure(tree, names, quick):
    """{(row, state): (figure of ours, unit)} of one run."""
    env = {**os.environ, "COFFER_BENCH_QUICK": "1" if quick else "0"}
    env.pop("COFFER_BENCH_DIR", None)
    subprocess.run([script(tree, "bench.sh"), *names], check=True, env=env, stdout=subprocess.DEVNULL)
    rows = {}
    for row in json.loads((tree / "build/bench/table.json").read_text())["rows"]:
        if row["ours"]:
            # The figure of ours is the same in each comparison of it.
            rows.setdefault((row["name"], row["state"]), (row["ours"], row["unit"]))
    return rows


def times_as_good(unit, ours, theirs):
    return ours / theirs if unit.endswith("/s") else theirs / ours


def verdict(ratios):
    if min(ratios) > 1.02:
        return "faster"
    return "slower" if max(ratios) < 0.98 else ""


def compare(here, there):
    """(row, unit, this tree's median, the other's, median ratio, smallest, largest) of each row that both have."""
    for key in here[0]:
        if all(key in rows for rows in here + there):
            unit = here[0][key][1]
            ours, theirs = ([rows[key][0] for rows in side] for side in (here, there))
            ratios = [times_as_good(unit, a, b) for a, b in zip(ours, theirs, strict=True)]
            yield key, unit, statistics.median(ours), statistics.median(theirs), ratios


def print_table(here, there, commit):
    print(f"| what | unit | this tree | {commit[:10]} | ratio | spread | |\n|---|---|--:|--:|--:|--:|---|")
    for (name, state), unit, ours, theirs, ratios in compare(here, there):
        print(f"| {name}{', ' + state if state else ''} | {unit} | {ours:.3g} | {theirs:.3g} | {statistics.median(ratios):.2f} | "
              f"{min(ratios):.2f}–{max(ratios):.2f} | {verdict(ratios)} |")
    for rows, where in ((here, "this tree"), (there, commit[:10])):
        others = there if rows is here else here
        for name, state in rows[0].keys() - others[0].keys():
            print(f"\nOnly {where} has: {name}{', ' + state if state else ''}.")


def main():
    parser = argparse.ArgumentParser(prog="tools/assurance/bench.sh --against")
    parser.add_argument("commit")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    commit = git("rev-parse", "--verify", options.commit + "^{commit}")
    trees = [ROOT, checkout(commit)]
    for tree in trees:
        build(tree)
    runs = ([], [])
    for turn in range(options.rounds):
        for side in ((0, 1), (1, 0))[turn % 2]:
            print(f"against: round {turn + 1} of {options.rounds}, {'the other commit' if side else 'this tree'}", file=sys.stderr)
            runs[side].append(measure(trees[side], options.names, options.quick))
    print_table(*runs, commit)


if __name__ == "__main__":
    main()
