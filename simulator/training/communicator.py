"""The collectives of a group of workers on a machine, made once and scaled to every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.collectives import Algorithm, find
from simulator.collectives.algorithm_options import check_values
from simulator.collectives.collective import Fitted
from simulator.collectives.operation_counts import bounds
from simulator.collectives.proof import prove
from simulator.collectives.symmetry import fold
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Folded, Shifts
from simulator.training.size import Size, check_collective
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

if TYPE_CHECKING:
    from simulator.training.plan import Setting

FEW = 4096
"""Operations of a collective that are sooner simulated than folded."""
TRIED = 2.0**25
"""Operations of a schedule of ranks that may stand for all, at most: some seconds."""


class Communicator:
    """The collectives of `ranks` workers on `topology`, to which the algorithm may add switches.

    Large all-reduces run `algorithm`, small all-reduces run `small`. A single worker sends nothing.
    If the communicator is `symmetric`, its large all-reduces are written for the ranks that stand
    for all, where some do. Then there are no others.
    """

    def __init__(
        self,
        topology: Topology,
        ranks: int,
        algorithm: str | Algorithm = "ring",
        small: str = "tree",
        folded: Fitted | None = None,
    ) -> None:
        self.topology, self.ranks = topology, ranks
        self.words: tuple[str, ...] = ()
        self._large = self._schedule(find_all_reduce(algorithm), folded)
        self.servers = self._large.ranks - self._large.workers - self._large.switches
        self.switches = self._large.switches
        if find_all_reduce(small).fit is not None or find(small).servers:
            raise InputError(
                f"small is {small!r}: a plain all-reduce among the workers, like tree or ring"
            )
        self._plain: dict[str, Schedule] = {}
        self._sizes: dict[float, Schedule] = {}
        self._small = small

    @property
    def shifts(self) -> Shifts | None:
        """What takes the workers that stand for all to all; None: each stands for itself."""
        return None if self._large.fold is None else self._large.fold.shifts

    @property
    def folded(self) -> int | Folded:
        """The ranks of a schedule with large all-reduces."""
        fold = self._large.fold
        return self.ranks if fold is None else Folded(fold.shifts, (), fold.channels)

    @property
    def standing(self) -> Ints:
        """The workers that stand for all."""
        shifts = self.shifts
        standing = np.arange(self.ranks) if shifts is None else shifts.representatives
        return standing.astype(np.int32)

    def all_reduce(self, nbytes: float) -> Schedule:
        """The gradients' all-reduce, the same for buckets of the same size."""
        if nbytes not in self._sizes:
            self._sizes[nbytes] = self._large.scaled(nbytes)
        return self._sizes[nbytes]

    def small(self, nbytes: float) -> Schedule:
        """An all-reduce of a few bytes."""
        return self._of(self._small, nbytes)

    def broadcast(self, nbytes: float) -> Schedule:
        """From rank 0 to all, down a binomial tree."""
        return self._of("tree_broadcast", nbytes)

    def all_gather(self, nbytes: float) -> Schedule:
        """`nbytes` in all, round a ring."""
        return self._of("ring_all_gather", nbytes)

    def _of(self, name: str, nbytes: float) -> Schedule:
        if name not in self._plain:
            self._plain[name] = find(name).build(self.ranks, 1.0)
        return self._plain[name].scaled(nbytes)

    def _schedule(self, algorithm: Algorithm, folded: Fitted | None) -> Schedule:
        if self.ranks == 1:
            return ScheduleBuilder(1, 1.0).build()
        fitted = folded or algorithm.on(self.topology, self.ranks, 1.0)
        schedule, self.topology, _, self.words = fitted
        if algorithm.origin:
            prove(algorithm, schedule)
        return schedule


class Chosen(NamedTuple):
    """How the collectives of a run are written."""

    communicator: Communicator
    outline: bool
    """Whether their transfers are left out."""


def choose(
    setting: Setting,
    algorithm: str | Algorithm,
    small: str = "tree",
    *,
    alike: bool,
    size: Callable[[float, int], Size],
) -> Chosen:
    """The collectives of a run, in which ranks are `alike` or not.

    `size` is that of the run, from the operations of a large all-reduce and the number of workers.
    Raises InputError if the run has too many operations.
    """
    chosen, ranks = find_all_reduce(algorithm), setting.ranks
    folded = _folded(chosen, setting) if alike else None
    if folded is None:
        for least, exact in bounds(chosen, setting.topology, ranks):
            total = size(least, ranks)
            _check(setting, total, least, setting.is_outline(total), exact)
    communicator = Communicator(setting.topology, ranks, algorithm, small, folded)
    schedule = communicator.all_reduce(1.0)
    large, of_all = len(schedule), len(schedule) * schedule.members
    outline = setting.is_outline(size(of_all, ranks))
    _check(setting, size(large, len(communicator.standing)), large, outline)
    return Chosen(communicator, outline)


