"""One rank of those that torchrun, srun or mpirun started: it settles with the others who measures
and who speaks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from experiments.measure.blame import GRACE, Complaint, MeasurementFailed, blame, complaint
from experiments.measure.launcher import Place
from experiments.measure.points import Plan, Point
from experiments.measure.ranks import find_device, go_through, join, site_of
from experiments.measure.result_rows import ResultRow


def take_part(plan: Plan, place: Place, on_row: Callable[[ResultRow], object]) -> None:
    """Measure the points of rank 0's plan together with the other ranks; `on_row` gets every point
    at rank 0.

    Raises MeasurementFailed when a rank fails or does not answer: with a message at the one that
    fails, or else at the first that knows of it, and without one at the others. Raises InputError
    if the device is not there, or the ranks do not meet.
    """
    with _quiet():
        device = find_device(plan, place.local)
        store, nodes = join(plan, place, device)
        points = _agreed(plan.points, place, store)
        listener = _Listener(on_row)
        try:
            go_through(plan, points, site_of(plan, place, device), nodes, listener)
        except Exception as error:
            raise MeasurementFailed(
                _settled(store, place, complaint(listener.point, error))
            ) from None
        _leave(store, place)


class _Listener:
    def __init__(self, on_row: Callable[[ResultRow], object]) -> None:
        self.row = on_row
        self.point = "at the start"

    def at(self, point: Point) -> None:
        self.point = f"in {point}"


def _agreed(points: Sequence[Point], place: Place, store: Any) -> Sequence[Point]:
    """Those that rank 0 has yet to measure: the others need not see its file."""
    if place.rank == 0:
        store.set("points", json.dumps([point.__dict__ for point in points]))
        return points
    return [Point(**point) for point in json.loads(store.get("points"))]


def _settled(store: Any, place: Place, own: Complaint) -> str:
    """Who is to blame, if it is for this rank to say; else nothing."""
    known = {place.rank: own}
    if not own.lost:
        with suppress(Exception):
            store.set(f"failed/{place.rank}", json.dumps(own))
        return blame(place.ranks, known, {}, {})
    with suppress(Exception):
        store.set(f"failed/{place.rank}", json.dumps(own))
        others = [rank for rank in range(place.ranks) if rank != place.rank]
        with suppress(RuntimeError):
            store.wait([f"failed/{rank}" for rank in others], timedelta(seconds=GRACE))
        known |= _heard(store, others)
    said = place.rank != min(known) or not all(complaint.lost for complaint in known.values())
    return "" if said else blame(place.ranks, known, {}, {})


def _heard(store: Any, ranks: Sequence[int]) -> dict[int, Complaint]:
    said = [rank for rank in ranks if store.check([f"failed/{rank}"])]
    return {rank: Complaint(*json.loads(store.get(f"failed/{rank}"))) for rank in said}


def _leave(store: Any, place: Place) -> None:
    """Let nobody go while another still needs him; rank 0 may hold the store, so it goes last."""
    with suppress(RuntimeError):
        store.set(f"done/{place.rank}", "")
        store.wait([f"done/{rank}" for rank in range(place.ranks)])


@contextmanager
def _quiet() -> Iterator[None]:
    """What libraries print meanwhile goes to stderr: stdout is for the table."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
