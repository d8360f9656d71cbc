"""Times a trial as often as the budget allows."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist

from experiments.measure.cases import Site, Trial, barrier
from experiments.measure.points import FEWEST_REPETITIONS, MeasurementPlan
from experiments.measure.result_rows import Times


def sample(trial: Trial, site: Site, plan: MeasurementPlan) -> tuple[Times, int]:
    """Seconds of each repetition at each rank, shape (ranks, repetitions), and wrong elements.

    Before each repetition the buffers are reset and all ranks meet in a barrier. Each rank then
    times its own call. The last repetition of the warm-up tells how many fit into the budget.
    """
    once = _timed(trial, site)
    wrong, cycle = 0, 0.0
    for _ in range(plan.warmup):
        begin = time.monotonic()
        once()
        wrong += trial.wrong()
        cycle = time.monotonic() - begin
    repetitions = _repetitions(plan, _most(cycle, site))
    seconds = np.empty(repetitions)
    for repetition in range(repetitions):
        seconds[repetition] = once()
        wrong += trial.wrong()
    return _from_all(seconds, site), _in_all(wrong, site)


def _repetitions(plan: MeasurementPlan, cycle: float) -> int:
    fit = plan.budget / cycle if cycle > 0 else plan.repetitions
    return int(min(plan.repetitions, max(FEWEST_REPETITIONS, fit)))


def _timed(trial: Trial, site: Site) -> Callable[[], float]:
    return _by_events(trial, site) if site.device.type == "cuda" else _by_clock(trial, site)


def _by_clock(trial: Trial, site: Site) -> Callable[[], float]:
    def once() -> float:
        trial.reset()
        barrier(site.backend, site.device)
        begin = time.perf_counter()
        trial.run()
        return time.perf_counter() - begin

    return once


def _by_events(trial: Trial, site: Site) -> Callable[[], float]:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def once() -> float:
        trial.reset()
        torch.cuda.synchronize()
        barrier(site.backend, site.device)
        begin.record()
        trial.run()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    return once


def _most(value: float, site: Site) -> float:
    number = torch.tensor([value], dtype=torch.float64, device=site.device)
    dist.all_reduce(number, dist.ReduceOp.MAX)
    return float(number.item())


def _in_all(value: int, site: Site) -> int:
    number = torch.tensor([value], dtype=torch.int64, device=site.device)
    dist.all_reduce(number)
    return int(number.item())


def _from_all(seconds: Times, site: Site) -> Times:
    times = torch.from_numpy(seconds).to(site.device)
    columns = [torch.empty_like(times) for _ in range(site.ranks)]
    dist.all_gather(columns, times)
    return np.stack([column.cpu().numpy() for column in columns])
