"""Pipelines as CSV, in the form of PyTorch's torch.distributed.pipelining: a line for each device,
and a cell for each action, like 0F0: stage, kind, micro-batch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from simulator.parallel.pipelines.pipeline import LETTERS, Pipeline, assemble
from simulator.steps.kinds import BACKWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

KINDS = {letter: kind for kind, letter in enumerate(LETTERS)} | {"BW": BACKWARD}
"""The kinds by letter. Older versions of PyTorch write BW for a whole backward."""
EXPECTED = "expected a cell like 0F0, 0B0, 0I0 or 0W0: stage, kind, micro-batch"
_ACTION = re.compile(r"(\d{0,6})(F|BW|B|I|W)(\d{1,7})")
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
_OTHER = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD|(SEND|RECV)_[FB])\d*")
"""Communication. simctl derives it."""


class ActionCell(NamedTuple):
    """An action in a file."""

    device: int
    kind: int
    stage: int
    micro: int
    turn: int
    text: str


def pipeline_csv(pipeline: Pipeline) -> str:
    """The pipeline as CSV. A forward and a backward that run together are a cell like
    (0F1;3B0)OVERLAP_F_B."""
    lines = []
    for begin, end in zip(pipeline.starts[:-1], pipeline.starts[1:], strict=True):
        cells = [pipeline.text(row) for row in range(begin, end)]
        for first in np.flatnonzero(pipeline.paired[begin:end])[::-1]:
            cells[first : first + 2] = [f"({cells[first]};{cells[first + 1]})OVERLAP_F_B"]
        lines.append(f"{','.join(cells)}\n")
    return "".join(lines)


def read_pipeline(text: str, name: str) -> Pipeline:
    """The pipeline in a CSV. Empty cells and communication are left out. A cell without a stage is
    of the stage with the number of its device. B is a backward for the inputs where the same
    micro-batch has a W in the same stage, as in Zero Bubble's papers.

    Raises InputError with the line if a cell is no action, and if the actions make no pipeline.
    """
    cells = list(_cells(text, name))
    if not cells:
        raise InputError(f"{name} has no actions: {EXPECTED}")
    stages = max(cell.stage for cell in cells) + 1
    micro_batches = max(cell.micro for cell in cells) + 1
    if 2 * stages * micro_batches > len(cells):
        raise InputError(
            f"{name} has {len(cells)} actions, too few for {stages} stages and {micro_batches} "
            f"micro-batches: each stage needs a forward and a backward of each micro-batch"
        )
    table = np.array([cell[1:5] for cell in cells])
    split = np.zeros((stages, micro_batches), dtype=np.bool_)
    split[tuple(table[table[:, 0] == WEIGHTS, 1:3].T)] = True
    table[(table[:, 0] == BACKWARD) & split[table[:, 1], table[:, 2]], 0] = INPUTS
    return assemble(name, _place(cells, stages, micro_batches, name), micro_batches, table)


def _place(cells: list[ActionCell], stages: int, micro_batches: int, name: str) -> list[list[int]]:
    """The device of each stage of each copy. There are two copies if a stage is on two devices."""
    stages_on = Counter(stage for stage, _ in {(cell.stage, cell.device) for cell in cells})
    copies, place = 2 if 2 in stages_on.values() else 1, dict[tuple[int, int], int]()
    for cell in cells:
        copy = cell.micro * copies // micro_batches
        home = place.setdefault((copy, cell.stage), cell.device)
        if cell.device != home:
            raise InputError(
                f"{name}: line {cell.device + 1} has {cell.text}, but line {home + 1} has that "
                f"stage: keep a stage on one device, or one copy of it on two"
            )
    every = [[(copy, stage) for stage in range(stages)] for copy in range(copies)]
    for key in chain.from_iterable(every):
        if key not in place:
            raise InputError(f"{name}: no device has stage {key[1]}: {EXPECTED}")
    return [[place[key] for key in row] for row in every]


def _cells(text: str, name: str) -> Iterator[ActionCell]:
    if text.count(",") > (most := 2**20):
        raise InputError(f"{name} has more than {most} cells: no pipeline is larger")
    for device, line in enumerate(text.strip().splitlines()):
        if not line.strip(", \t"):
            raise InputError(f"{name}: line {device + 1} has no action: {EXPECTED}")
        for turn, cell in enumerate(line.split(",")):
            content = cell.strip().strip('"')
            pair = _PAIR.fullmatch(content)
            for part in pair.groups() if pair else (content,):
                if part and not _OTHER.fullmatch(part):
                    yield _cell(part.strip(), device, turn, f"{name}: line {device + 1}")


def _cell(text: str, device: int, turn: int, where: str) -> ActionCell:
    match = _ACTION.fullmatch(text)
    if not match or not text.isascii():
        raise InputError(f"{where}: {text[:40]!r} is no action: {EXPECTED}")
    stage, kind, micro = match.groups()
    return ActionCell(device, KINDS[kind], int(stage or device), int(micro), turn, text)