def _folded(algorithm: Algorithm, setting: Setting) -> Fitted | None:
    """The all-reduce of the ranks that stand for all, where that is worth looking for."""
    number = max(least for least, _ in bounds(algorithm, setting.topology, setting.ranks))
    if number <= FEW:
        return None
    folded = fold(
        algorithm,
        setting.topology,
        setting.ranks,
        lambda shifts: setting.force or number / shifts.order <= TRIED,
    )
    return None if folded is None else folded.fitted


def _check(setting: Setting, size: Size, large: float, outline: bool, exact: bool = True) -> None:
    if not outline:
        setting.check_size(size, exact=exact)
    elif not setting.force:
        check_collective(large)


def find_all_reduce(name: str | Algorithm) -> Algorithm:
    """The all-reduce called `name`. Raises InputError for another collective."""
    algorithm = find(name) if isinstance(name, str) else name
    if algorithm.collective.name != "all_reduce":
        raise InputError(
            f"{algorithm.name} is of {algorithm.collective.name}: take an all_reduce like ring, "
            f"rings, tree or nvls"
        )
    check_values(algorithm)
    return algorithm


class Region(NamedTuple):
    """A collective and its slots within a larger schedule."""

    schedule: Schedule
    slot: int
    """The first slot of its buffer."""
    scratch: int
    """The first slot of its scratch."""


class Layout(NamedTuple):
    """The slots of a rank, and the collectives in them."""

    nbytes: float
    """Bytes of the buffer."""
    buffer: Floats
    """Sizes of the slots of the buffer, as shares of `nbytes`."""
    scratch: Floats
    """Sizes of the other slots, as shares of `nbytes`."""
    buckets: list[Region]
    """The collectives of the buffer, one behind the other."""
    extra: dict[str, Region]
    """The collectives in the other slots, by name."""


def builder_of(slots: Layout, chosen: Chosen) -> ScheduleBuilder:
    """A builder for a run with these slots, and with the servers and switches that its all-reduce
    needs. An outline has no slots."""
    communicator, outline = chosen
    sizes: dict[str, Any] = {"slots": slots.buffer, "scratch": slots.scratch}
    return ScheduleBuilder(
        communicator.ranks if outline else communicator.folded,
        slots.nbytes,
        servers=communicator.servers,
        switches=communicator.switches,
        **({} if outline else sizes),
    )


def layout(buckets: Sequence[Schedule], extra: dict[str, Schedule]) -> Layout:
    """Put the buckets side by side into the buffer; their scratch and all other collectives come
    behind it."""
    nbytes = sum(bucket.nbytes_total for bucket in buckets)
    buffer: list[Floats] = []
    scratch: list[Floats] = []
    base = sum(bucket.buffer for bucket in buckets)
    slot, behind = 0, base
    regions: list[Region] = []
    for bucket in buckets:
        shares = bucket.shares * (bucket.nbytes_total / nbytes)
        regions.append(Region(bucket, slot, behind))
        buffer.append(shares[: bucket.buffer])
        scratch.append(shares[bucket.buffer :])
        slot, behind = slot + bucket.buffer, behind + len(scratch[-1])
    extra_regions: dict[str, Region] = {}
    for name, collective in extra.items():
        scratch.append(collective.shares * (collective.nbytes_total / nbytes))
        extra_regions[name] = Region(collective, behind, behind + collective.buffer)
        behind += len(scratch[-1])
    shares = np.concatenate((*buffer, np.zeros(0)))
    return Layout(
        nbytes,
        shares / np.sum(shares),
        np.concatenate((*scratch, np.zeros(0))),
        regions,
        extra_regions,
    )


class Added(NamedTuple):
    """The operations of a collective."""

    first: Ints
    """The operation with which each worker enters."""
    between: Ints
    last: Ints
    """The operation with which each worker leaves."""


def add_collective(
    builder: ScheduleBuilder,
    region: Region,
    ranks: Ints,
    after: Ints,
    lane: int,
    seconds: tuple[float | Floats, float | Floats],
    phase: str | None = None,
) -> Added:
    """Add a collective of `ranks`. On `lane` each enters after `after` and leaves at its end, which
    take `seconds`."""
    span = {"count": region.schedule.buffer, "lane": lane}
    first = builder.compute(ranks, seconds[0], writes=region.slot, after=after, **span)
    messages = _messages_after(region.schedule, first)
    between = builder.inline(
        region.schedule, slot=region.slot, scratch=region.scratch, phase=phase, after=messages
    )
    last = builder.compute(ranks, seconds[1], reads=region.slot, writes=region.slot, **span)
    return Added(first, between, last)


def _messages_after(schedule: Schedule, entered: Ints) -> Ints:
    """For every operation what it waits for, shape (operations, 1): a worker's messages without
    slots wait until it has `entered`; what carries slots waits by itself."""
    waits = (schedule.source < 0) & (schedule.target < 0) & (schedule.rank < schedule.workers)
    place = schedule.rank if schedule.fold is None else schedule.fold.shifts.place(schedule.rank)
    return np.where(waits, entered[np.minimum(place, len(entered) - 1)], -1)[:, None]
