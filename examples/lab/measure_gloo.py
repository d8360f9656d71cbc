"""Measures gloo's operations over links of known rate and delay: `python measure_gloo.py --out
gloo.csv`, as root.

All ranks start at an instant that is agreed out of band; a repetition lasts from the last start to
the last end. Large sizes come first, so that the windows of TCP are open. What varies by more than
5% is measured up to three times, and the quietest kept.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing as mp
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from multiprocessing import connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from netlab import address, enter, missing
from netlab import network as joined

SIZES = (2**24, 2**21, 2**18, 2**15, 2**12)
RANKS, RATES, DELAYS = (2, 3, 4), (2e8, 1e9), (2e-4, 2e-3)
OPERATIONS = (
    *("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather"),
    *("scatter", "gather", "all_to_all", "send_recv"),
)
QUIET, ATTEMPTS = 0.05, 3
SECONDS, FEWEST, MOST = 0.5, 5, 15
"""Seconds of the repetitions of a point, and their least and greatest number."""
LEAD = 2e-3
"""Seconds from the agreement to the start."""
PORT = 29511
TIMES = ("time", "min", "p90", "mean")
Row = dict[str, str | int | float]
Rows: TypeAlias = "connection.Connection[Row, Row]"


class Operation(NamedTuple):
    """`run` is timed, after `prepare`; `wrong` counts the wrong elements of the result."""

    run: Callable[[], object]
    prepare: Callable[[], object]
    wrong: Callable[[], int]


class Shared(NamedTuple):
    """The memory that all processes share."""

    agreed: npt.NDArray[np.float64]
    """A number that rank 0 decides."""
    numbers: npt.NDArray[np.float64]
    """The last number of each rank."""
    barrier: Barrier


def operation(name: str, nbytes: int, rank: int, ranks: int) -> Operation:
    """An operation on float32, sizes as nccl-tests counts; rank r holds r + 1, the root is rank
    0."""
    part = torch.full((max(1, nbytes // 4 // ranks),), float(rank + 1))
    mine, result = part.repeat(ranks), torch.zeros(len(part) * ranks)
    total, each = (
        float(ranks * (ranks + 1) // 2),
        torch.arange(1.0, ranks + 1).repeat_interleave(len(part)),
    )
    back, forth = (rank - 1) % ranks, (rank + 1) % ranks
    parts = list((each if name == "scatter" else result).chunk(ranks)) if rank == 0 else None

    def shift() -> None:
        for work in [dist.irecv(result, back), dist.isend(mine, forth)]:
            work.wait()

    runs: dict[str, tuple[Callable[[], object], torch.Tensor, torch.Tensor | float]] = {
        "all_reduce": (lambda: dist.all_reduce(result), result, total),
        "reduce": (lambda: dist.reduce(result, 0), result, total),
        "broadcast": (lambda: dist.broadcast(result, 0), result, 1.0),
        "reduce_scatter": (lambda: dist.reduce_scatter_tensor(part, mine), part, total),
        "all_gather": (lambda: dist.all_gather_into_tensor(result, part), result, each),
        "scatter": (lambda: dist.scatter(part, parts, 0), part, float(rank + 1)),
        "gather": (lambda: dist.gather(part, parts, 0), result, each),
        "all_to_all": (lambda: dist.all_to_all_single(result, mine), result, each),
        "send_recv": (shift, result, float(back + 1)),
    }
    run, filled, wanted = runs[name]
    judged = rank == 0 or name not in ("reduce", "gather")
    return Operation(
        run, lambda: result.copy_(mine), lambda: int(judged and (filled != wanted).sum())
    )


def agree(shared: Shared, rank: int, decide: Callable[[], float]) -> float:
    """The decision of rank 0, once all have come."""
    shared.barrier.wait()
    if rank == 0:
        shared.agreed[0] = decide()
    shared.barrier.wait()
    return float(shared.agreed[0])


def all_numbers(shared: Shared, rank: int, number: float) -> npt.NDArray[np.float64]:
    """The number of every rank."""
    shared.barrier.wait()
    shared.numbers[rank] = number
    shared.barrier.wait()
    return shared.numbers.copy()


def once(timed: Operation, shared: Shared, rank: int) -> float:
    """Seconds of one repetition: the same on all ranks."""
    timed.prepare()
    start = agree(shared, rank, lambda: time.monotonic() + LEAD)
    # All ranks start at an agreed moment. A barrier lets them go one after the other, and a barrier
    # of messages would use the links that are measured. A loop that looks at the clock would take
    # the cores from the other ranks.
    time.sleep(max(0.0, start - time.monotonic()))
    began = time.monotonic()
    timed.run()
    ended = time.monotonic()
    return float(all_numbers(shared, rank, ended).max() - all_numbers(shared, rank, began).max())


def point(name: str, nbytes: int, shared: Shared, rank: int, ranks: int) -> Row:
    """The quietest of some attempts, as a row of the CSV."""
    timed = operation(name, nbytes, rank, ranks)
    warm = max(once(timed, shared, rank) for _ in range(2))
    repetitions = int(np.clip(SECONDS / warm, FEWEST, MOST))
    best: npt.NDArray[np.float64] | None = None
    for _ in range(ATTEMPTS):
        times = np.array([once(timed, shared, rank) for _ in range(repetitions)])
        best = times if best is None or _variation(times) < _variation(best) else best
        if _variation(best) <= QUIET:
            break
    assert best is not None
    low, middle, mean, high = best.min(), np.median(best), best.mean(), np.percentile(best, 90)
    return {
        "collective": name,
        "ranks": ranks,
        "nodes": ranks,
        "size_bytes": nbytes // 4 // ranks * 4 * ranks,
        **{
            f"{what}_us": round(value * 1e6, 1)
            for what, value in zip(TIMES, (middle, low, high, mean), strict=True)
        },
        "cv": round(_variation(best), 4),
        "repetitions": repetitions,
        "wrong": int(all_numbers(shared, rank, timed.wrong()).sum()),
    }


def work(
    rank: int,
    namespaces: Sequence[str],
    points: Sequence[tuple[int, str]],
    shared: Shared,
    rows: Rows,
) -> None:
    """All points on one rank; rank 0 hands over the rows."""
    warnings.simplefilter("ignore", FutureWarning)
    enter(namespaces[rank])
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"tcp://{address(0)}:{PORT}", rank=rank, world_size=len(namespaces)
    )
    for nbytes, name in points:
        row = point(name, nbytes, shared, rank, len(namespaces))
        if rank == 0:
            rows.send(row)
    dist.barrier()
    dist.destroy_process_group()


def measure(
    ranks: int, rate: float, delay: float, points: Sequence[tuple[int, str]]
) -> Iterator[Row]:
    """The rows of one network. Raises RuntimeError where a rank fails."""
    fork = mp.get_context("fork")
    agreed, numbers = (np.frombuffer(fork.RawArray("d", ranks)) for _ in range(2))
    shared = Shared(agreed, numbers, fork.Barrier(ranks, timeout=120))
    heard, rows = fork.Pipe(duplex=False)
    library = f"torch {torch.__version__}"
    known = {
        "backend": "gloo",
        "device": "cpu",
        "dtype": "float32",
        "library": library,
        "topology": "star",
    }
    with joined(ranks, rate, delay) as namespaces:
        processes = [
            fork.Process(target=work, args=(r, namespaces, points, shared, rows))
            for r in range(ranks)
        ]
        for process in processes:
            process.start()
        try:
            for _ in points:
                connection.wait([heard, *(process.sentinel for process in processes)])
                if not heard.poll():
                    raise RuntimeError("a rank failed")
                yield {
                    **heard.recv(),
                    **known,
                    "source": "examples/lab",
                    "rate_bps": rate,
                    "delay_s": delay,
                }
        finally:
            for process in processes:
                process.join(timeout=5)
                process.kill()


def _variation(times: npt.NDArray[np.float64]) -> float:
    return float(times.std() / times.mean())


def main() -> None:
    """Measure every network and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gloo.csv"))
    for name, kind, values in (
        ("ranks", int, RANKS),
        ("rates", float, RATES),
        ("delays", float, DELAYS),
        ("sizes", int, SIZES),
        ("operations", str, OPERATIONS),
    ):
        parser.add_argument(f"--{name}", type=kind, nargs="+", default=values)
    asked = parser.parse_args()
    if lacking := missing():
        parser.exit(2, f"a lab needs {lacking}\n")
    points = list(product(asked.sizes, asked.operations))
    with asked.out.open("w", newline="") as file:
        writer = None
        for network in product(asked.ranks, asked.rates, asked.delays):
            for row in measure(*network, points):
                if writer is None:
                    writer = csv.DictWriter(file, row)
                    writer.writeheader()
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
