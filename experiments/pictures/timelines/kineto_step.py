"""A step of a plan of parallel training as Kineto traces, a file a rank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from experiments.output import provenance
from experiments.pictures.timelines.kineto_document import COLLECTIVES as OF_PHASES
from experiments.pictures.timelines.kineto_document import (
    document,
    events,
    group_record,
    job_record,
    step_event,
)
from experiments.pictures.timelines.trace_file import EVENTS
from experiments.pictures.timelines.trace_folder import kineto_name
from experiments.pictures.timelines.tracks import Boxes, all_computations
from experiments.trace_choice import ALL, TraceChoice
from simulator.parallel.passes import HOST, SEND, STREAMS, TIED
from simulator.parallel.step import Step
from simulator.steps.step_graph import KINDS
from topologies.errors import InputError
from topologies.topology import Ints

KERNELS = {name.replace("-", "_"): kernel for name, kernel in OF_PHASES.items()} | {
    "all_to_all": ("SendRecv", "all_to_allv"),
    "shift": ("SendRecv", "send"),
    "send": ("SendRecv", "send"),
    "dispatch": ("SendRecv", "all_to_allv"),
    "combine": ("SendRecv", "all_to_allv"),
}
"""By collective: the word in the name of NCCL's kernel, and Kineto's collective."""


class _Place(NamedTuple):
    """What each rank of a device of the pipeline does."""

    boxes: Boxes
    about: list[tuple[str, str]]
    """The name and the args of each kernel."""
    streams: list[str]
    """The stream of each kernel, by name."""


def step_files(
    step: Step, device: str, parameters: Mapping[str, object], choice: TraceChoice = ALL
) -> dict[str, bytes]:
    """The trace of each chosen rank by its name, gzipped JSON.

    Each rank does what its device of the pipeline does. Computations and collectives are kernels,
    each with a launch at its start. A transfer is a kernel of both ranks. Raises InputError if the
    traces have more than a million kernels.
    """
    degrees, ends = step.work.times.degrees, step.timeline.makespan
    ranks = degrees.groups("pp").T
    chosen, boxes = choice.of(degrees.ranks), _boxes(step)
    kernels_of = np.bincount(boxes.rank, minlength=len(ranks))
    number = int(kernels_of @ np.isin(ranks, chosen).sum(axis=1))
    if number > EVENTS:
        raise InputError(
            f"the traces have {number} kernels, at most {EVENTS}: take fewer GPUs or "
            f"micro-batches, or --ranks"
        )
    about = json.loads(provenance()) | {"parameters": dict(parameters)}
    talking = np.flatnonzero((step.graph.call >= 0) & (step.schedule.lane != SEND))
    kinds = sorted({_group(step, operation) for operation in talking.tolist()} - {STREAMS[TIED]})
    groups = {kind: degrees.groups(kind) for kind in dict.fromkeys((*_GROUPED, *kinds))}
    files = {}
    for number, members in enumerate(ranks):
        place = _place(step, boxes.take(boxes.rank == number))
        for rank in np.intersect1d(members, chosen).tolist():
            listed = {name: _group_of(rows, rank) for name, rows in groups.items()}
            names = {name: f"{name} {row}" for name, (row, _) in listed.items()}
            kernels = [
                (kernel, args and f'{args}, "Process Group Name": "{names.get(stream, stream)}"')
                for (kernel, args), stream in zip(place.about, place.streams, strict=True)
            ]
            records = [
                group_record(names[name], name, group) for name, (_, group) in listed.items()
            ]
            everywhere = place.boxes._replace(rank=np.full_like(place.boxes.rank, rank))
            lines = chain(
                [step_event(0, rank, 0.0, ends * 1e6)], events(everywhere, rank, ends, kernels)
            )
            files[kineto_name(rank)] = document(
                job_record(rank, degrees.ranks, records), device, lines, about
            )
    return {kineto_name(rank): files[kineto_name(rank)] for rank in chosen}


_GROUPED = ("tp", "cp", "ep", "data", "experts")
"""Streams that are called like the groups that communicate on them."""


def _group_of(groups: Ints, rank: int) -> tuple[int, list[int]]:
    """The number and the ranks of the group of a rank."""
    row = int(np.flatnonzero((groups == rank).any(axis=1))[0])
    return row, groups[row].tolist()


def _boxes(step: Step) -> Boxes:
    """The kernels of all devices of the pipeline; a transfer is at both of its ends."""
    boxes = all_computations(step.timeline)
    boxes = boxes.take(boxes.lane != HOST)
    sends = boxes.take(boxes.lane == SEND)
    return boxes.joined(sends._replace(rank=step.graph.peer[sends.first].astype(np.int32)))


def _group(step: Step, operation: int) -> str:
    """The kind of group of a collective, or the stream of another operation."""
    call, lane = step.graph.call_of(operation), int(step.graph.lane[operation])
    return STREAMS[lane] if call is None or lane in (SEND, TIED) else call.group


def _place(step: Step, boxes: Boxes) -> _Place:
    graph, degrees = step.graph, step.work.times.degrees
    about, streams, counts = list[tuple[str, str]](), list[str](), dict[int, int]()
    for operation, lane in zip(boxes.first.tolist(), boxes.lane.tolist(), strict=True):
        kind, micro = KINDS[graph.kind[operation]], int(graph.micro[operation])
        phase = f"{kind} {micro}" if micro >= 0 else kind
        streams.append(_group(step, operation))
        call = graph.call_of(operation)
        if call is None:
            layer = int(graph.layer[operation])
            words = f"{phase}, layer {layer}" if layer >= 0 else phase
            about.append((json.dumps(words), ""))
            continue
        kernel, word = KERNELS[collective := call.collective]
        size = 2 if lane in (SEND, TIED) else degrees.size(_group(step, operation))
        nbytes = round(float(graph.nbytes[operation]))
        args: dict[str, object] = {
            "phase": phase,
            "Collective name": word,
            "In msg nelems": nbytes // size if collective == "all_gather" else nbytes,
            "Out msg nelems": nbytes // size if collective == "reduce_scatter" else nbytes,
            "Group size": size,
            "dtype": "Byte",
            "Process Group Description": _group(step, operation),
        }
        if word != "send":
            args["Seq"] = counts[lane] = counts.get(lane, -1) + 1
        about.append((json.dumps(f"ncclDevKernel_{kernel}"), ", " + json.dumps(args)[1:-1]))
    return _Place(boxes, about, streams)
