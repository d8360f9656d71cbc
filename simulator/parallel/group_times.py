"""How long a collective takes when all groups of a kind of a place run it at once on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from simulator.collectives import Algorithm, find
from simulator.engines import run
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_algorithms import in_turn, two_levels
from simulator.parallel.group_routes import ROUNDING, Laid, Loads, lay
from simulator.predictions import interval_of, prediction
from simulator.profile import Profile
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import Timeline
from simulator.steps.step_graph import MESSAGE
from simulator.uncertainty.interval import Interval, last_of
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("rings", "double_tree"),
    "all_gather": ("rings_all_gather",),
    "reduce_scatter": ("rings_reduce_scatter",),
    "all_to_all": ("pairwise",),
    "shift": ("shift",),
    "broadcast": ("tree_broadcast",),
    "dispatch": ("pairwise",),
    "combine": ("pairwise",),
}
"""The algorithms of a collective. The fastest one for the size runs. Groups that have some ranks of
several nodes take two levels instead of rings. A dispatch sends tokens to their experts, and a
combine returns them."""
LONGER_IN_TURN = 1.05
"""How many times as long an algorithm may take whose messages follow each other: each waits for the
latency of the one before."""
EXPLAINED = 2**16
"""Operations of a part whose phases are looked for, at most."""
End = Literal["time", "expected", "low", "high"]
"""What of a call counts: its simulated time, or its expected time or an end of its interval by the
profile's measured runs."""
Law = Callable[[int, float, float], float]
"""Seconds of a collective of so many ranks, V bytes and seconds on links."""
Value = TypeVar("Value")
Result = TypeVar("Result")
Names = tuple[str | Algorithm, ...]
"""Algorithms, or their names."""


