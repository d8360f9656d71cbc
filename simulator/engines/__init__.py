"""Engines turn a schedule and a topology into a timeline."""

from typing import Literal

from simulator.routed import Routed, route
from simulator.schedule import Schedule
from simulator.timeline import Timeline
from topologies import _compile
from topologies.errors import InputError
from topologies.topology import Topology

Engine = Literal["auto", "reference", "compiled"]

REFERENCE_COST = 8
"""An operation in the reference engine takes as long as about this many in an uncompiled kernel."""


def simulate(schedule: Schedule, topology: Topology, engine: Engine = "auto") -> Timeline:
    """Simulate every operation of `schedule` on `topology`.

    "auto" takes the reference while a process has little to do and the compiled engine from then on: they agree to the
    bit. Raises InputError if a rank has no device or no route.
    """
    if engine not in ("auto", "reference", "compiled"):
        raise InputError(f"engine is {engine!r}: it is auto, reference or compiled")
    routed = route(schedule, topology)
    if engine == "compiled" or (engine == "auto" and _compile.pays(REFERENCE_COST * len(schedule))):
        from simulator.engines import compiled

        return compiled.run(routed)
    from simulator.engines import reference

    return reference.run(routed)


__all__ = ["Engine", "Routed", "simulate"]
