"""Measures as one of the ranks that torchrun, srun or mpirun started; rank 0 reports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from experiments.measure.blame import GRACE_SECONDS, Complaint, MeasurementFailed, blame, complaint
from experiments.measure.launcher import RankPlace
from experiments.measure.points import MeasurementPlan, MeasurementPoint
from experiments.measure.ranks import find_device, go_through, join, site_of
from experiments.measure.result_rows import ResultRow


def take_part(
    plan: MeasurementPlan, place: RankPlace, on_row: Callable[[ResultRow], object]
) -> None:
    """Measure the points of rank 0's plan together with the other ranks.

    At rank 0 `on_row` gets every point. Raises MeasurementFailed if a rank fails or does not
    answer. Only one rank has a message then: the failing rank, or the first that knows of it.
    Raises InputError if the device is missing, or the ranks do not meet.
    """
    with _quiet():
        device = find_device(plan, place.local)
        store, nodes = join(plan, place, device)
        points, where = _agreed(plan.points, place, store), "at the start"
        try:
            for event in go_through(plan, points, site_of(plan, place, device), nodes):
                if isinstance(event, ResultRow):
                    on_row(event)
                else:
                    where = event
        except Exception as error:
            raise MeasurementFailed(_report(store, place, complaint(where, error))) from None
        _leave(store, place)


def _agreed(
    points: Sequence[MeasurementPoint], place: RankPlace, store: Any
) -> Sequence[MeasurementPoint]:
    """The points that rank 0 has yet to measure. Other ranks need not see its file."""
    if place.rank == 0:
        store.set("points", json.dumps([point.__dict__ for point in points]))
        return points
    return [MeasurementPoint(**point) for point in json.loads(store.get("points"))]


def _report(store: Any, place: RankPlace, complaint: Complaint) -> str:
    """The rank that caused the failure, if this rank has to report it; otherwise empty."""
    complaints = {place.rank: complaint}
    if not complaint.lost:
        with suppress(Exception):
            store.set(f"failed/{place.rank}", json.dumps(complaint))
        return blame(place.ranks, complaints, {}, {})
    with suppress(Exception):
        store.set(f"failed/{place.rank}", json.dumps(complaint))
        peers = [rank for rank in range(place.ranks) if rank != place.rank]
        with suppress(RuntimeError):
            store.wait([f"failed/{rank}" for rank in peers], timedelta(seconds=GRACE_SECONDS))
        complaints |= _complaints(store, peers)
    culprit_known = not all(peer_complaint.lost for peer_complaint in complaints.values())
    silent = place.rank != min(complaints) or culprit_known
    return "" if silent else blame(place.ranks, complaints, {}, {})


def _complaints(store: Any, ranks: Sequence[int]) -> dict[int, Complaint]:
    failed = [rank for rank in ranks if store.check([f"failed/{rank}"])]
    return {rank: Complaint(*json.loads(store.get(f"failed/{rank}"))) for rank in failed}


def _leave(store: Any, place: RankPlace) -> None:
    """Wait until all ranks are done. Rank 0 may hold the store, so it ends last."""
    with suppress(RuntimeError):
        store.set(f"done/{place.rank}", "")
        store.wait([f"done/{rank}" for rank in range(place.ranks)])


@contextmanager
def _quiet() -> Iterator[None]:
    """Send to stderr what libraries print meanwhile: stdout is for the table."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
