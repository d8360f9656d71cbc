"""Finds tests that died, and processes that did not join one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.measurements.curve import ALONE, DIED, Curve, Failure
from experiments.measurements.formats.nccl_tests.log_sections import LoggedTest
from experiments.output import counted
from topologies.units import format_bytes


def died(
    run: LoggedTest, curves: Sequence[Curve], source: str, *, bare: bool, last: bool
) -> Iterator[Failure]:
    """The failure of one test that died: before its table, without a row, or before its last size.

    `source` names the log. `bare` says that the table has no rows, `last` that no test follows.
    """
    name = (run.started or next(iter(run.programs), "") or "a test").removesuffix("_perf")
    why = f": {' '.join(run.failed.split())[:160]}" if run.failed else ""
    if run.header is None:
        if run.failed or (run.announced and not run.header_lost):
            yield Failure(DIED, source, f"{name} ended before its table{why}")
        return
    where = f"{source}:{run.header.line}"
    reached = max(
        (point.size for curve in curves for point in (*curve.points, *curve.in_place)), default=0
    )
    if bare:
        yield Failure(DIED, where, f"{name} has a table header and no rows{why}")
    elif not run.closed and (run.failed or _stopped(run, reached)):
        yield Failure(
            DIED, where, f"{name} ended after {format_bytes(reached)}{why or _asked(run, last)}"
        )


def alone(source: str, count: int, ranks: int) -> Failure:
    """The failure of several processes of `ranks` ranks each that should have joined one job."""
    each = counted(ranks, "rank")
    return Failure(
        ALONE,
        source,
        f"{count} processes of {each} each and no job of {count * ranks}: nccl-tests was built "
        f"or started without MPI",
    )


def _stopped(run: LoggedTest, reached: int) -> bool:
    """Whether the test ended before its largest size."""
    return (
        not run.capped
        and run.largest is not None
        and run.step is not None
        and run.step.up(reached) <= run.largest
    )


def _asked(run: LoggedTest, last: bool) -> str:
    follows = "the log ends there" if last else "the next test follows"
    return f" of {format_bytes(run.largest)}, and {follows}" if run.largest else ""
