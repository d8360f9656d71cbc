"""Steps of a plan under conditions: what they cost, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments import output
from experiments.names import members_name
from simulator.parallel.conditioned_step import chained, place_of, split_step
from simulator.parallel.step import Step
from simulator.parallel.step_measures import (
    PeerWaits,
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
LISTED = 32
"""Waits that a result has, at most: the longest ones."""
ROUNDING = 1e-9
"""Waits below this share of a step are rounding errors."""


@dataclass(frozen=True, eq=False)
class Course:
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
        """Who waits for whom in a step longer than without the conditions, the longest first."""
        graph, under, plain = self.step.graph, peer_waits(self.step), peer_waits(self.plain)
        device = self.plain.graph.place_of[graph.leaders]
        usual = dict(zip(_keys(plain), plain.seconds.tolist(), strict=True))
        rows = _keys(under._replace(place=device[under.place], peer=device[under.peer]))
        longer = (under.seconds - [usual.get(row, 0.0) for row in rows]) / self.steps
        order = np.argsort(-longer, kind="stable")[:LISTED]
        return [
            {
                "device": int(device[under.place[row]]),
                "ranks": members_name(graph, int(under.place[row])),
                "peer_device": int(device[under.peer[row]]),
                "peer_ranks": members_name(graph, int(under.peer[row])),
                "stream": graph.lanes[under.lane[row]],
                "longer_s": float(longer[row]),
            }
            for row in order.tolist()
            if longer[row] > ROUNDING * self.seconds
        ]


def course_of(
    plain: Step, step: Step, conditions: Conditions, steps: int, *, force: bool = False
) -> Course:
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
    return Course(plain, whole, conditions, steps)


def _keys(waits: PeerWaits) -> list[tuple[int, int, int]]:
    columns = waits.place.tolist(), waits.peer.tolist(), waits.lane.tolist()
    return list(zip(*columns, strict=True))
