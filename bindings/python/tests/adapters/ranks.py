# SPDX-License-Identifier: Apache-2.0
"""Runs a function in several processes that talk to each other by torch.distributed on the CPU."""

import datetime
import traceback

import torch.distributed as dist
import torch.multiprocessing as mp


def run(function, world, folder, *arguments, dead=()):
    """`function(rank, world, *arguments)` in each of them; what each gave back, in the order of the ranks, but for those that are
    dead by then."""
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_entry, (function, world, str(folder / "meeting"), results, arguments, dead), nprocs=world)
    found = dict(results.get() for _ in range(world - len(dead)))
    return [found[rank] for rank in sorted(found)]


def _entry(rank, function, world, meeting, results, arguments, dead):
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timeout)
    try:
        results.put((rank, function(rank, world, *arguments)))
    except BaseException:
        traceback.print_exc()
        raise
    if not dead:
        dist.barrier()
    dist.destroy_process_group()
