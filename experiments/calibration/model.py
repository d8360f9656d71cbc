"""The times of many measured points as one function of a machine's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import exp

import numpy as np

from experiments.calibration.libraries import RINGS, Library, Prior
from experiments.calibration.observations import Flags, Points
from experiments.calibration.parameters import NEGLIGIBLE, parameters
from experiments.calibration.paths import Costs, Paths
from experiments.calibration.table import (
    ALL,
    BETWEEN,
    Known,
    Machine,
    Place,
    Rows,
    Table,
    as_nodes,
    reach,
)
from simulator.crowding import Apart, Crowding, alike
from simulator.profile import ALONE, Cost, Exchanges, Memory, Profile, Protocol
from topologies.topology import Floats

NEAR = 1.5
"""How many times as long as the fastest a protocol may seem and still be simulated again."""


class Model:
    """Predicted seconds of `points` by a library whose protocols all go through the simulated
    schedules, on the machine that `machine` makes of ranks and ranks a node.

    `crowding`: whether α and β between nodes change with the number of nodes. `gaps`: protocols and
    kinds of link that have a g; without any it is 0, and what a message holds a link for beyond its
    bytes is in α.
    """

    def __init__(
        self,
        points: Points,
        library: Library,
        machine: Machine = as_nodes,
        *,
        crowding: bool = True,
        gaps: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.points, self.library, self.gaps = points, library, tuple(gaps)
        self.paths = Known(points, library, machine)
        self.kinds = self.paths.kinds
        size = np.log(points.nodes)
        self.typical = float(np.exp(size[np.unique(points.curve, return_index=True)[1]].mean()))
        self.most = float(points.nodes.max())
        self.per_node = np.array([one.per_node if one.nodes > 1 else 1 for one in points.curves])[
            points.curve
        ]
        between = self.per_node[points.nodes > 1]
        self.wide = float(np.exp(np.log(between).mean())) if self.paths.wide else 1.0
        self.touched = np.array(
            [Profile.touched(points.curves[c].collective) for c in points.curve]
        )
        self.crowding = (
            crowding
            and len(np.unique(points.nodes)) > 1
            and any(kind in BETWEEN for kind in self.kinds)
        )
        self.ran: Mapping[int, tuple[str, ...]] = {}
        self.sessions = np.unique(points.nodes) if self.crowding and library.memory else np.zeros(0)
        self.shared = (
            np.linalg.cholesky(alike(self.sessions)) if len(self.sessions) else np.zeros((0, 0))
        )
        self.parameters = tuple(
            parameters(library, self.paths, self.gaps, self.crowding, self.sessions)
        )
        self.index = {parameter.name: k for k, parameter in enumerate(self.parameters)}
        self.start = np.array([parameter.inner for parameter in self.parameters])
        self.weight = np.array([parameter.weight for parameter in self.parameters])

    def value(self, inner: Floats, name: str, otherwise: float = 0.0) -> float:
        """A parameter by name; `otherwise` where the model has none of that name."""
        k = self.index.get(name)
        return otherwise if k is None else self.parameters[k].outer(float(inner[k]))

    def predict(self, inner: Floats, keep: Rows = ALL, table: Table | None = None) -> Floats:
        """Seconds of the points that `keep` chooses, by the paths known so far, and the fastest
        algorithm."""
        return np.asarray(self.times(inner, keep, table).min(axis=1))

    def times(self, inner: Floats, keep: Rows = ALL, table: Table | None = None) -> Floats:
        """Seconds by each of the algorithms that may have run, infinite where there is none:
        (points, algorithms).

        `table` is that of these points, by default of all paths known.
        """
        table = table or self.table(keep)
        fastest = self._paths(inner, keep, table).max(axis=3).min(axis=2)
        return np.asarray(fastest + self._beside(inner, keep, table))

    def table(self, keep: Rows = ALL) -> Table:
        """The paths known of the points that `keep` chooses."""
        table = self.paths.table()
        if self.ran:
            absent = table.absent.copy()
            for c, names in self.ran.items():
                absent[self.points.curve == c] = self.paths.absent(c, names, absent.shape[1])
            table = replace(table, absent=absent)
        return table.at(keep)

    def active(self, inner: Floats, keep: Rows = ALL) -> Table:
        """Of every point the one path that its time is, at these parameters; those of other
        protocols are endless."""
        table = self.table(keep)
        seconds = self._paths(inner, keep, table)
        longest = seconds.argmax(axis=3)
        best = np.take_along_axis(seconds, longest[..., None], axis=3)[..., 0]
        protocol, every = best.argmin(axis=2), np.arange(len(best))
        algorithm = (best.min(axis=2) + self._beside(inner, keep, table)).argmin(axis=1)
        number = protocol[every, algorithm]
        return table.only(algorithm, number, longest[every, algorithm, number])

    def _paths(self, inner: Floats, keep: Rows, table: Table) -> Floats:
        """Seconds of every known path, shape (points, algorithms, protocols, paths)."""
        size, memory, priors = self.points.size[keep], self.memory(inner), self.library.protocols
        beyond = memory.beyond(size)
        merge = (1 - beyond) * memory.reduction + beyond * memory.reduction_beyond
        crowd = [self._crowd(inner, what)[keep] for what in ("α", "1/β")]
        seconds = table.merged * (merge * size)[:, None, None, None]
        longer = np.exp(table.rings[..., None] * [self._in_rings(inner, prior) for prior in priors])
        longer = longer * np.exp(table.pairs * self.value(inner, "α of sends"))[..., None]
        for k, kind in enumerate(self.kinds):
            latency = np.array([self.value(inner, f"{prior.name} {kind} α") for prior in priors])
            grown = crowd[0] if kind in BETWEEN else np.ones(len(size))
            alpha = longer * table.factors[..., k] * latency * grown[:, None, None]
            slowness = self._slowness(inner, keep, table, kind, crowd[1]) * size[:, None, None]
            seconds = seconds + table.latencies[..., k] * alpha[..., None]
            seconds = seconds + table.bytes[..., k] * slowness[..., None]
            if self.gaps:
                gap = np.array([self.value(inner, f"{prior.name} {kind} g") for prior in priors])
                seconds = seconds + table.gaps[..., k] * gap[:, None]
        return np.asarray(seconds)

    def _slowness(
        self, inner: Floats, keep: Rows, table: Table, kind: str, crowd: Floats
    ) -> Floats:
        """1/β of links of a kind, shape (points, algorithms, protocols); between nodes it is longer
        by `crowd`."""
        within, pacer, priors = (
            self.points.nodes[keep] == 1,
            self.pacer(kind),
            self.library.protocols,
        )
        own, paced = (
            np.array([self.value(inner, prior.rate(one)) for prior in priors])
            for one in (kind, pacer)
        )
        more = np.exp(table.pairs * self.value(inner, f"{kind} 1/β of sends"))
        if kind in BETWEEN:
            more = more * np.where(within, 1.0, crowd)[:, None]
        if pacer in BETWEEN:
            shared = self._sharing(inner, self.per_node[keep, None], table.alone)[..., None] * paced
            own = np.where(
                within[:, None, None], own, shared if pacer == kind else np.maximum(own, shared)
            )
        return np.asarray(more[..., None] * own)

    def _beside(self, inner: Floats, keep: Rows, table: Table) -> Floats:
        """Seconds that no link takes, infinite where an algorithm is none that may have run."""
        size, memory = self.points.size[keep], self.memory(inner)
        beyond = memory.beyond(size)
        touch = (
            self.touched[keep] * ((1 - beyond) * memory.copy + beyond * memory.copy_beyond) * size
        )
        more = np.exp(table.pairs * self.value(inner, "launch of sends"))
        launch = self.value(inner, "launch") * more + touch[:, None]
        if self.paths.long:
            slower = self.value(inner, "long exchanges") * self._crowd(inner, "1/β")[keep]
            launch = launch + table.long * slower[:, None]
        return np.asarray(
            launch + memory.allocate(table.scratch, size[:, None], table.joined) + table.absent
        )

    def _in_rings(self, inner: Floats, prior: Prior) -> float:
        """The logarithm of by how much α of a protocol is longer in rings."""
        return self.value(inner, f"{prior.name} α in rings")

    def _factor(self, inner: Floats, prior: Prior, algorithm: str, kind: str) -> float:
        """By how much α of links of `kind` is longer in `algorithm`."""
        own = (algorithm in RINGS) * self._in_rings(inner, prior)
        own += (algorithm in self.library.pairs) * self.value(inner, "α of sends")
        return prior.factor(algorithm, reach(kind)) * exp(own)

    def _slower(self, inner: Floats, algorithm: str, kind: str) -> float:
        """By how much 1/β of links of `kind` is longer in `algorithm`."""
        return exp((algorithm in self.library.pairs) * self.value(inner, f"{kind} 1/β of sends"))

    def _sharing(self, inner: Floats, per_node: Floats, alone: Floats) -> Floats:
        """By how much 1/β between nodes is longer where so many ranks of a node share its ports, or
        one is `alone`."""
        width = np.where(alone > 0, 1.0, per_node) / self.wide
        return np.asarray(width ** self.value(inner, "network 1/β by ranks a node"))

    def _shared(self, inner: Floats, size: int, algorithm: str, paths: Paths) -> float:
        """That of an algorithm on `size` nodes."""
        per_node = np.array(float(-(-paths.routed.schedule.workers // size)))
        return float(self._sharing(inner, per_node, np.array(float(algorithm in ALONE))))

    def _crowd(self, inner: Floats, what: str) -> Floats:
        """By how much α or 1/β between nodes is longer, shape (points,): by a trend, and by what a
        session shares."""
        crowd = np.log(np.minimum(self.points.nodes, self.most) / self.typical)
        crowd = crowd * self.value(inner, f"network {what} by nodes")
        if len(self.sessions):
            crowd = (
                crowd
                + self._session(inner, what)[np.searchsorted(self.sessions, self.points.nodes)]
            )
        return np.asarray(np.exp(crowd))

    def _session(self, inner: Floats, what: str) -> Floats:
        """The logarithm of what each number of nodes has of its own."""
        own = np.array(
            [self.value(inner, f"network {what} at {count} nodes") for count in self.sessions]
        )
        return np.asarray(self.shared @ own)

    def typically(self, inner: Floats) -> Floats:
        """The parameters without what numbers of nodes have of their own."""
        changed = inner.copy()
        for count in self.sessions:
            changed[[self.index[f"network {what} at {count} nodes"] for what in ("α", "1/β")]] = 0.0
        return changed

    def direct(self) -> Floats:
        """From the parameters as the fit counts them to those that are called so, shape
        (parameters, parameters): what numbers of nodes have of their own is counted beyond what
        fewer nodes have, so that a prior holds each alone."""
        matrix = np.eye(len(self.parameters))
        for what in ("α", "1/β") if len(self.sessions) else ():
            rows = [self.index[f"network {what} at {count} nodes"] for count in self.sessions]
            matrix[np.ix_(rows, rows)] = self.shared
        return matrix

    def _grown(self, inner: Floats, what: str, size: int) -> float:
        """By how much α or 1/β between nodes is longer on `size` nodes."""
        grown = np.log(min(size, self.most) / self.typical) * self.value(
            inner, f"network {what} by nodes"
        )
        if size in self.sessions:
            grown += self._session(inner, what)[np.searchsorted(self.sessions, size)]
        return float(np.exp(grown))

    def seeing(self, keep: Flags) -> Model:
        """The same with only the points of `keep` to fit: crowding ends at the most nodes among
        them."""
        changed = copy(self)
        changed.most = float(self.points.nodes[keep].max())
        return changed

    def taking(self, ran: Mapping[int, tuple[str, ...]]) -> Model:
        """The same where one of the algorithms in `ran` made a curve, by its number, whatever it is
        called."""
        changed = copy(self)
        changed.ran = ran
        return changed

    def memory(self, inner: Floats) -> Memory:
        """Seconds a byte of merging and copying."""
        names = ("γ", "γ beyond cache", "copy", "copy beyond cache", "fresh memory")
        back, library = self.value(inner, "memory given back"), self.library
        rates = Memory(*(self.value(inner, name) for name in names))
        joined, pinned = (
            self.value(inner, f"memory {what}") for what in ("registered again", "pinned")
        )
        return rates._replace(
            back=back,
            mapped=library.mapped,
            trimmed=library.trimmed,
            registered=joined,
            pinned=pinned,
        )

    def explore(self, inner: Floats, doubt: float = 0.0) -> float:
        """Simulate points at these parameters, keep the paths that explain them, and return by how
        much at most, relatively, those known before were wrong: only of algorithms where they were
        by `doubt` the last time."""
        wrong = max(self._explore(place, inner, doubt) for place in self.paths.places())
        self.paths.version += 1
        return wrong

    def _explore(self, place: Place, inner: Floats, doubt: float) -> float:
        if place.paths.wrong < doubt:
            return 0.0
        if place.paths.large:
            ends = (0, place.sizes[0]), (len(self.library.protocols) - 1, place.sizes[-1])
            place.paths.wrong = max(
                self._wrong(place, inner, number, float(size)) for number, size in ends
            )
        else:
            place.paths.wrong = max(self._settle(place, inner, float(size)) for size in place.sizes)
        return place.paths.wrong

    def _settle(self, place: Place, inner: Floats, size: float) -> float:
        """Simulate the protocols that come near the fastest at a size, as far as the paths known
        say."""
        numbers = range(len(self.library.protocols))
        merge = self.memory(inner).merge(size)
        known = [
            place.paths.longest(
                self.costs(inner, q, place.nodes, place.algorithm, merge, place.paths), size, q
            )
            for q in numbers
        ]
        return max(
            self._wrong(place, inner, q, size) for q in numbers if known[q] <= NEAR * min(known)
        )

    def _wrong(self, place: Place, inner: Floats, number: int, size: float) -> float:
        merge = self.memory(inner).merge(size)
        costs = self.costs(inner, number, place.nodes, place.algorithm, merge, place.paths)
        before = place.paths.longest(costs, size, number)
        return abs(1 - before / place.paths.simulate(costs, size, number))

    def costs(
        self, inner: Floats, number: int, size: int, algorithm: str, merge: float, paths: Paths
    ) -> Costs:
        """α and 1/β of the kinds that `paths` crosses, on `size` nodes."""
        prior = self.library.protocols[number]
        longer, slower = (self._grown(inner, what, size) for what in ("α", "1/β"))
        latency, slowness = [], []
        gap = np.array([self.value(inner, f"{prior.name} {kind} g") for kind in paths.kinds])
        for kind in paths.kinds:
            alpha = self.value(inner, f"{prior.name} {kind} α") * self._factor(
                inner, prior, algorithm, kind
            )
            latency.append(max(NEGLIGIBLE, alpha * (longer if kind in BETWEEN else 1.0)))
            pacer = self.pacer(kind) if size > 1 else kind
            rate = self.value(inner, prior.rate(kind))
            if size > 1 and pacer in BETWEEN:
                shared = self.value(inner, prior.rate(pacer)) * self._shared(
                    inner, size, algorithm, paths
                )
                rate = slower * shared if pacer == kind else max(rate, shared)
            slowness.append(rate * self._slower(inner, algorithm, kind))
        return Costs(np.array(latency), np.array(slowness), gap, merge)

    def _pairs(self) -> tuple[str, ...]:
        """Algorithms of sends and receives whose α and 1/β were fitted apart."""
        return self.library.pairs if self.paths.pairs else ()

    def _crowding(self, inner: Floats) -> Crowding:
        latency, slowness = (self.value(inner, f"network {what} by nodes") for what in ("α", "1/β"))
        own = (self._session(inner, what) for what in ("α", "1/β"))
        apart = (Apart(*map(float, one)) for one in zip(self.sessions, *own, strict=True))
        shared = self.value(inner, "network 1/β by ranks a node")
        return Crowding(self.typical, latency, slowness, tuple(apart), self.wide, shared, self.most)

    def pacer(self, kind: str) -> str:
        """The kind of link whose β links of `kind` have in a job over several nodes."""
        return "network" if self.library.paced and "network" in self.kinds else kind

    def profile(self, inner: Floats, name: str, machine: str) -> Profile:
        """The parameters as what a simulation takes."""
        protocols = tuple(
            Protocol(
                prior.name,
                {
                    kind: Cost(
                        self.value(inner, f"{prior.name} {kind} α"),
                        self.value(inner, f"{prior.name} {kind} g"),
                        1 / self.value(inner, prior.rate(kind)),
                    )
                    for kind in self.kinds
                },
                {
                    name: {kind: self._factor(inner, prior, name, kind) for kind in self.kinds}
                    for name in (*prior.factors, *(RINGS if prior.rings else ()), *self._pairs())
                },
            )
            for prior in self.library.protocols
        )
        grows = self.crowding or self.paths.wide
        crowding = {kind: self._crowding(inner) for kind in self.kinds if kind in BETWEEN and grows}
        return Profile(
            name,
            machine,
            self.value(inner, "launch"),
            protocols,
            crowding,
            self.memory(inner),
            self.library.scratch,
            self.library.paced,
            self.library.joined,
            {
                name: {kind: self._slower(inner, name, kind) for kind in self.kinds}
                for name in self._pairs()
            },
            {
                name: self.value(inner, "launch") * exp(self.value(inner, "launch of sends"))
                for name in self._pairs()
            },
            Exchanges(self.value(inner, "long exchanges"), self.library.long)
            if self.paths.long
            else Exchanges(),
        )