def _send(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    builder = ScheduleBuilder(ranks, nbytes, phase="send")
    builder.copy(0, 1, slot=0)
    return builder.build()


class Phases(NamedTuple):
    """What a call does to media during its phases. Media with the same load are used alike."""

    load: Floats
    """How long the bytes keep a medium busy, for V = 1 byte: a column of the tables for each."""
    busy: Floats
    """The share of its time that a medium is busy during each phase, over that during the call."""
    flows: Floats
    """How many messages are on the medium during each phase, on average."""
    until: Floats
    """The share of the time of the call that is left behind each phase."""


class Timed(NamedTuple):
    """The fastest algorithm of a collective for a size."""

    laid: Laid
    seconds: Mapping[int, float]
    intervals: Mapping[int, Interval]
    """That of each part of which the profile says how sure it is, if an end was asked for."""
    phases: Mapping[int, Phases]
    """Those of each part, if they are known."""
    ends: Mapping[int, Floats]
    """When each rank has sent and received all, in seconds, in parts that serve some ranks before
    others. Shape (groups times ranks of a group,)."""

    @property
    def longest(self) -> float:
        """The time of all groups, in seconds."""
        return max(self.seconds.values())

    def at(self, end: End | None, place: int) -> float:
        """The time of the groups of a place, or an end of its interval, in seconds."""
        slowest = self._slowest(place)
        if slowest not in self.intervals or end is None or end == "time":
            return self.seconds[slowest]
        return float(getattr(self.intervals[slowest], end))

    def uses(self, nbytes: float, place: int) -> tuple[Ints, Floats, Floats, Floats]:
        """The media that the groups of a place use, for which share of the time of each phase, how
        many messages are there on average, and the share of its time that a call has left behind
        each phase, for V = `nbytes`. Shape (phases, media)."""
        slowest, loads = self._slowest(place), self.laid.loads(place)
        share = (loads.seconds * nbytes + loads.gaps) / (self.seconds[slowest] or 1.0)
        share = np.minimum(share, 1.0)[None]
        if slowest not in self.phases:
            return loads.medium, share, share * loads.flows, np.zeros(1)
        load, busy, flows, until = self.phases[slowest]
        wanted = _rounded(loads.seconds)
        column = np.minimum(np.searchsorted(load, wanted), len(load) - 1)
        known = load[column] == wanted
        changing = np.minimum(np.where(known, busy[:, column], 1.0) * share, 1.0)
        return loads.medium, changing, np.where(known, flows[:, column], share * loads.flows), until

    def mean_end(self, part: int, meets: Ints) -> float:
        """When ranks of a part go on, on average. Ranks of the groups with the same number in
        `meets`, shape (groups, ranks), wait for each other. Those that always send over busier
        media do not take turns with others: the slowest of such classes counts."""
        groups = self.laid.groups[self.laid.members[part]]
        number = np.unique(meets[groups].ravel(), return_inverse=True)[1]
        load = np.repeat(self.laid.use.busy[self.laid.members[part]], meets.shape[1])
        last, busiest = np.zeros((2, number.max() + 1))
        np.maximum.at(last, number, self.ends[part])
        np.maximum.at(busiest, number, load)
        alike = np.unique(_rounded(busiest), return_inverse=True)[1]
        return float((np.bincount(alike, last) / np.bincount(alike)).max())

    def _slowest(self, place: int) -> int:
        return max(self.laid.parts_of[place], key=self.seconds.__getitem__)


@dataclass(frozen=True, eq=False)
class GroupTimes:
    """The times of collectives of groups on a machine, each simulated once.

    Groups are remembered by their ranks, which several kinds and several plans may share."""

    topology: Topology
    degrees: Degrees
    algorithms: Mapping[str, Sequence[str | Algorithm]] = field(default_factory=dict)
    """Other algorithms than those of `ALGORITHMS`, by collective."""
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""
    run: Callable[[Routed], Timeline] = run
    end: End | None = None
    """What of each call counts. None is its time, without intervals."""
    usual: GroupTimes | None = None
    """The times on the machine without its slow links; None for a machine without any."""
    bounds: bool = False
    """Whether the fastest place counts, and not the slowest one, until its ranks are served."""
    jitter: float = 0.0
    """Standard deviation of the seconds at which ranks enter a call, which waits for the last."""
    laws: Mapping[str, Law] = field(default_factory=dict)
    """What software makes of the seconds on links, by collective. None of it takes less. Others
    take these seconds."""
    takes_turns: bool = False
    """Whether messages of a connection follow each other, if that hardly takes longer: under fair
    sharing they would end together."""
    _laid: dict[tuple[bytes, str, Names], list[Laid]] = field(default_factory=dict, repr=False)
    _times: dict[tuple[bytes, str, Names, float], Timed] = field(default_factory=dict, repr=False)
    _names: dict[str, bytes] = field(default_factory=dict, repr=False)
    # Times under other degrees, ends or laws have their own.
    _known: dict[tuple[str, str, float], dict[int, float]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if self.topology.ranks < self.degrees.ranks:
            self.degrees.check(self.topology.ranks)

    def under(self, degrees: Degrees) -> GroupTimes:
        """The times under other degrees. What one of both simulates, the other one remembers."""
        usual = self.usual and self.usual.under(degrees)
        return replace(self, degrees=degrees, usual=usual, _names={})

    def at(self, end: End) -> GroupTimes:
        """The times with another end of the interval of each call."""
        return replace(self, end=end, _times={} if self.end is None else self._times)

    def with_algorithms(
        self,
        algorithms: Mapping[str, Sequence[str | Algorithm]],
        laws: Mapping[str, Law] | None = None,
    ) -> GroupTimes:
        """The times with further algorithms and laws. What both simulate, both remember."""
        usual = self.usual and self.usual.with_algorithms(algorithms, laws)
        algorithms, laws = {**self.algorithms, **algorithms}, {**self.laws, **(laws or {})}
        return replace(self, algorithms=algorithms, laws=laws, usual=usual)

    def seconds(self, kind: str, collective: str, nbytes: float) -> float:
        """Seconds from the start to the end of a collective of V = `nbytes` in all groups of a kind
        of the slowest place, or of the fastest one for bounds. Raises InputError for an unknown
        collective."""
        return (min if self.bounds else max)(self.by_place(kind, collective, nbytes).values())

    def by_place(self, kind: str, collective: str, nbytes: float) -> Mapping[int, float]:
        """The same for each place whose ranks are the first ones of groups."""
        if nbytes <= 0 or self.degrees.size(kind) == 1:
            return {0: 0.0}
        key = kind, collective, nbytes
        if key not in self._known:
            timed, law = self.timed(*key), self._law(*key)
            ends = {place: law(timed.at(self.end, place)) for place in timed.laid.parts_of}
            late = self._late(kind, collective)
            self._known[key] = {place: seconds + late for place, seconds in ends.items()}
            if self.bounds and timed.ends:  # ranks go on when they are served
                self._known[key] |= {place: end for place, (end, _) in self.served(*key).items()}
        return self._known[key]

    def by_rank(self, kind: str, collective: str, nbytes: float) -> Floats:
        """The time of the group of each rank as a share of that of its place, if slow links make
        groups of a place differ: those without such a link take as long as usual. 0 for ranks
        without a group."""
        assert self.usual is not None
        call = kind, collective, nbytes
        usual, longest = self.usual.by_place(*call), self.by_place(*call)
        timed, law, late = self.timed(*call), self._law(*call), self._late(kind, collective)
        shares = np.zeros(self.degrees.ranks)
        for group, place, part in zip(*self._groups(kind), timed.laid.part.tolist(), strict=True):
            seconds = late + max(usual[place], law(timed.seconds.get(part, 0.0)))
            shares[group] = seconds / longest[place]
        return shares

    def served(
        self, kind: str, collective: str, nbytes: float
    ) -> Mapping[int, tuple[float, float]]:
        """The places that a call serves one rank after another. Of each when ranks go on, on
        average over those that meet, and for how long its busiest medium is busy, in seconds."""
        timed, law = self.timed(kind, collective, nbytes), self._law(kind, collective, nbytes)
        late, meets = self._late(kind, collective), self.degrees.meets(kind)
        means = {part: timed.mean_end(part, meets) for part in timed.ends}
        served = dict[int, tuple[float, float]]()
        for place, parts in timed.laid.parts_of.items():
            end = max(means.get(part, timed.seconds[part]) for part in parts)
            busy = max(timed.laid.busiest(part) for part in parts) * nbytes
            if kind.startswith("data"):  # all ranks meet at its end, as bounds assume
                end = max(end, busy)
            if end < timed.at(None, place) * (1 - ROUNDING):
                served[place] = law(end) + late, busy
        return served

    def _late(self, kind: str, collective: str) -> float:
        """Seconds until the last rank enters a call. A message does not wait."""
        return self.jitter * last_of(1 if collective == MESSAGE else self.degrees.size(kind))

    def _law(self, kind: str, collective: str, nbytes: float) -> Callable[[float], float]:
        """What software makes of the seconds on links of V = `nbytes`."""
        law = self.laws.get(collective)
        if law is None:
            return lambda links: links
        return partial(law, self.degrees.size(kind), nbytes)

    def timed(self, kind: str, collective: str, nbytes: float) -> Timed:
        """The fastest algorithm of a collective in groups of several ranks."""
        key = *self._key(kind, collective), nbytes
        if key not in self._times:
            every = self._every(kind, collective)
            if self.usual is not None:
                # A library does not know of slow links.
                chosen = self.usual.fastest(kind, collective, nbytes).name
                every = [laid for laid in every if laid.algorithm.name == chosen]
            times = _allowed(partial(self._time, nbytes), every)
            fastest: dict[str, Timed] = {}
            for timed in times:
                name = timed.laid.algorithm.name
                if name not in fastest or timed.longest * LONGER_IN_TURN < fastest[name].longest:
                    fastest[name] = timed
            self._times[key] = min(fastest.values(), key=lambda timed: timed.longest)
        return self._times[key]

    def least(self, kind: str, collective: str, nbytes: float) -> float:
        """Seconds that `seconds` does not go below, without a simulation: for how long the busiest
        medium of the machine is busy. Under a profile it is the same as `seconds`."""
        if nbytes <= 0 or self.degrees.size(kind) == 1 or self.profile is not None:
            return self.seconds(kind, collective, nbytes)
        return nbytes * min(laid.least for laid in self._every(kind, collective))

    def transfer(self, sender: int, receiver: int, nbytes: float) -> float:
        """Seconds in which each rank of a device of the pipeline sends `nbytes` to its peer of
        another device. All ranks send at once."""
        return self.seconds(f"{sender} to {receiver}", MESSAGE, nbytes)

    def fastest(self, kind: str, collective: str, nbytes: float) -> Algorithm:
        """The algorithm of a collective that has been timed."""
        return self.timed(kind, collective, nbytes).laid.algorithm

    def _key(self, kind: str, collective: str) -> tuple[bytes, str, Names]:
        """By what a collective is remembered: the ranks of groups and their places, and the
        algorithms that replace those of `ALGORITHMS`."""
        if kind not in self._names:
            groups, place = self._groups(kind)
            self._names[kind] = b"%d:" % groups.shape[1] + groups.tobytes() + place.tobytes()
        return self._names[kind], collective, tuple(self.algorithms.get(collective, ()))

    def _groups(self, kind: str) -> tuple[Ints, Ints]:
        """The groups of a kind, and the place of each: that of its first rank."""
        groups = self.degrees.groups(kind)
        return groups, self.degrees.devices[groups[:, 0]]

    def _every(self, kind: str, collective: str) -> list[Laid]:
        key = self._key(kind, collective)
        if key not in self._laid:
            (groups, place), merges = self._groups(kind), self.profile is not None
            self._laid[key] = _allowed(
                lambda algorithm: lay(
                    algorithm,
                    self.topology,
                    groups,
                    place,
                    merges=merges,
                    usual=self.usual.topology if self.usual else None,
                ),
                self._algorithms_of(collective, groups[0]),
            )
        return self._laid[key]

    def _algorithms_of(self, collective: str, group: Ints) -> list[Algorithm]:
        if collective == MESSAGE:
            return [replace(find("shift"), schedule=_send)]
        names = self.algorithms.get(collective) or ALGORITHMS.get(collective)
        if names is None:
            raise InputError(f"no collective {collective[:40]!r}: one of {', '.join(ALGORITHMS)}")
        chosen = [find(name) if isinstance(name, str) else name for name in names]
        instead = two_levels(collective, self.topology, group)
        if instead and collective not in self.algorithms:
            chosen = instead + [each for each in chosen if not each.name.startswith("rings")]
        return [*map(in_turn, chosen), *chosen] if self.takes_turns else chosen

    def _time(self, nbytes: float, laid: Laid) -> Timed:
        parts = {number: routed.scaled(nbytes) for number, routed in laid.parts.items()}
        if self.profile is None:
            ran = {number: self.run(part) for number, part in parts.items()}
            # First come, first served: who came first counts, not how many messages wait.
            phases = {
                number: _phases(each, laid.loads(int(laid.place[laid.members[number][0]])))
                for number, each in ran.items()
                if each.sharing == "fair" and len(each.schedule) <= EXPLAINED
            }
            seconds = {number: each.makespan for number, each in ran.items()}
            ends = {n: each for n in ran if len(each := laid.ends(n, ran[n]))}
            return Timed(laid, seconds, {}, phases, ends)
        seconds, intervals = dict[int, float](), dict[int, Interval]()
        for number, part in parts.items():
            under = self.profile.simulate(part, laid.algorithm, self.run)
            seconds[number] = under.seconds
            predicted = self.end and prediction(self.profile, under, laid.algorithm)
            if predicted:
                place = replace(predicted.place, ranks=np.array([float(laid.ranks)]))
                intervals[number] = interval_of(predicted._replace(place=place))
        return Timed(laid, seconds, intervals, {}, {})


def _allowed(function: Callable[[Value], Result], values: Sequence[Value]) -> list[Result]:
    results, refused = list[Result](), InputError("")
    for value in values:
        try:
            results.append(function(value))
        except InputError as error:
            refused = error
    if not results:
        raise refused
    return results


def _rounded(seconds: Floats) -> Floats:
    """Loads of media, of which those that differ by rounding are the same."""
    return seconds.astype(np.float32).astype(np.float64)


def _phases(timeline: Timeline, loads: Loads) -> Phases:
    """The phases of a call on media with these loads, or one for a folded schedule."""
    held, bandwidth = timeline.occupancy, timeline.routed.topology.medium_bandwidth
    links = loads.medium < len(bandwidth)
    load_of = np.zeros(len(bandwidth))
    load_of[loads.medium[links]] = _rounded(loads.seconds[links])
    load, column = np.unique(load_of[held.medium], return_inverse=True)
    media = np.bincount(column[np.unique(held.medium, return_index=True)[1]])
    # Phases consist of equal parts of the time of a call.
    moments = 20 if timeline.schedule.fold is None else 1
    # For how long media of each load have been busy at the end of each moment.
    busy, lasts = np.zeros((moments + 1, len(load))), np.where(held.seconds > 0, held.seconds, 1.0)
    for moment in range(1, moments + 1):
        passed = np.clip(moment / moments * timeline.makespan - held.start, 0.0, held.seconds)
        seconds = held.nbytes / bandwidth[held.medium] * passed / lasts
        busy[moment] = np.bincount(column, seconds)
    shares = np.diff(busy, axis=0)
    # A medium is unused while it is busy for less than a quarter of the share of its busiest time.
    used = shares >= 0.25 * shares.max(axis=0)
    begins = np.flatnonzero(np.append(True, np.any(used[1:] != used[:-1], axis=1)))
    changes = used[begins] / used.mean(axis=0)
    flows = np.bincount(column, held.seconds) / media / timeline.makespan
    return Phases(load, changes, changes * flows, 1 - np.append(begins[1:], moments) / moments)
