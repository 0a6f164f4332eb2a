# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of conversions share: tasks that write one output, timed in turns, and a row of tools/assurance/bench.sh."""

import statistics
import time


def seconds(output, task):
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def in_turns(output, rounds, *tasks):
    """Medians of the tasks' seconds; each round runs all of them, and the first one is not counted."""
    all_times = [[seconds(output, task) for task in tasks] for _ in range(rounds + 1)]
    return [statistics.median(times) for times in zip(*all_times[1:], strict=True)]


def row(what, unit, ours, other, others):
    print("ROW", what, unit, f"{ours:g}", other, f"{others:g}", f"{others / ours:g}", "cached", sep="\t", flush=True)
