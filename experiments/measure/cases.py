"""One point, ready to run: its tensors, the call that is timed, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from experiments.measure import interpreter
from experiments.measure.interpreter import Parcel
from experiments.measure.patterns import Piece, Values, chunk, promise
from experiments.measure.points import Point, schedule_of
from experiments.measure.program import Message, compile_program
from experiments.measure.slot_layout import Span
from experiments.measure.transport import transport_for


@dataclass(frozen=True)
class Site:
    """Where a case runs: this rank among `ranks`, its device, and the numbers that all ranks begin
    with."""

    rank: int
    ranks: int
    backend: str
    device: torch.device
    dtype: torch.dtype
    values: Values

    def tensor(self, pieces: list[Piece]) -> torch.Tensor:
        """Whole numbers on the device; none of no pieces."""
        if not pieces:
            return self.empty(0)
        return torch.from_numpy(self.values.of(pieces)).to(self.device, self.dtype)

    def empty(self, elements: int) -> torch.Tensor:
        """Zeros on the device."""
        return torch.zeros(elements, dtype=self.dtype, device=self.device)


@dataclass(frozen=True)
class Case:
    """`reset` before every `run`; then `result` has to equal `expected`, unless that is empty."""

    reset: Callable[[], object]
    run: Callable[[], object]
    result: torch.Tensor
    expected: torch.Tensor

    def wrong(self) -> int:
        """How many elements are not what they have to be."""
        return int((self.result != self.expected).sum()) if len(self.expected) else 0


def prepare(point: Point, site: Site) -> Case:
    """The case of a point at this rank."""
    expected = site.tensor(promise(point.collective, site.rank, site.ranks, point.elements))
    own = site.tensor([Piece(site.rank, 0, point.elements)]) if point.elements else site.empty(0)
    if point.algorithm:
        return _ours(point, site, own, expected)
    reset, run, result = LIBRARY[point.collective](own, site)
    return Case(reset, run, result, expected)


def _ours(point: Point, site: Site, own: torch.Tensor, expected: torch.Tensor) -> Case:
    """An algorithm of ours on memory that begins with the buffer; the rest is zero before every
    run."""
    transport = transport_for(site.backend, site.device)
    schedule = schedule_of(point.algorithm, site.ranks, float(point.size_bytes))
    program = compile_program(schedule, site.rank, point.elements, tagged=transport.tagged)
    memory = site.empty(program.size)
    steps = interpreter.bind(program, memory, transport)
    begin = 0
    if point.collective == "reduce_scatter":
        begin = chunk(None, site.rank, site.ranks, point.elements).begin

    def reset() -> None:
        memory[: point.elements].copy_(own)
        memory[point.elements :].zero_()

    return Case(
        reset, partial(interpreter.run, steps), memory[begin : begin + len(expected)], expected
    )


_Parts = tuple[Callable[[], object], Callable[[], object], torch.Tensor]


def _in_place(call: Callable[[torch.Tensor], object], own: torch.Tensor) -> _Parts:
    buffer = torch.empty_like(own)
    return partial(buffer.copy_, own), partial(call, buffer), buffer


def _all_reduce(own: torch.Tensor, site: Site) -> _Parts:
    return _in_place(dist.all_reduce, own)


def _broadcast(own: torch.Tensor, site: Site) -> _Parts:
    return _in_place(partial(dist.broadcast, src=0), own)


def _reduce(own: torch.Tensor, site: Site) -> _Parts:
    return _in_place(partial(dist.reduce, dst=0), own)


def _all_gather(own: torch.Tensor, site: Site) -> _Parts:
    call = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    whole = torch.empty_like(own)
    return whole.zero_, partial(call, whole, own.chunk(site.ranks)[site.rank].clone()), whole


def _reduce_scatter(own: torch.Tensor, site: Site) -> _Parts:
    call = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    part = site.empty(len(own) // site.ranks)
    return part.zero_, partial(call, part, own), part


def _all_to_all(own: torch.Tensor, site: Site) -> _Parts:
    whole = torch.empty_like(own)
    return whole.zero_, partial(dist.all_to_all_single, whole, own), whole


def _scatter(own: torch.Tensor, site: Site) -> _Parts:
    part = site.empty(len(own) // site.ranks)
    parts = None if site.rank else list(own.chunk(site.ranks))
    return part.zero_, partial(dist.scatter, part, parts, src=0), part


def _gather(own: torch.Tensor, site: Site) -> _Parts:
    whole = torch.empty_like(own)
    parts = None if site.rank else list(whole.chunk(site.ranks))
    return (
        whole.zero_,
        partial(dist.gather, own.chunk(site.ranks)[site.rank].clone(), parts, dst=0),
        whole,
    )


def _send_recv(own: torch.Tensor, site: Site) -> _Parts:
    received, span = torch.empty_like(own), Span(0, len(own))
    behind, ahead = (site.rank - 1) % site.ranks, (site.rank + 1) % site.ranks
    parcels = [
        Parcel(Message(0, False, behind, span), received),
        Parcel(Message(0, True, ahead, span), own),
    ]
    begin = transport_for(site.backend, site.device).prepare(parcels)
    return received.zero_, partial(_exchange, begin), received


def _exchange(begin: Callable[[], Sequence[Any]]) -> None:
    for handle in begin():
        handle.wait()


def _barrier(own: torch.Tensor, site: Site) -> _Parts:
    return own.zero_, partial(barrier, site.backend, site.device), own


def barrier(backend: str, device: torch.device) -> None:
    """Wait for all ranks."""
    dist.barrier(device_ids=[device.index] if backend == "nccl" else None)


LIBRARY: dict[str, Callable[[torch.Tensor, Site], _Parts]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "scatter": _scatter,
    "gather": _gather,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
    "barrier": _barrier,
}
"""What resets, what runs, and where the result then is."""
