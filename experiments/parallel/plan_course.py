"""Steps of a plan under conditions: what they cost, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments import output
from experiments.names import members_name
from simulator.parallel.conditioned_step import chained, place_of, split_step
from simulator.parallel.step import Step
from simulator.parallel.step_measures import (
    StepMeasures,
    by_device,
    length_of,
    measure,
    peer_waits,
)
from simulator.training.conditions import Conditions
from topologies.resources import Need, check, duration

TASK = Need(5e-6, 1500.0)
"""To write, simulate and measure a task."""


@dataclass(frozen=True, eq=False)
class ConditionedSteps:
    """Steps one behind the other."""

    plain: Step
    """As many steps without conditions."""
    step: Step
    """All steps, with those that a failure repeats."""
    conditions: Conditions
    steps: int
    """The steps that count."""

    @property
    def seconds(self) -> float:
        """Mean seconds of a step."""
        return length_of(self.step) / self.steps

    def seconds_of(self, step: Step) -> float:
        """Mean seconds of a step whose calls take other times."""
        split = split_step(step, self.step.graph.place_of)
        return length_of(chained(split, self.conditions, self.steps)) / self.steps

    @cached_property
    def measures(self) -> StepMeasures:
        """What a mean rank of each device does in a step."""
        graph = self.step.graph
        return by_device(measure(self.step), graph, self.plain.graph.place_of, self.steps)

    def row(self, seconds: float) -> dict[str, Any]:
        """The columns of the conditions, where a step takes so many seconds."""
        plain = length_of(self.plain) / self.steps
        return {
            "steps": self.steps,
            "places": self.step.graph.places,
            "plain_step_s": plain,
            # A share of what the plan reaches without the conditions.
            "relative_speed": plain / (seconds or 1.0),
            "restarting_s": float(self.measures.restarting.mean()),
        }

    @cached_property
    def waits(self) -> list[dict[str, Any]]:
        """Who waits for whom in a step longer than without the conditions: the longest 32 waits,
        the longest first."""
        graph, plain, longer = self.step.graph, peer_waits(self.plain), []
        device = self.plain.graph.place_of[graph.leaders].tolist()
        for (place, peer, lane), seconds in peer_waits(self.step).items():
            more = (seconds - plain.get((device[place], device[peer], lane), 0.0)) / self.steps
            longer.append((more, place, peer, lane))
        longer.sort(key=lambda wait: -wait[0])
        return [
            {
                "device": device[place],
                "ranks": members_name(graph, place),
                "peer_device": device[peer],
                "peer_ranks": members_name(graph, peer),
                "stream": graph.lanes[lane],
                "longer_s": more,
            }
            for more, place, peer, lane in longer[:32]
            # What is below this share of a step are rounding errors.
            if more > 1e-9 * self.seconds
        ]


def course_of(
    plain: Step, step: Step, conditions: Conditions, steps: int, *, force: bool = False
) -> ConditionedSteps:
    """So many steps of a plan under conditions.

    Raises InputError for a rank that does not exist, and unless by `force` if that takes hours or
    more memory than is free.
    """
    places = place_of(step, conditions, steps)
    count = int(places.max()) + 1
    tasks = len(step.graph) * count / step.graph.places * len(conditions.attempts(steps))
    need = Need(tasks * TASK.seconds, tasks * TASK.nbytes)
    if conditions.sigma or conditions.observed:
        places_of = f"{count} places instead of {step.graph.places}"
        output.note(f"ranks differ by noise: {places_of}, some {duration(need.seconds)} of CPU")
    if not force:
        check(f"{count} places have {tasks:.3g} tasks", need, "take fewer steps or ranks")
    whole = chained(split_step(step, places), conditions, steps)
    if steps > 1:
        plain = chained(split_step(plain, plain.graph.place_of), Conditions(), steps)
    return ConditionedSteps(plain, whole, conditions, steps)
