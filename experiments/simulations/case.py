"""One algorithm at one number of ranks on one machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from experiments.simulations import workload
from experiments.simulations.rules import DEFAULT, Rules
from simulator.analysis.bounds import best_bound
from simulator.collectives import Algorithm, find
from simulator.collectives.algorithm_options import best
from simulator.collectives.operation_counts import bounds, estimate
from simulator.collectives.proof import prove
from simulator.collectives.symmetry import Representatives, fold
from simulator.cost_models import CostModel
from simulator.cost_models.fabric import Fabric, observe
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import WrongResult
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import ProfileRun, Timeline
from topologies.resources import Need, affordable
from topologies.topology import Topology

if TYPE_CHECKING:
    from simulator.predictions import LaidRoutes, Prediction
    from simulator.profile import Profile
    from simulator.uncertainty.interval import Interval


@dataclass
class Case:
    """One algorithm at one number of ranks on one machine, built and proven once for all sizes."""

    algorithm: Algorithm
    ranks: int
    topology: Topology
    rules: Rules = DEFAULT
    profile: Profile | None = None
    """A calibrated library: every one of its protocols is simulated."""
    schedule: Schedule = field(init=False)
    cost: CostModel = field(init=False)
    chosen: tuple[str, ...] = field(init=False, default=())
    """What an algorithm that is made for the machine chose there, in words."""
    wrong: str = field(init=False, default="")
    """What is wrong with the result, if anything is."""
    machine: Topology = field(init=False, repr=False)
    """The machine without switches that take part."""
    _routed: Routed | None = field(init=False, default=None, repr=False)
    _fabric: Fabric | None = field(init=False, default=None, repr=False)
    _others: dict[str, Case] = field(init=False, default_factory=dict, repr=False)
    """The cases of other algorithms and numbers of pieces, by the name of the algorithm."""

    def __post_init__(self) -> None:
        self.machine = self.topology
        folded = self._folded()
        if folded is None:
            self._check()
            fitted = self.algorithm.on(self.topology, self.ranks, 1.0)
        else:
            fitted, self._routed = folded
        self.schedule, self.topology, self.cost, self.chosen = fitted
        servers = self.topology.placement[self.ranks :][: self.algorithm.servers]
        self.chosen += tuple(f"server: {self.topology.device_names[device]}" for device in servers)
        try:
            prove(self.algorithm, self.schedule)
        except WrongResult as error:
            self.wrong = str(error)

    def _folded(self) -> Representatives | None:
        """The schedule of the ranks that stand for all, where that is worth looking for."""
        # Few operations are sooner simulated than folded.
        if self.rules.symmetry == "off" or estimate(self.algorithm, self.ranks) < 4096:
            return None
        return fold(
            self.algorithm,
            self.topology,
            self.ranks,
            self._is_worth_trying,
            merges=self.profile is not None,
            fair=self.rules.sharing == "fair",
        )

    def _is_worth_trying(self, shifts: Shifts) -> bool:
        """Whether it is cheap to see whether the schedule can be folded, or all ranks take as
        long."""
        if self.rules.force or self.ranks <= workload.SMALL_RANKS:
            return True
        least, trial, whole = (self._need(share) for share in (0.0, 1 / shifts.order, 1.0))
        short = trial.seconds < least.seconds + workload.TRIAL_SECONDS
        return affordable(trial) and (short or affordable(whole))

    def _check(self) -> None:
        if self.ranks > workload.SMALL_RANKS:
            point = workload.PointEstimate(self.algorithm, self.ranks, self._need(1.0))
            workload.check_schedule(point, self.rules.force)

    def _need(self, share: float) -> Need:
        machine = workload.MachineShare(share, self._rings)
        return workload.need(self.algorithm, self.ranks, self.rules, machine)

    @cached_property
    def _rings(self) -> float:
        """How many times as many operations there are as on no particular machine."""
        if self.algorithm.fit is None:
            return 1.0
        on_machine = max(bounds(self.algorithm, self.topology, self.ranks))
        return max(1.0, on_machine / estimate(self.algorithm, self.ranks))

    @property
    def routed(self) -> Routed:
        """The schedule on the machine, laid once for all sizes."""
        if self._routed is None or self._routed.machine is not self.topology:
            fair = self.rules.sharing == "fair"
            self._routed, self._fabric = route(self.schedule, self.topology, fair=fair), None
        return self._routed

    @cached_property
    def _laid(self) -> LaidRoutes:
        from simulator.predictions import LaidRoutes

        return LaidRoutes(self.algorithm)

    def fabric(self, routed: Routed) -> Fabric:
        """What the formula knows of the machine of a run: the same for all sizes, unless a profile
        changes the machine."""
        if routed.machine is not self.topology:
            return observe(routed)
        if self._fabric is None:
            self._fabric = observe(routed)
        return self._fabric

    def tuned(self, nbytes: float) -> Case:
        """The same with the best options for a size, where the algorithm leaves some open, or with
        the pieces of the profile's library. The algorithm that the library takes, where that is
        asked for."""
        profile, algorithm = self.profile, self.algorithm
        if profile is not None and profile.choices is not None and algorithm.by_library:
            names = profile.choices(algorithm.collective.name, self.machine, nbytes)
            cases = [self.other(find(name)).tuned(nbytes) for name in names]
            return min(cases, key=lambda case: case.expected(nbytes)) if cases[1:] else cases[0]
        if profile is not None and algorithm.name in profile.pieces:
            return self.other(find(profile.divided(algorithm.name, nbytes)))
        if not algorithm.searched:
            return self
        return self._case(
            best(algorithm, self.ranks, lambda option: self._case(option).run(nbytes).seconds)
        )

    def _case(self, algorithm: Algorithm) -> Case:
        return Case(algorithm, self.ranks, self.machine, self.rules, self.profile)

    def other(self, algorithm: Algorithm) -> Case:
        """The case of another algorithm, built once."""
        if algorithm.name not in self._others:
            self._others[algorithm.name] = self._case(algorithm)
        return self._others[algorithm.name]

    def expected(self, nbytes: float) -> float:
        """The expected seconds of one size, or the simulated ones without intervals."""
        run = self.run(nbytes)
        sure = self.interval(run)
        return sure.expected if sure else run.seconds

    def simulate(self, nbytes: float) -> Timeline:
        """Simulate one size, without what software adds before the first operation."""
        return self.run(nbytes).timeline

    def run(self, nbytes: float) -> ProfileRun:
        """Simulate one size; under a profile, by its fastest protocol."""
        routed = self.routed.scaled(nbytes)
        if self.profile is None:
            return ProfileRun("", self.rules.run(routed), {})
        return self.profile.simulate(routed, self.algorithm, self.rules.run, self._laid)

    def prediction(self, run: ProfileRun) -> Prediction | None:
        """A run with what is known of its error; None without a profile, or if it does not say how
        sure it is."""
        if self.profile is None:
            return None
        from simulator.predictions import prediction

        return prediction(self.profile, run, self.algorithm, self._laid)

    def interval(self, run: ProfileRun) -> Interval | None:
        """How sure the profile is of the time of a run; None if :meth:`prediction` is."""
        predicted = self.prediction(run)
        if predicted is None:
            return None
        from simulator.predictions import interval_of

        return interval_of(predicted)

    def bounded(self, sure: Interval | None, nbytes: float) -> Interval | None:
        """An interval that ends at the bound of the specified links, if those are known."""
        if sure is None or self.profile is None or not self.profile.specified:
            return sure
        bound = best_bound(self.algorithm.collective, self.machine, self.ranks, nbytes)
        return sure.above(bound.seconds)
