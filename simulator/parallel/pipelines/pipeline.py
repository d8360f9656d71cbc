"""A pipeline: which stage each device runs for which micro-batch, and in which order; the
declaration of an order by name; and pipelines as CSV, in the form of PyTorch's
torch.distributed.pipelining: a line for each device, and a cell for each action, like 0F0: stage,
kind, micro-batch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import Flags
from simulator.schedules.whole_numbers import whole_number
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError
from topologies.option_text import parse_at_least, parse_pairs
from topologies.topology import Floats, Ints

LETTERS = "FBIW"
"""The letters of the kinds, as PyTorch writes them."""
LIMIT = 2**22
"""Actions of a pipeline, at most."""
KEPT = np.array([[1, 0], [-1, 0], [-1, 1], [0, -1]], dtype=np.int32)
"""By how much an action of each kind changes how many micro-batches a stage keeps for their
backward, and for that of the weights alone."""
HELP = {
    "chunks": "stages of a device, like 2",
    "memory": "a multiple of what 1F1B keeps, like 2",
    "forward": "T_F in any unit, like 18",
    "inputs": "T_B in that unit, like 18",
    "weights": "T_W in that unit, like 9",
    "transfer": "what a transfer takes in that unit, like 1",
    "kept": "percent of the activations that the backward for weights needs, like 50",
}
"""The options of orders in words."""
KINDS = {letter: kind for kind, letter in enumerate(LETTERS)} | {"BW": BACKWARD}
"""The kinds by letter. Older versions of PyTorch write BW for a whole backward."""
EXPECTED = "expected a cell like 0F0, 0B0, 0I0 or 0W0: stage, kind, micro-batch"
_ACTION = re.compile(r"(\d{0,6})(F|BW|B|I|W)(\d{1,7})")
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
_OTHER = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD|(SEND|RECV)_[FB])\d*")
"""Communication. simctl derives it."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The actions of all devices. Columns have a row for each action: they are sorted by device,
    and then in the order in which the device runs them."""

    name: str
    micro_batches: int
    """Micro-batches of a step. They are shared evenly among the copies of the model: the first
    ones go through copy 0."""
    place: Ints
    """The device of each stage, of shape (copies, stages). There is one copy of the model, except
    where micro-batches enter from both ends."""
    kind: Ints
    """FORWARD, BACKWARD, INPUTS or WEIGHTS."""
    stage: Ints
    micro: Ints
    paired: Flags
    """Whether an action, a forward, runs together with the action behind it, a backward: both begin
    when both can, and both end at the same time."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def copies(self) -> int:
        """Copies of the model."""
        return len(self.place)

    @property
    def stages(self) -> int:
        """Stages of the model."""
        return int(self.place.shape[1])

    @cached_property
    def devices(self) -> int:
        """Devices; in a plan of parallel training, each is a whole group of ranks."""
        return int(self.place.max()) + 1

    @cached_property
    def copy(self) -> Ints:
        """The copy of the model that acts."""
        return np.asarray(self.micro * self.copies // self.micro_batches, dtype=np.int32)

    @cached_property
    def device(self) -> Ints:
        """The device that acts."""
        return self.place[self.copy, self.stage]

    @cached_property
    def starts(self) -> Ints:
        """The rows of device d are `starts[d]` to `starts[d + 1] - 1`."""
        places = np.searchsorted(self.device, np.arange(self.devices + 1))
        return np.asarray(places, dtype=np.int32)

    @cached_property
    def before(self) -> Ints:
        """The action before each one on its device; -1 for none."""
        before = np.arange(-1, len(self) - 1, dtype=np.int32)
        before[self.starts[:-1]] = -1
        return before

    @cached_property
    def second(self) -> Ints:
        """The second action of each pair."""
        return np.asarray(np.flatnonzero(self.paired) + 1, dtype=np.int32)

    @cached_property
    def first(self) -> Ints:
        """The first forward of each stage, shape (copies, stages)."""
        forwards = np.flatnonzero(self.kind == FORWARD)
        first = np.full(self.place.shape, len(self))
        np.minimum.at(first, (self.copy[forwards], self.stage[forwards]), forwards)
        return first.astype(np.int32)

    @cached_property
    def last(self) -> Ints:
        """The last action of each stage, shape (copies, stages)."""
        last = np.zeros(self.place.shape, dtype=np.int32)
        np.maximum.at(last, (self.copy, self.stage), np.arange(len(self), dtype=np.int32))
        return last

    def fullest(self, sizes: Floats) -> Ints:
        """The action of each device with the largest size, the first one of several."""
        first = np.lexsort((-sizes, self.device))[self.starts[:-1]]
        return np.asarray(first, dtype=np.int32)

    @cached_property
    def needs(self) -> Ints:
        """The rows whose results each action waits for, of shape (rows, 2); -1 for none.

        A forward waits for that of the stage before, a backward for that of the stage behind. The
        last stage's backward waits for its forward, and WEIGHTS for the INPUTS of their stage. The
        first action of a pair waits for what either needs, and its result comes from the second.
        """
        # A further stage has what the last stage's backward waits for. Its forwards are none: they
        # are those of stage -1.
        at = np.full((2, self.stages + 1, self.micro_batches), -1, dtype=np.int32)
        for backward, kinds in enumerate(((FORWARD,), (BACKWARD, INPUTS))):
            rows = np.flatnonzero(np.isin(self.kind, kinds))
            at[backward, self.stage[rows], self.micro[rows]] = rows
        at[1, -1] = at[0, -2]
        needs = np.where(
            self.kind == FORWARD,
            at[0, self.stage - 1, self.micro],
            at[1, self.stage + (self.kind != WEIGHTS), self.micro],
        )
        needs = np.where(needs >= 0, needs + self.paired[needs], -1)
        both = np.where(self.paired, np.roll(needs, -1), -1)
        return np.stack([needs, both], axis=1).astype(np.int32)

    @cached_property
    def transfers(self) -> Ints:
        """The results that go to another device, shape (4, transfers): the row that sends, the row
        that waits, the column of `needs`, and the row that needs the result. The first action of a
        pair waits for what the second one needs."""
        needs = self.needs.copy()
        needs[self.second] = -1
        remote = (needs >= 0) & (self.device[needs] != self.device[:, None])
        receiver, column = np.nonzero(remote)
        rows = needs[receiver, column], receiver, column, receiver + column
        return np.array(rows, dtype=np.int32)

    @cached_property
    def order(self) -> Ints:
        """All rows, each behind those that it waits for. Raises InputError if devices wait for
        each other without end."""
        needs, end = self.needs.tolist(), self.starts[1:].tolist()
        waiting: dict[int, list[int]] = {}
        done, order = bytearray(len(self)), list[int]()
        following = self.starts[:-1].tolist()
        ready = list(range(self.devices))
        while ready:
            device = ready.pop()
            row = following[device]
            while row < end[device]:
                missing = [need for need in needs[row] if need >= 0 and not done[need]]
                if missing:
                    waiting.setdefault(missing[0], []).append(device)
                    break
                done[row] = 1
                order.append(row)
                ready += waiting.pop(row, ())
                row += 1
            following[device] = row
        if len(order) < len(self):
            stuck = [row for row, last in zip(following, end, strict=True) if row < last]
            raise InputError(
                f"pipeline {self.name}: devices wait for each other: device "
                f"{self.device[stuck[0]]} waits at {self.text(stuck[0])}: move it behind what it "
                f"needs"
            )
        return np.array(order, dtype=np.int32)

    def text(self, row: int) -> str:
        """An action as PyTorch writes it: stage, kind, micro-batch, like 0F0."""
        return f"{self.stage[row]}{LETTERS[self.kind[row]]}{self.micro[row]}"


@dataclass(frozen=True)
class PipelineOrder:
    """An order of actions, by name."""

    name: str
    build: Callable[..., Pipeline]
    """From devices and micro-batches, and the options by name, to a pipeline."""
    summary: str
    options: Mapping[str, int] = field(default_factory=dict)

    def with_options(self, text: str) -> PipelineOrder:
        """The order with other values of its options, like "chunks=4". Raises InputError for an
        option that it does not have, and for a value that is no whole number of 1 or more."""
        parsers = {key: parse_at_least(min(1, usual)) for key, usual in self.options.items()}
        helps = {key: HELP[key] for key in self.options}
        options = {**self.options, **parse_pairs(text, self.name, parsers, helps)}
        return PipelineOrder(self.name, partial(self.build, **options), self.summary, options)


def assemble(
    name: str, place: Sequence[Sequence[int]], micro_batches: int, actions: npt.ArrayLike
) -> Pipeline:
    """The pipeline of these actions, checked. Micro-batches behind `micro_batches` are left out.

    An action is a row of its kind, its stage, its micro-batch, and a turn: a number that grows in
    the order in which a device runs its actions. A forward and a backward of the same device and
    turn run together.
    """
    places, table = np.array(place, dtype=np.int32), np.asarray(actions)
    kind, stage, micro, turn = table[table[:, 2] < micro_batches].T
    device = places[micro * len(places) // micro_batches, stage]
    order = np.lexsort((kind, turn, device))
    together = (np.diff(turn[order]) == 0) & (np.diff(device[order]) == 0)
    kind, stage, micro = (column[order].astype(np.int32) for column in (kind, stage, micro))
    paired = np.append(together, False).astype(np.int8)
    pipeline = Pipeline(name, micro_batches, places, kind, stage, micro, paired)
    check(pipeline)
    return pipeline


def check(pipeline: Pipeline) -> None:
    """Raise InputError unless each micro-batch goes once forward and once backward through each
    stage, on the device of that stage, in an order in which no device waits without end."""
    counts = np.zeros((4, pipeline.stages, pipeline.micro_batches), dtype=np.int64)
    np.add.at(counts, (pipeline.kind, pipeline.stage, pipeline.micro), 1)
    for wrong, action in (
        (counts[FORWARD] != 1, "forward"),
        (counts[BACKWARD] + counts[INPUTS] != 1, "backward"),
        (counts[WEIGHTS] != counts[INPUTS], "backward for weights"),
    ):
        if wrong.any():
            stage, micro = np.argwhere(wrong)[0]
            raise InputError(
                f"pipeline {pipeline.name}: micro-batch {micro} in stage {stage} has missing or "
                f"repeated actions: write {action} once"
            )
    first = np.flatnonzero(pipeline.paired)
    if np.any(pipeline.kind[first] != FORWARD) or np.any(
        ~np.isin(pipeline.kind[first + 1], (BACKWARD, INPUTS))
    ):
        raise InputError(f"pipeline {pipeline.name}: a pair is a forward and a backward")
    len(pipeline.order)


def check_sizes(name: str, devices: int, micro_batches: int, chunks: int = 1) -> None:
    """Raise InputError unless these are whole numbers of 1 or more, and few enough."""
    sizes = {"devices": devices, "micro_batches": micro_batches, "chunks": chunks}
    for key, value in sizes.items():
        if whole_number(key, value) < 1:
            raise InputError(f"pipeline {name}: {key} is {value}: 1 or more")
    if 3 * devices * micro_batches * chunks > LIMIT:
        raise InputError(
            f"pipeline {name}: {devices} devices x {chunks} chunks x {micro_batches} micro-batches "
            f"are too many: at most {LIMIT // 3} together"
        )


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
