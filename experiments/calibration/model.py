"""The times of many measured points as one function of a machine's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import exp

import numpy as np

from experiments.calibration.exploration import Exploration
from experiments.calibration.libraries import RINGS, Library, Prior
from experiments.calibration.observations import Flags, Points
from experiments.calibration.parameters import parameters
from experiments.calibration.table import (
    ALL,
    BETWEEN,
    Known,
    Machine,
    Table,
    as_nodes,
    reach,
)
from simulator.effects.crowding import Apart, Crowding, alike
from simulator.effects.exchanges import Exchanges
from simulator.effects.host_memory import Memory
from simulator.effects.jobs import Index
from simulator.profile import Cost, Profile, Protocol
from topologies.topology import Floats


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
        between = np.array([one.per_node for one in points.curves])[points.curve][points.nodes > 1]
        self.wide = float(np.exp(np.log(between).mean())) if self.paths.wide else 1.0
        self.crowding = (
            crowding
            and len(np.unique(points.nodes)) > 1
            and any(kind in BETWEEN for kind in self.kinds)
        )
        self.ran: Mapping[int, tuple[str, ...]] = {}
        self.sessions = np.unique(points.nodes) if self.crowding and library.memory else np.zeros(0)
        self.shared = (
            np.linalg.cholesky(alike(self.sessions, self.sessions))
            if len(self.sessions)
            else np.zeros((0, 0))
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

    def predict(self, inner: Floats, keep: Index = ALL, table: Table | None = None) -> Floats:
        """Seconds of the points that `keep` chooses, by the paths known so far, and the fastest
        algorithm. `table` is that of these points, by default of all paths known."""
        table = table or self.table(keep)
        profile, size = self.profile(inner), self.points.size[keep]
        fastest = self._paths(profile, size, table).max(axis=3).min(axis=2)
        return np.asarray((fastest + self._beside(profile, size, table)).min(axis=1))

    def table(self, keep: Index = ALL) -> Table:
        """The paths known of the points that `keep` chooses."""
        table = self.paths.table()
        if self.ran:
            absent = table.absent.copy()
            for c, names in self.ran.items():
                absent[self.points.curve == c] = self.paths.absent(c, names, absent.shape[1])
            table = replace(table, absent=absent)
        return table.at(keep)

    def active(self, inner: Floats, keep: Index = ALL) -> Table:
        """Of every point the one path that its time is, at these parameters; those of other
        protocols are endless."""
        table, profile, size = self.table(keep), self.profile(inner), self.points.size[keep]
        seconds = self._paths(profile, size, table)
        longest = seconds.argmax(axis=3)
        best = np.take_along_axis(seconds, longest[..., None], axis=3)[..., 0]
        protocol, every = best.argmin(axis=2), np.arange(len(best))
        algorithm = (best.min(axis=2) + self._beside(profile, size, table)).argmin(axis=1)
        number = protocol[every, algorithm]
        return table.only(algorithm, number, longest[every, algorithm, number])

    def _paths(self, profile: Profile, size: Floats, table: Table) -> Floats:
        """Seconds of every known path, shape (points, algorithms, protocols, paths)."""
        costs = profile.link_costs(self.paths.jobs, profile.protocols, self.kinds)
        latency = costs.latency[table.job]
        slowness = (1 / costs.bandwidth)[table.job] * size[:, None, None, None]
        seconds = table.merged * (profile.memory.merge(size) * size)[:, None, None, None]
        for k in range(len(self.kinds)):
            seconds = seconds + table.latencies[..., k] * latency[..., k, None]
            seconds = seconds + table.bytes[..., k] * slowness[..., k, None]
            if self.gaps:
                seconds = seconds + table.gaps[..., k] * costs.gap[:, k, None]
        return np.asarray(seconds)

    def _beside(self, profile: Profile, size: Floats, table: Table) -> Floats:
        """Seconds that no link takes, infinite where an algorithm is none that may have run."""
        jobs = self.paths.jobs.at(table.job)
        shares = profile.shares(jobs, size[:, None], table.excess, self.kinds)
        return np.asarray(sum(shares.values()) + table.absent)

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
        exploration = Exploration(self.profile(inner), self.paths.jobs, self.kinds)
        wrong = max(exploration.explore(place, doubt) for place in self.paths.places())
        self.paths.version += 1
        return wrong

    def _pairs(self) -> tuple[str, ...]:
        """Algorithms of sends and receives whose α and 1/β were fitted apart."""
        return self.library.pairs if self.paths.pairs else ()

    def _crowding(self, inner: Floats) -> Crowding:
        latency, slowness = (self.value(inner, f"network {what} by nodes") for what in ("α", "1/β"))
        own = (self._session(inner, what) for what in ("α", "1/β"))
        apart = (Apart(*map(float, one)) for one in zip(self.sessions, *own, strict=True))
        shared = self.value(inner, "network 1/β by ranks a node")
        return Crowding(self.typical, latency, slowness, tuple(apart), self.wide, shared, self.most)

    def profile(self, inner: Floats, name: str = "the fit", machine: str = "") -> Profile:
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
