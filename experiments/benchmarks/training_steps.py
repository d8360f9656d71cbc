"""What the tables of measured training share: a predicted step."""

from __future__ import annotations

from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Model
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.topology import Topology


def step(model: Model, topology: Topology, ddp: DDP) -> float:
    """Seconds of one step on all ranks of `topology`."""
    plan = ddp.plan(model, Setting(topology, topology.ranks))
    return measure(plan, train(plan)).step
