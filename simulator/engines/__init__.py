"""Engines turn a schedule and a topology into a timeline."""

from typing import Literal

from simulator import _compile
from simulator.routed import Routed, route
from simulator.schedule import Schedule
from simulator.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Topology

Engine = Literal["auto", "reference", "compiled"]


def simulate(schedule: Schedule, topology: Topology, engine: Engine = "auto", *, operations: int = 0) -> Timeline:
    """Simulate every operation of `schedule` on `topology`.

    "auto" takes the reference for little work and the compiled engine for much; `operations` is the work of the whole
    request, where that is more than this schedule. Raises InputError if a rank has no device or no route.
    """
    return choose(engine, max(operations, len(schedule)))(route(schedule, topology))


def choose(engine: Engine, operations: int):  # type: ignore[no-untyped-def]
    """The run function of an engine."""
    if engine not in ("auto", "reference", "compiled"):
        raise InputError(f"engine is {engine!r}: it is auto, reference or compiled")
    if engine == "auto":
        engine = "compiled" if operations > _compile.CROSSOVER or _compile.is_loaded() else "reference"
    if engine == "reference":
        from simulator.engines import reference

        return reference.run
    from simulator.engines import compiled

    return compiled.run


__all__ = ["Engine", "Routed", "simulate"]
