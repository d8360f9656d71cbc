"""What each rank of a measurement does, alone or in a cluster."""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from experiments.measure.cases import Site, barrier, prepare, sample
from experiments.measure.launcher import (
    GRACE_SECONDS,
    Complaint,
    MeasurementFailed,
    RankPlace,
    blame,
    complaint,
)
from experiments.measure.patterns import BufferValues
from experiments.measure.points import MeasurementPlan, MeasurementPoint
from experiments.measure.result_rows import NcclLog, ResultRow, row_of
from topologies.errors import InputError


def find_device(plan: MeasurementPlan, local: int) -> torch.device:
    """The device of the rank with the number `local` on its machine.

    Raises InputError if torch has no such backend, there is no GPU, or NCCL has too few.
    """
    if plan.backend == "mpi" and not dist.is_mpi_available():
        raise InputError(
            "backend mpi: this torch was built without MPI (as all torch from pip), take --library "
            "gloo or nccl"
        )
    if plan.backend == "nccl" and not dist.is_nccl_available():
        raise InputError("backend nccl: this torch was built without NCCL, take --library gloo")
    if plan.device == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if not count:
        raise InputError(
            f"backend {plan.backend} on cuda: torch sees no GPU here, take --library gloo "
            f"--device cpu"
        )
    if plan.backend == "nccl" and local >= count:
        raise InputError(
            f"backend nccl: each rank needs a GPU, and torch sees {count} here: take fewer ranks, "
            f"or --library gloo"
        )
    return torch.device("cuda", local % count)


def _join(plan: MeasurementPlan, place: RankPlace, device: torch.device) -> tuple[dist.Store, int]:
    """Meet the other ranks; returns the shared store and the number of machines.

    Raises InputError if ranks are missing.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    start = timedelta(seconds=plan.meeting)
    try:
        store, _, _ = next(rendezvous(plan.init, place.rank, place.ranks, timeout=start))
        hosts = _meet(store, place, start)
    except (RuntimeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(
            f"{place.ranks} ranks did not meet at {plan.init} in {plan.meeting:g}s: {text}"
        ) from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=plan.timeout)
    group = dist.PrefixStore("group", store)
    dist.init_process_group(
        plan.backend, store=group, rank=place.rank, world_size=place.ranks, timeout=timeout
    )
    return store, len(set(hosts))


def go_through(
    plan: MeasurementPlan, points: Sequence[MeasurementPoint], site: Site, nodes: int
) -> Iterator[str | ResultRow]:
    """Measure the points, one after the other. Yields where the rank is when it begins a point, and
    at rank 0 the row of each point that is measured."""
    about = {
        "device": _device_name(site.device),
        "library": f"torch {torch.__version__}",
        "source": platform.node(),
    }
    barrier(site.backend, site.device)
    gc.disable()
    for point in points:
        yield f"in {point}"
        times, wrong = sample(prepare(point, site), site, plan)
        if site.rank == 0:
            ran = site.log.ran(point, site.ranks) if site.log and not point.algorithm else ""
            yield row_of(plan, point, times, wrong, nodes, {**about, "ran": ran})
        gc.collect()


def begin(plan: MeasurementPlan, place: RankPlace) -> tuple[Site, dist.Store, int]:
    """Where this rank's cases run, the store that it shares with the others, which it has met, and
    the number of machines. Raises InputError if the device or ranks are missing."""
    device = find_device(plan, place.local)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch")
    values = BufferValues(plan.ranks, plan.dtype, plan.seed)
    # Before NCCL is used.
    log = NcclLog(os.environ) if plan.backend == "nccl" and place.rank == 0 else None
    dtype = getattr(torch, plan.dtype)
    site = Site(place.rank, place.ranks, plan.backend, device, dtype, values, log)
    return site, *_join(plan, place, device)


def _meet(store: Any, place: RankPlace, timeout: timedelta) -> list[str]:
    """Wait until all ranks are here; returns their hosts."""
    store.set(f"here/{place.rank}", platform.node())
    names = [f"here/{rank}" for rank in range(place.ranks)]
    store.wait(names, timeout)
    return [store.get(name).decode() for name in names]


def _device_name(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"cuda ({torch.cuda.get_device_name(device)})"


def take_part(
    plan: MeasurementPlan, place: RankPlace, on_row: Callable[[ResultRow], object]
) -> None:
    """Measure the points of rank 0's plan together with the other ranks.

    At rank 0 `on_row` gets every point. Raises MeasurementFailed if a rank fails or does not
    answer. Only one rank has a message then: the failing rank, or the first that knows of it.
    Raises InputError if the device is missing, or the ranks do not meet.
    """
    with _quiet():
        site, store, nodes = begin(plan, place)
        points, where = _agreed(plan.points, place, store), "at the start"
        try:
            for event in go_through(plan, points, site, nodes):
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
    with suppress(Exception):
        store.set(f"failed/{place.rank}", json.dumps(complaint))
        if complaint.lost:
            peers = [rank for rank in range(place.ranks) if rank != place.rank]
            with suppress(RuntimeError):
                store.wait([f"failed/{rank}" for rank in peers], timedelta(seconds=GRACE_SECONDS))
            complaints |= _complaints(store, peers)
    culprit_known = not all(peer_complaint.lost for peer_complaint in complaints.values())
    silent = complaint.lost and (place.rank != min(complaints) or culprit_known)
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
