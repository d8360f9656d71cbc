"""Sweeps: a grid of algorithms, numbers of ranks and sizes, whose points run in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import groupby, product
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from experiments.execution.executor import Executor
from experiments.execution.journal import Journal, results
from experiments.simulations import workload
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.sweep_rows import PointVerdict, SweepRow, judge
from experiments.simulations.workload import MachineBuilder as MachineBuilder
from simulator.collectives import Algorithm
from simulator.collectives.operation_counts import estimate
from simulator.engines import REFERENCE_COST
from topologies.errors import InputError
from topologies.jit import CROSSOVER, pays
from topologies.topology import Topology

if TYPE_CHECKING:
    from simulator.profile import Profile

KEPT_RANKS = 64
"""Machines of so many ranks are kept while a grid runs."""
T = TypeVar("T")


class MissingPoint(NamedTuple):
    """A point without a row."""

    algorithm: str
    ranks: int
    why: str
    """What is in the way."""
    wrong: bool
    """Whether the input is wrong, instead of an algorithm that cannot run on the machine."""

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.ranks} ranks: {self.why}"


@dataclass(frozen=True)
class Grid:
    """Every algorithm at every number of ranks and size, numbered in that order from 0."""

    algorithms: Sequence[Algorithm]
    ranks: Sequence[int]
    sizes: Sequence[float]
    """In bytes."""
    machine: MachineBuilder
    rules: Rules = DEFAULT
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""

    @cached_property
    def points(self) -> list[workload.PointEstimate]:
        """Each algorithm at each number of ranks, with what all its sizes are likely to take."""
        return self._every(1)

    def check(self, jobs: int) -> None:
        """Raise InputError if the points take hours or more memory than there is. Of many points a
        sample comes first."""
        number = len(self.algorithms) * len(self.ranks)
        for each in sorted({max(1, number // workload.SAMPLED_POINTS), 1}, reverse=True):
            points = self.points if each == 1 else self._every(each)
            workload.check_points(points, number * len(self.sizes), jobs, each)

    def _every(self, step: int) -> list[workload.PointEstimate]:
        """Each algorithm at one of `step` numbers of ranks, the last among them."""
        ranks = self.ranks[::-step]
        return [self._estimates.point(*case) for case in product(self.algorithms, ranks[::-1])]

    @cached_property
    def _estimates(self) -> workload.Estimates:
        return workload.Estimates(self.machine, self.rules, self.profile, len(self.sizes))

    @cached_property
    def costs(self) -> list[float]:
        """About how many seconds each point takes."""
        sizes = len(self.sizes)
        seconds = [point.need.seconds for point in self.points]
        return [each / sizes if each < inf else 0.0 for each in seconds for _ in range(sizes)]

    @cached_property
    def _operations(self) -> int:
        """What kernels would have to do if all points ran in this process."""
        operations = sum(
            estimate(algorithm, p) for algorithm, p in product(self.algorithms, self.ranks)
        )
        return REFERENCE_COST * len(self.sizes) * int(operations)

    def run(self, numbers: Sequence[int]) -> Iterator[SweepRow | MissingPoint]:
        """The points with these numbers. Neighbours share what does not depend on the size.

        Compiled code is loaded at once if that pays for the whole grid.
        """
        if self._operations > CROSSOVER:
            pays(self._operations)
        cases = list(product(self.algorithms, self.ranks))
        for case, group in groupby(numbers, key=lambda number: number // len(self.sizes)):
            sizes = [self.sizes[number % len(self.sizes)] for number in group]
            yield from self._points(*cases[case], sizes)

    def _points(
        self, algorithm: Algorithm, p: int, sizes: Sequence[float]
    ) -> Iterator[SweepRow | MissingPoint]:
        """A row for each size, or why there is none."""
        topology = _tried(algorithm, p, lambda: self._topology(p, algorithm.servers))
        if isinstance(topology, MissingPoint):
            yield from [topology] * len(sizes)
            return
        case = _tried(algorithm, p, lambda: Case(algorithm, p, topology, self.rules, self.profile))
        if isinstance(case, MissingPoint):
            wrong = case.wrong and algorithm.fit is None and algorithm.defined(p)
            yield from [case._replace(wrong=wrong)] * len(sizes)
            return
        for nbytes in sizes:
            yield _tried(algorithm, p, partial(_row, case, nbytes))

    def _topology(self, ranks: int, servers: int) -> Topology:
        """The machine. Small ones are kept, so that algorithms share their routes and bounds."""
        if ranks > KEPT_RANKS:
            return self.machine(ranks, servers)
        if (ranks, servers) not in self._topologies:
            self._topologies[ranks, servers] = self.machine(ranks, servers)
        return self._topologies[ranks, servers]

    @cached_property
    def _topologies(self) -> dict[tuple[int, int], Topology]:
        return {}

    def __getstate__(self) -> dict[str, object]:
        """The fields alone, without what has been computed of them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def encode(self, point: SweepRow | MissingPoint) -> Mapping[str, Any]:
        """A point as JSON takes it."""
        return vars(point) if isinstance(point, SweepRow) else point._asdict()

    def decode(self, encoded: Any) -> SweepRow | MissingPoint:
        """The point that was encoded."""
        if "why" in encoded:
            return MissingPoint(**encoded)
        failures, assumption = encoded["verdict"]
        return SweepRow(**{**encoded, "verdict": PointVerdict(tuple(failures), assumption)})


def sweep(
    grid: Grid,
    executor: Executor | None = None,
    journal: Journal | None = None,
    finished: Callable[[int], None] = lambda number: None,
    missing: Callable[[MissingPoint], None] | None = None,
) -> Iterator[SweepRow]:
    """The rows of a grid, each as soon as it and all before it are simulated.

    By default this process simulates them. `journal` and `finished` are those of
    :func:`experiments.execution.journal.results`. `missing` gets the points that cannot be
    simulated. Without it, the first of them is an error.
    """
    for point in results(grid, executor, journal, finished):
        if isinstance(point, SweepRow):
            yield point
        elif missing is None:
            raise InputError(point.why)
        else:
            missing(point)


def _row(case: Case, nbytes: float) -> SweepRow:
    tuned = case.tuned(nbytes)
    row = judge(tuned, tuned.run(nbytes))
    by = case.profile.name if case.profile and case.algorithm.by_library else case.algorithm.name
    return row if tuned is case else replace(row, curve=by)


def _tried(algorithm: Algorithm, p: int, make: Callable[[], T]) -> T | MissingPoint:
    try:
        return make()
    except InputError as error:
        return MissingPoint(algorithm.name, p, str(error), wrong=True)
    except MemoryError:
        return MissingPoint(
            algorithm.name, p, "it does not fit into memory: take fewer ranks", wrong=True
        )
