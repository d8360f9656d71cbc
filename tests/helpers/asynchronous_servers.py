"""Asynchronous SGD on a star: a small model, its plan, and what is measured of a run."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from simulator.engines import simulate
from simulator.schedules.timeline import Timeline
from simulator.training.asgd import ASGD, SSP
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import Measures, measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.strategy import SERVERS
from topologies.catalogue import find as machine

FREE = 1e30
"""A bandwidth at which a byte takes no time that a double can see beside a second."""
MODEL = Model(
    "model", 8, (Layer("fc", 1.0, 2.0, tensors=(Tensor("w", 1.0),)),), memory_bandwidth=10.0
)
CYCLE = 3.0
"""Forward and backward of MODEL."""


def planned(
    strategy: ASGD,
    ranks: int,
    steps: int,
    bandwidth: float = FREE,
    latency: float = 0.0,
    *,
    model: Model = MODEL,
    **how: object,
) -> Plan:
    topology = (
        machine("star").with_links(bandwidth, latency).build(max(ranks, 2), strategy.servers(ranks))
    )
    if ranks == 1:
        topology = replace(topology, placement=topology.placement[[0, -1]])
    conditions = Conditions(**how)  # type: ignore[arg-type]
    return strategy.plan(model, Setting(topology, ranks, steps, conditions))


def ran(
    strategy: ASGD, ranks: int, steps: int, *network: float, **how: object
) -> tuple[Plan, Timeline, Measures]:
    plan = planned(strategy, ranks, steps, *network, **how)  # type: ignore[arg-type]
    timeline = simulate(plan.schedule, plan.topology)
    return plan, timeline, measure(plan, timeline)


def applied(plan: Plan, timeline: Timeline) -> npt.NDArray[np.float64]:
    """When each update of each worker is applied, shape (steps, ranks)."""
    return np.asarray(timeline.finish[plan.ends])


STRATEGIES = st.one_of(
    st.builds(ASGD, server=st.sampled_from(SERVERS), update=st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(
        SSP,
        server=st.sampled_from(SERVERS),
        update=st.sampled_from([0.0, 0.5, 2.0]),
        bound=st.integers(0, 2),
    ),
)
CONDITIONS = st.fixed_dictionaries(
    {"sigma": st.sampled_from([0.0, 0.5]), "seed": st.integers(0, 99)},
    optional={"batches": st.just({0: 1}), "failure": st.just(Failure(0, 1, 1.375, 0.0625))},
)
