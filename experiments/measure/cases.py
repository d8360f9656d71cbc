"""Trials of points on torch's tensors, and their times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from experiments.measure import interpreter
from experiments.measure.device_clock import DeviceClock
from experiments.measure.patterns import BufferValues, Chunk, chunk, promise
from experiments.measure.points import (
    FEWEST_REPETITIONS,
    MeasurementPlan,
    MeasurementPoint,
    schedule_of,
)
from experiments.measure.program import Message, compile_program
from experiments.measure.result_rows import NcclLog
from experiments.measure.transport import transport_for
from topologies.topology import Floats


@dataclass(frozen=True)
class Site:
    """Where trials run."""

    rank: int
    """This rank."""
    ranks: int
    """All ranks."""
    backend: str
    """The backend of torch.distributed."""
    device: torch.device
    """The device of the tensors."""
    dtype: torch.dtype
    """The type of their elements."""
    values: BufferValues
    """The numbers that all ranks begin with."""
    log: NcclLog | None = None
    """What NCCL says, at rank 0."""

    def tensor(self, chunks: list[Chunk]) -> torch.Tensor:
        """The whole numbers of the chunks, on the device."""
        if not chunks:
            return self.empty(0)
        return torch.from_numpy(self.values.of(chunks)).to(self.device, self.dtype)

    def empty(self, elements: int) -> torch.Tensor:
        """Zeros on the device."""
        return torch.zeros(elements, dtype=self.dtype, device=self.device)


@dataclass(frozen=True)
class Trial:
    """A point at this rank, ready to run."""

    reset: Callable[[], object]
    """To call before every run."""
    run: Callable[[], object]
    """The timed call."""
    result: torch.Tensor
    """What the run writes."""
    expected: torch.Tensor
    """What the result has to equal, unless this is empty."""

    def wrong(self) -> int:
        """The number of wrong elements."""
        return int((self.result != self.expected).sum()) if len(self.expected) else 0


def prepare(point: MeasurementPoint, site: Site) -> Trial:
    """The trial of a point at this rank."""
    expected = site.tensor(promise(point.collective, site.rank, site.ranks, point.elements))
    buffer = site.tensor([Chunk(site.rank, 0, point.elements)]) if point.elements else site.empty(0)
    if point.algorithm:
        return _of_schedule(point, site, buffer, expected)
    reset, run, result = LIBRARY[point.collective](buffer, site)
    return Trial(reset, run, result, expected)


def _of_schedule(
    point: MeasurementPoint, site: Site, buffer: torch.Tensor, expected: torch.Tensor
) -> Trial:
    """The trial of a simctl algorithm. Its memory begins with the buffer and zeros."""
    transport = transport_for(site.backend, site.device)
    schedule = schedule_of(point.algorithm, site.ranks, float(point.size_bytes))
    program = compile_program(schedule, site.rank, point.elements, tagged=transport.tagged)
    memory = site.empty(program.size)
    steps = interpreter.bind(program, memory, transport)
    begin = 0
    if point.collective == "reduce_scatter":
        begin = chunk(None, site.rank, site.ranks, point.elements).begin

    def reset() -> None:
        memory[: point.elements].copy_(buffer)
        memory[point.elements :].zero_()

    return Trial(
        reset, partial(interpreter.run, steps), memory[begin : begin + len(expected)], expected
    )


_Call = tuple[Callable[[], object], Callable[[], object], torch.Tensor]
_Prepare = Callable[[torch.Tensor, Site], _Call]


def _in_place(call: Callable[..., object]) -> _Prepare:
    def prepared(source: torch.Tensor, site: Site) -> _Call:
        buffer = torch.empty_like(source)
        return partial(buffer.copy_, source), partial(call, buffer), buffer

    return prepared


def _all_gather(source: torch.Tensor, site: Site) -> _Call:
    call = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    output = torch.empty_like(source)
    return output.zero_, partial(call, output, source.chunk(site.ranks)[site.rank].clone()), output


def _reduce_scatter(source: torch.Tensor, site: Site) -> _Call:
    call = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    part = site.empty(len(source) // site.ranks)
    return part.zero_, partial(call, part, source), part


def _all_to_all(source: torch.Tensor, site: Site) -> _Call:
    output = torch.empty_like(source)
    return output.zero_, partial(dist.all_to_all_single, output, source), output


def _scatter(source: torch.Tensor, site: Site) -> _Call:
    part = site.empty(len(source) // site.ranks)
    parts = None if site.rank else list(source.chunk(site.ranks))
    return part.zero_, partial(dist.scatter, part, parts, src=0), part


def _gather(source: torch.Tensor, site: Site) -> _Call:
    output = torch.empty_like(source)
    parts = None if site.rank else list(output.chunk(site.ranks))
    return (
        output.zero_,
        partial(dist.gather, source.chunk(site.ranks)[site.rank].clone(), parts, dst=0),
        output,
    )


def _send_recv(source: torch.Tensor, site: Site) -> _Call:
    received, span = torch.empty_like(source), slice(0, len(source))
    previous, following = (site.rank - 1) % site.ranks, (site.rank + 1) % site.ranks
    parts = [
        (Message(0, False, previous, span), received),
        (Message(0, True, following, span), source),
    ]
    begin = transport_for(site.backend, site.device).prepare(parts)

    def exchange() -> None:
        for arrive in begin():
            arrive()

    return received.zero_, exchange, received


def _barrier(source: torch.Tensor, site: Site) -> _Call:
    return source.zero_, partial(barrier, site.backend, site.device), source


def barrier(backend: str, device: torch.device) -> None:
    """Wait for all ranks."""
    dist.barrier(device_ids=[device.index] if backend == "nccl" else None)


LIBRARY: dict[str, _Prepare] = {
    "all_reduce": _in_place(dist.all_reduce),
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _in_place(partial(dist.broadcast, src=0)),
    "reduce": _in_place(partial(dist.reduce, dst=0)),
    "scatter": _scatter,
    "gather": _gather,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
    "barrier": _barrier,
}
"""For each collective of the library: what resets, what runs, and the result."""


def sample(trial: Trial, site: Site, plan: MeasurementPlan) -> tuple[Floats, int]:
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
    repetitions = _repetitions(plan, _over_all(cycle, dist.ReduceOp.MAX, site))
    seconds = np.empty(repetitions)
    for repetition in range(repetitions):
        seconds[repetition] = once()
        wrong += trial.wrong()
    return _from_all(seconds, site), int(_over_all(wrong, dist.ReduceOp.SUM, site))


def _repetitions(plan: MeasurementPlan, cycle: float) -> int:
    fit = plan.budget / cycle if cycle > 0 else plan.repetitions
    return int(min(plan.repetitions, max(FEWEST_REPETITIONS, fit)))


def _timed(trial: Trial, site: Site) -> Callable[[], float]:
    clock = DeviceClock(site.device)

    def once() -> float:
        trial.reset()
        if site.device.type == "cuda":
            torch.cuda.synchronize()
        barrier(site.backend, site.device)
        begin = clock.stamp()
        trial.run()
        (seconds,) = clock.since(begin, [clock.stamp()])
        return seconds

    return once


def _over_all(value: float, operation: dist.ReduceOp.RedOpType, site: Site) -> float:
    """The largest value of all ranks, or their sum."""
    number = torch.tensor([value], dtype=torch.float64, device=site.device)
    dist.all_reduce(number, operation)
    return float(number.item())


def _from_all(seconds: Floats, site: Site) -> Floats:
    times = torch.from_numpy(seconds).to(site.device)
    columns = [torch.empty_like(times) for _ in range(site.ranks)]
    dist.all_gather(columns, times)
    return np.stack([column.cpu().numpy() for column in columns])
