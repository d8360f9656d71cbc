"""Synchronous SGD on a star with whole numbers of seconds, and the closed form of a step."""

from simulator.schedules.timeline import Timeline
from simulator.training.conditions import Conditions
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import train
from simulator.training.ssgd import SSGD
from topologies import shapes
from topologies.topology import Topology

CALM = Conditions()


def layer(name: str, forward: float, backward: float, nbytes: float) -> Layer:
    return Layer(
        name, forward, backward, tensors=(Tensor(f"{name}.weight", nbytes),) if nbytes else ()
    )


MODEL = Model(
    "two layers and one without parameters",
    batch=4,
    layers=(layer("in", 1.0, 2.0, 12.0), layer("relu", 0.5, 0.5, 0.0), layer("out", 1.0, 1.0, 4.0)),
    inputs=3.0,
)
COMPUTE = 6.0


def star(ssgd: SSGD, ranks: int, bandwidth: float, latency: float = 0.0) -> Topology:
    return shapes.star(max(2, ranks + ssgd.servers(ranks)), bandwidth=bandwidth, latency=latency)


def planned(
    ssgd: SSGD,
    ranks: int,
    *,
    steps: int = 1,
    bandwidth: float = 2.0,
    latency: float = 0.0,
    model: Model = MODEL,
    conditions: Conditions = CALM,
) -> Plan:
    return ssgd.plan(
        model, Setting(star(ssgd, ranks, bandwidth, latency), ranks, steps, conditions)
    )


def run(plan: Plan) -> Timeline:
    return train(plan)


def serial(ssgd: SSGD, ranks: int, bandwidth: float, latency: float, model: Model = MODEL) -> float:
    """A step on a star: `others` pushes of a shard go into one port, and as many pulls come out of
    it. The sums wait for the port, or the port is far ahead of them. The batches follow the
    pulls."""
    shards = ranks if ssgd.server == "sharded" else 1
    workers = ranks - (ssgd.server_kind is None)
    push, pull = model.gradients / shards / bandwidth, model.parameters / shards / bandwidth
    add, route = ssgd.adding(model) / shards, 2 * latency * (workers > 0)
    gathered = max(workers * push + add, push + workers * add) if workers else 0.0
    batches = workers * model.inputs / bandwidth if ssgd.scatter else 0.0
    update = ssgd.updating(model) / shards
    return (
        model.forward
        + model.backward
        + route
        + gathered
        + update
        + route
        + workers * pull
        + batches
    )
