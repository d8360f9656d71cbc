"""Intervals of whole steps: of kernels, launches and communication, and of what is left of a step
whose factors are known."""

from __future__ import annotations

from math import exp, hypot, log

import numpy as np

from experiments.models.model_shapes import TransformerShape
from experiments.parallel.factor_fit import Sureness, spreads
from experiments.parallel.plan_step import Training
from experiments.parallel.step_calibration import bound_seconds
from simulator.parallel.step import Step
from simulator.parallel.step_measures import length_of
from simulator.uncertainty.interval import LEVEL, Interval, quantile
from topologies.topology import Floats


def usual_sureness(shape: TransformerShape) -> Sureness:
    """How surely tables know a device and the launch of a kernel, without a measured step."""
    usual = spreads()
    model = usual.experts if shape.experts else usual.model
    return Sureness(hypot(usual.device, model, usual.precision), usual.launch)


def step_spread(seconds: Floats, sureness: Sureness, *, links: float = 0.0) -> float:
    """The standard deviation of the logarithm of a step, from the seconds of its critical path:
    of the device, of launches, and of all else, whose own is `links`. Shape (3,)."""
    usual, (device, launch) = spreads(), sureness
    launched = hypot(launch, usual.launched)
    shares = seconds / (seconds.sum() or 1.0)
    return hypot(*(shares * np.array([device, launched, links])).tolist(), usual.step)


def whole_interval(
    step: Step, training: Training, level: float, communication: Interval | None
) -> Interval | None:
    """The interval of a step, from that of its `communication` if a profile has one. None if
    neither a profile nor a measured step says how sure it is."""
    if communication is None and training.sureness is None:
        return None
    sureness = training.sureness or usual_sureness(training.shape)
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
