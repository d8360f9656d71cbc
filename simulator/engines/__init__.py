"""Engines turn a schedule and a topology into a timeline."""

from functools import partial
from typing import Literal

from simulator.engines.time_limits import check_times, grid_step
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Sharing, Timeline
from topologies import jit
from topologies.errors import InputError
from topologies.topology import Topology

Engine = Literal["auto", "reference", "compiled"]

REFERENCE_COST = 8
"""An operation in the reference engine takes as long as so many in an uncompiled kernel."""
FLOWS_PER_COST = 12
"""So many flows at a time make an operation in the reference engine twice as slow."""


def simulate(
    schedule: Schedule,
    topology: Topology,
    engine: Engine = "auto",
    *,
    sharing: Sharing = "fifo",
    store_and_forward: bool = False,
    fair_tolerance: float = 0.0,
) -> Timeline:
    """Simulate every operation of `schedule` on `topology`.

    With "fifo" a medium serves transfers one after the other, cut-through or store-and-forward.
    With "fair" it serves them together at max-min fair rates. The engine "auto" is the reference
    while a process has little to do, and the compiled engine from then on. They agree to the bit,
    or under fair sharing to 1e-9. With a `fair_tolerance` flows end at multiples of a grid step
    (:func:`simulator.engines.time_limits.grid_step`): that is faster, and not exact.

    Raises InputError if a rank has no device or no route, or if the times are too long to count
    (:func:`simulator.engines.time_limits.check_times`).
    """
    _check(engine, sharing, store_and_forward)
    return run(
        route(schedule, topology, fair=sharing == "fair"),
        engine,
        sharing=sharing,
        store_and_forward=store_and_forward,
        fair_tolerance=fair_tolerance,
    )


def run(
    routed: Routed,
    engine: Engine = "auto",
    *,
    sharing: Sharing = "fifo",
    store_and_forward: bool = False,
    fair_tolerance: float = 0.0,
) -> Timeline:
    """Simulate a schedule with routes. Raises InputError if its times are too long to count, or if
    it is folded for fair sharing only."""
    if routed.fair and sharing != "fair":
        raise InputError(f"sharing is {sharing!r}: the routes are folded for 'fair'")
    check_times(routed)
    grid = _grid(routed, sharing, fair_tolerance)
    if engine == "compiled" or (engine == "auto" and jit.pays(_work(routed.schedule, sharing))):
        from simulator.engines import compiled

        return compiled.run(routed, sharing, store_and_forward, grid)
    from simulator.engines import reference

    if sharing == "fair":
        from simulator.engines.fair import FairMachine

        return reference.run(routed, partial(FairMachine, grid=grid))
    return reference.run(
        routed,
        reference.StoreAndForwardMachine if store_and_forward else reference.ReferenceMachine,
    )


def _check(engine: str, sharing: str, store_and_forward: bool) -> None:
    if engine not in ("auto", "reference", "compiled"):
        raise InputError(f"engine is {engine!r}: it is auto, reference or compiled")
    if sharing not in ("fifo", "fair"):
        raise InputError(f"sharing is {sharing!r}: it is fifo or fair")
    if sharing == "fair" and store_and_forward:
        raise InputError(
            "sharing is 'fair' with store_and_forward: a flow has its whole route at once, "
            "choose one"
        )


def _grid(routed: Routed, sharing: str, fair_tolerance: float) -> float:
    """The seconds between two moments at which flows may end; 0 if they may end at any time."""
    if not fair_tolerance:
        return 0.0
    if sharing != "fair":
        raise InputError(f"fair_tolerance is {fair_tolerance:g}: it goes with fair sharing")
    return grid_step(routed, fair_tolerance)


def _work(schedule: Schedule, sharing: str) -> int:
    """The cost of the reference engine, in operations of an uncompiled kernel."""
    together = len(schedule) // max(1, schedule.steps) if sharing == "fair" else 0
    return REFERENCE_COST * len(schedule) * (FLOWS_PER_COST + together) // FLOWS_PER_COST


__all__ = ["Engine", "Routed", "Sharing", "run", "simulate"]
