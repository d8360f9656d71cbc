"""Intervals of whole steps: of kernels, launches and communication, and of what is left of a step
whose factors are known."""

from __future__ import annotations

from math import exp, hypot, log

import numpy as np

from experiments.parallel.factor_fit import spreads
from experiments.parallel.plan_step import Sureness
from experiments.parallel.step_calibration import bound_seconds
from simulator.parallel.step import Step
from simulator.parallel.step_measures import length_of
from simulator.uncertainty.interval import LEVEL, Interval, quantile
from topologies.topology import Floats


def usual_sureness() -> Sureness:
    """How surely tables know a device and the launch of a kernel, without a measured step."""
    known = spreads()
    return Sureness(hypot(known.device, known.model, known.precision), known.launch)


def step_spread(seconds: Floats, sureness: Sureness | None, *, links: float = 0.0) -> float:
    """The standard deviation of the logarithm of a step, from the seconds of its critical path:
    of the device, of launches, and of all else, whose own is `links`. Shape (3,)."""
    known = spreads()
    device, launch = sureness or usual_sureness()
    launched = hypot(launch, known.launched)
    shares = seconds / (seconds.sum() or 1.0)
    return hypot(*(shares * np.array([device, launched, links])).tolist(), known.step)


def whole_interval(
    step: Step, sureness: Sureness | None, level: float, communication: Interval | None
) -> Interval | None:
    """The interval of a step, from that of its `communication` if a profile has one. None if
    neither a profile nor a measured step says how sure it is."""
    if communication is None and sureness is None:
        return None
    seconds = length_of(step)
    inner = communication or Interval(seconds, seconds, seconds, level or LEVEL)
    links = 0.0 if communication else spreads().links
    reach = quantile(inner.level) * step_spread(bound_seconds(step.timeline), sureness, links=links)
    expected, low, high = inner[:3]
    if not low > 0:
        return inner
    return inner._replace(
        low=expected * exp(-hypot(reach, log(expected / low))),
        high=expected * exp(hypot(reach, log(high / expected))),
    )
