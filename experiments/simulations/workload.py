"""What a simulation takes: estimated before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from experiments import output
from experiments.simulations.rules import DEFAULT, Rules
from simulator.collectives import Algorithm
from simulator.collectives.operation_counts import Counts, counts, estimate
from simulator.collectives.symmetry import fold
from simulator.schedules.folded_routes import COMPARED_ROUTES
from simulator.schedules.schedule import LIMIT
from topologies.errors import InputError
from topologies.resources import Need, check
from topologies.topology import Topology

if TYPE_CHECKING:
    from simulator.profile import Profile

MachineBuilder = Callable[[int, int], Topology]
"""From the numbers of workers and of servers to the machine."""

COSTS = {
    "process": Need(0.4, 60e6),  # with its imports and compiled code
    "point": Need(1e-3, 0.0),
    "rank": Need(4e-6, 900.0),  # a device and its links, and what is told of them
    "pair": Need(1.7e-6, 250.0),  # a route
    "operation": Need(0.4e-6, 115.0),  # written, proven, simulated and judged by compiled code
    "reference": Need(20e-6, 1200.0),  # an operation in the reference engine
    "wait": Need(0.1e-6, 12.0),  # a predecessor of an operation
    "touch": Need(0.2e-6, 25.0),  # a slot that an operation reads or writes
}
SMALL_RANKS = 128
"""Ranks up to which any schedule is small."""
TRIAL_SECONDS = 8.0
"""Seconds for which ranks that stand for all are looked for where all ranks are too many."""
PROBE = 64
"""Ranks of a machine on which ranks that stand for all are looked for."""
SAMPLED_POINTS = 1000
"""About how many points are estimated first: what takes hours is then refused at once."""
ANNOUNCED = Need(30.0, 4e9)
"""From so much time or memory on a command says what it takes. An estimate is within a factor of
two."""
FEWER = "take fewer ranks, or an algorithm with fewer transfers"


class PointEstimate(NamedTuple):
    """An algorithm at a number of ranks, simulated at some sizes."""

    algorithm: Algorithm
    ranks: int
    need: Need

    def __str__(self) -> str:
        return f"{self.algorithm.name} of {self.ranks} ranks"


class MachineShare(NamedTuple):
    """What a machine makes of an algorithm; by default what no particular machine does."""

    share: float = 1.0
    """The share of the ranks that stands for all."""
    rings: float = 1.0
    """How many times as many operations there are as on no particular machine."""
    ranks: int = PROBE
    """The ranks of the machine that tells."""


def need(
    algorithm: Algorithm,
    ranks: int,
    rules: Rules,
    machine: MachineShare | None = None,
    runs: int = 1,
    limit: float = LIMIT,
) -> Need:
    """What a schedule takes that is simulated `runs` times on a machine: nothing if the algorithm
    does not exist for these ranks, and all if it has more operations than the limit."""
    if not algorithm.defined(ranks):
        return Need()
    share, rings, _ = machine or MachineShare()
    operations = estimate(algorithm, ranks)
    if operations * share * rings > limit:
        return Need(inf, inf)
    size = Counts(operations, 2 * operations, operations, operations)
    if ranks > SMALL_RANKS:
        size = counts(algorithm, ranks)
    operation = "reference" if rules.engine == "reference" else "operation"
    amounts = [number * rings * share for number in size[:3]] + [size.pairs * rings]
    costs = [COSTS[name] for name in (operation, "wait", "touch", "pair")]
    parts = list(zip(amounts, costs, strict=True))
    # A further size takes a quarter of the time of the first.
    seconds = sum(number * cost.seconds for number, cost in parts) * (1 + 0.25 * (runs - 1))
    return Need(
        ranks * COSTS["rank"].seconds + seconds + runs * COSTS["point"].seconds,
        ranks * COSTS["rank"].nbytes + sum(number * cost.nbytes for number, cost in parts),
    )


@dataclass(frozen=True)
class Estimates:
    """What points take on a machine."""

    machine: MachineBuilder
    rules: Rules
    profile: Profile | None = None
    """A calibrated library: every one of its protocols is simulated."""
    sizes: int = 1
    _probes: dict[str, MachineShare] = field(default_factory=dict)

    def point(self, algorithm: Algorithm, p: int) -> PointEstimate:
        """What all sizes are likely to take at a number of ranks."""
        runs = self.sizes * (len(self.profile.protocols) if self.profile else 1)
        machine = None if p <= SMALL_RANKS else self._machine_share(algorithm, p)
        return PointEstimate(algorithm, p, need(algorithm, p, self.rules, machine, runs))

    def _machine_share(self, algorithm: Algorithm, ranks: int) -> MachineShare:
        """What the machine makes of an algorithm, as it does so of fewer ranks."""
        if algorithm.name not in self._probes:
            self._probes[algorithm.name] = self._probe(algorithm)
        few = self._probes[algorithm.name]
        folds = (
            few.share < 1.0
            and _may_fold(algorithm, ranks)
            and counts(algorithm, ranks).pairs * few.rings <= COMPARED_ROUTES
        )
        return few._replace(share=few.share * few.ranks / ranks if folds else 1.0)

    def _probe(self, algorithm: Algorithm) -> MachineShare:
        """What a machine of few ranks makes of an algorithm: all that is possible, where there is
        no such machine."""
        # Where ranks cannot stand for others, all of them are counted, so fewer are tried.
        ranks = PROBE if _may_fold(algorithm, PROBE) else 16
        try:
            topology = self.machine(ranks, algorithm.servers)
            while PROBE <= ranks <= (node := _first_node(topology)) <= SMALL_RANKS:
                ranks = 2 * node  # one node does not tell what a machine makes of several
                topology = self.machine(ranks, algorithm.servers)
            folded = None
            if self.rules.symmetry == "auto":
                merges, fair = self.profile is not None, self.rules.sharing == "fair"
                folded = fold(algorithm, topology, ranks, merges=merges, fair=fair)
            fitted = algorithm.on(topology, ranks, 1.0) if folded is None else folded.fitted
        except InputError:
            return MachineShare(1 / PROBE)
        members = fitted.schedule.members
        rings = len(fitted.schedule) * members / estimate(algorithm, ranks)
        return MachineShare(1 / members, rings, ranks)


def _first_node(topology: Topology) -> int:
    """How many GPUs are in the node of the first rank; 0 if it is in none."""
    home = topology.node[topology.placement[0]]
    inside = topology.device_kinds.are("gpu") & (topology.node == home)
    return 0 if home < 0 else int(inside.sum())


def _may_fold(algorithm: Algorithm, ranks: int) -> bool:
    """Whether a rank may stand for others on some machine."""
    return algorithm.shifts_on is not None or algorithm.shifts(ranks) is not None


def total(points: Sequence[PointEstimate], jobs: int) -> Need:
    """What all points take, so many at a time."""
    points = [point for point in points if point.need.seconds < inf]
    seconds = sum(point.need.seconds for point in points) / min(jobs, max(len(points), 1))
    largest = sorted(point.need.nbytes for point in points)[-jobs:]
    process = COSTS["process"]
    return Need(process.seconds + seconds, sum(nbytes + process.nbytes for nbytes in largest))


def check_points(points: Sequence[PointEstimate], number: int, jobs: int, each: int = 1) -> None:
    """Raise InputError if all points, of which there are `number` with all sizes, take more than
    there is. `points` are all, or stand for `each` as many."""
    largest = max(points, key=lambda point: point.need.nbytes)
    if each == 1 and min(point.need.nbytes for point in points) == inf:
        check_schedule(largest)
    subject, advice = str(largest), FEWER
    if number > 1:
        subject = f"{number} points with {largest}"
        advice = "take fewer ranks or sizes, like --p 2..1024:x2"
    need = total(points, jobs)
    check(subject, need._replace(seconds=need.seconds * each), advice)


def announce(points: Sequence[PointEstimate], number: int, jobs: int) -> None:
    """Say what all points take, of which there are `number` with all sizes, if that is much."""
    need = total(points, jobs)
    if need.seconds > ANNOUNCED.seconds or need.nbytes > ANNOUNCED.nbytes:
        subject = str(points[0]) if number == 1 else f"{number} points"
        output.note(f"{subject}: this takes about {need}")


def check_schedule(point: PointEstimate, force: bool = False) -> None:
    """Raise InputError, before any memory is taken, if one schedule has more operations than a
    schedule may have, or needs more than there is."""
    if point.need.nbytes == inf:
        count = estimate(point.algorithm, point.ranks)
        whole = need(point.algorithm, point.ranks, DEFAULT, limit=inf)
        raise InputError(
            f"{point} has about {_in_words(count)} operations, more than {_in_words(LIMIT)}, and "
            f"takes about {whole}: {FEWER}"
        )
    if not force:
        check(str(point), point.need, FEWER)


def _in_words(number: float) -> str:
    """A number to two digits: 670 trillion, 46 million, 12."""
    for unit, name in {1e12: "trillion", 1e9: "billion", 1e6: "million", 1e3: "thousand"}.items():
        if number >= unit:
            return f"{float(f'{number / unit:.2g}'):g} {name}"
    return f"{number:.0f}"
