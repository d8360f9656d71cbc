"""Steps of data-parallel training on a star, of a small model with round numbers."""

from simulator.schedules.timeline import Timeline
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.measures import Measures, measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import train
from simulator.training.strategy import Strategy
from topologies.catalogue import find
from topologies.topology import Topology

ONE_BUCKET = 1e12
MODEL = Model(
    "model",
    8,
    tuple(
        Layer(f"fc{k}", 0.25, 0.5, 64.0, (Tensor("w", 4096.0),), buffers=16.0, channels=2)
        for k in range(4)
    ),
    optimizer=0.125,
)
GRADIENTS = 4 * 4096.0


def star(ranks: int, bandwidth: float = 1024.0, latency: float = 0.0, servers: int = 0) -> Topology:
    return (
        find("star").with_links(bandwidth=bandwidth, latency=latency).build(max(ranks, 2), servers)
    )


def planned(
    strategy: Strategy,
    ranks: int,
    *,
    model: Model = MODEL,
    topology: Topology | None = None,
    steps: int = 1,
    **conditions: object,
) -> Plan:
    machine = star(ranks) if topology is None else topology
    how = Conditions(**conditions)  # type: ignore[arg-type]
    return strategy.plan(model, Setting(machine, ranks, steps, how))


def ran(strategy: Strategy, ranks: int, **options: object) -> tuple[Plan, Timeline, Measures]:
    plan = planned(strategy, ranks, **options)  # type: ignore[arg-type]
    timeline = train(plan)
    return plan, timeline, measure(plan, timeline)


def step(strategy: Strategy, ranks: int, **options: object) -> float:
    return ran(strategy, ranks, **options)[2].step


def quiet(**options: object) -> DDP:
    """Without the broadcast of buffers, which the closed forms leave out."""
    return DDP(broadcast_buffers=False, **options)  # type: ignore[arg-type]
