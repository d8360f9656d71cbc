"""`simctl measure`."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from experiments import output
from experiments.commands.answer import Answer
from experiments.measure.blame import GRACE_SECONDS, MeasurementFailed
from experiments.measure.launcher import TORCHRUN, RankPlace, check_port, find_place, meeting_point
from experiments.measure.points import MeasurementPlan
from experiments.measure.result_rows import ResultFile, ResultRow, cells, key_of, read_rows
from experiments.terms import footnote
from topologies.errors import InputError
from topologies.units import format_bytes

_INIT = re.compile(r"env://|tcp://[^\s/:]+:\d{1,5}|file:///\S+", re.ASCII)
_COPIES = 3
"""Buffers of V that every rank needs at least: numbers to begin with, where they change, what must
come out."""


@dataclass(frozen=True)
class Request:
    """What to measure."""

    ranks: Sequence[int]
    """The numbers of ranks to start here; none if torchrun or srun has started the ranks."""
    plan: Callable[[int], MeasurementPlan]
    """The plan for a number of ranks. Raises InputError for options that have no meaning."""
    parameters: Mapping[str, output.Value]
    """The options as the user writes them: stored with the result."""


def run(request: Request, out: Path | None, resume: bool, how: str) -> int:
    """Measure and print; 1 if a result is wrong or a rank fails, which keeps what was measured."""
    place = None if request.ranks else find_place(os.environ)
    try:
        record = ResultFile(None) if place and place.rank else _record(out, resume)
        plans = _plans(request, place)
    except InputError:
        if place and place.rank:
            _wait_for_the_end()
            return 2
        raise
    plans = [_without(plan, record) for plan in plans]
    record.about = _provenance(request, plans, record)
    if place is None:
        return _finished(record, how, lambda: _measure_here(plans, record))
    code = _finished(record, how, lambda: _measure_as(place, plans[0], record))
    if code:
        os._exit(code)  # what ranks that are gone have left behind might block an orderly end
    return code


def _wait_for_the_end() -> None:
    """Wait until the launcher ends this process, `GRACE_SECONDS` at most.

    Rank 0 prints the message. torchrun ends all ranks as soon as one of them is gone, so that
    another rank that leaves first would cut off the message.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigtimedwait({signal.SIGTERM}, GRACE_SECONDS)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _plans(request: Request, place: RankPlace | None) -> list[MeasurementPlan]:
    """What to measure, for each number of ranks. Raises InputError for what cannot be."""
    if find_spec("torch") is None:
        raise InputError("measuring needs torch, which is not installed: pip install '.[torch]'")
    counts = [place.ranks] if place else _counts(request.ranks)
    plans = [request.plan(ranks) for ranks in counts]
    _check_init(plans[0].init)
    _check_memory(plans, place)
    if place is None:
        _check_here(plans)
        _check_device(plans[counts.index(max(counts))])
    return plans


def _counts(ranks: Sequence[int]) -> Sequence[int]:
    """The numbers of ranks. Raises InputError if there are none, or if a launcher runs already."""
    if not ranks:
        raise InputError(
            "how many ranks: --nproc 4 starts them here; torchrun and srun start them on many "
            "machines"
        )
    if TORCHRUN[0] in os.environ and TORCHRUN[1] in os.environ:
        raise InputError(
            f"--nproc {','.join(map(str, ranks))} in one of torchrun's processes: leave it out, "
            f"torchrun has started them all"
        )
    return ranks


def _check_memory(plans: Sequence[MeasurementPlan], place: RankPlace | None) -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for plan in plans:
        largest, processes = (
            max(point.size_bytes for point in plan.points),
            1 if place else plan.ranks,
        )
        if plan.device == "cpu" and _COPIES * processes * largest > memory:
            raise InputError(
                f"{format_bytes(largest)} at {processes} rank(s) of this machine: more than fits "
                f"into {format_bytes(memory)}"
            )


def _check_init(init: str) -> None:
    if init and not _INIT.fullmatch(init):
        raise InputError(
            f"init {init[:80]!r}: env://, tcp://HOST:PORT or file:///PATH/OF/A/NEW/FILE"
        )
    if init.startswith("tcp://"):
        check_port(f"init {init[:80]!r}", init.rpartition(":")[2])
    output.check_writable(_meeting_file(init))


def _check_here(plans: Sequence[MeasurementPlan]) -> None:
    """Whether ranks that start here can meet at their `init`."""
    init = plans[0].init
    path = _meeting_file(init)
    if path and (len(plans) > 1 or path.exists()):
        raise InputError(f"init {init!r}: a file that is not there yet, for one number of ranks")
    if init == "env://":
        if not {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
            raise InputError(
                f"init {init!r}: MASTER_ADDR and MASTER_PORT are not set, leave --init out"
            )
        meeting_point(os.environ)


def _meeting_file(init: str) -> Path | None:
    return Path(init.removeprefix("file://")) if init.startswith("file://") else None


def _check_device(plan: MeasurementPlan) -> None:
    if plan.backend != "gloo" or plan.device != "cpu":
        from experiments.measure.ranks import find_device

        find_device(plan, plan.ranks - 1)


def _record(out: Path | None, resume: bool) -> ResultFile:
    if resume and out is None:
        raise InputError("--resume of which file: name it with --out")
    if out is None:
        return ResultFile(None)
    record = ResultFile(out)
    output.check_writable(out, (".csv",))
    output.check_writable(record.meta)
    if out.exists() and not resume:
        raise InputError(f"{out} exists: continue it with --resume, or name another file")
    if out.exists():
        record.rows += read_rows(out)
    return record


def _without(plan: MeasurementPlan, record: ResultFile) -> MeasurementPlan:
    """The plan without what has been measured."""
    keys = {row.key for row in record.rows}
    return replace(
        plan, points=tuple(point for point in plan.points if key_of(plan, point) not in keys)
    )


def _measure_here(plans: Sequence[MeasurementPlan], record: ResultFile) -> None:
    from experiments.measure.local_ranks import launch

    keep = _keep(record, sum(len(plan.points) for plan in plans))
    for plan in plans:
        if plan.points:
            launch(plan, keep)


def _measure_as(place: RankPlace, plan: MeasurementPlan, record: ResultFile) -> None:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    if plan.init in ("", "env://"):
        os.environ.update(meeting_point(os.environ))
        plan = replace(plan, init="env://")
    from experiments.measure.cluster import take_part

    take_part(plan, place, _keep(record, len(plan.points)))


def _keep(record: ResultFile, total: int) -> Callable[[ResultRow], None]:
    """What is done with each point, of `total`."""
    progress, before = output.Progress("points measured"), len(record.rows)

    def keep(row: ResultRow) -> None:
        record.add(row)
        progress(len(record.rows) - before, total)

    return keep


def _finished(record: ResultFile, how: str, work: Callable[[], None]) -> int:
    """The exit code; whatever ends the work, the table of what was measured is printed."""
    failure = None
    try:
        work()
    except MeasurementFailed as error:
        failure = str(error)
    finally:
        if record.rows:
            rows, columns = [asdict(row) for row in record.rows], cells(record.rows)
            text = f"{output.render(rows, columns)}\n\n{footnote(['V', 'busbw'])}"
            Answer("points", rows, rows).show(how, lambda: text)
    wrong = sum(row.wrong > 0 for row in record.rows)
    if wrong:
        verb = "has a wrong result" if wrong == 1 else "have wrong results"
        points = output.counted(len(record.rows), "point")
        print(f"simctl: {wrong} of {points} {verb}", file=sys.stderr)  # noqa: T201
    text = "; ".join(filter(None, (failure, _kept(record))))
    if failure is not None and text:
        print(f"simctl: {text}", file=sys.stderr)  # noqa: T201
    return 1 if wrong or failure is not None else 0


def _kept(record: ResultFile) -> str:
    verb = "is" if len(record.rows) == 1 else "are"
    points = output.counted(len(record.rows), "point")
    return f"{points} {verb} kept in {record.path}" if record.path and record.rows else ""


def _provenance(request: Request, plans: Sequence[MeasurementPlan], record: ResultFile) -> str:
    """As of every table; of one that is resumed, what was known of it before is under `before`."""
    machine = {"host": platform.node(), "machine": platform.platform(), "cores": os.cpu_count()}
    ranks = ",".join(str(plan.ranks) for plan in plans)
    provenance = json.loads(
        output.provenance(**request.parameters, **machine, ranks=ranks, torch=_torch())
    )
    if record.meta and record.rows:
        try:
            provenance["before"] = json.loads(record.meta.read_text())
        except (OSError, ValueError):
            lost = "cannot be read" if record.meta.exists() else "is not there"
            rows = output.counted(len(record.rows), "row")
            output.note(
                f"{record.meta} {lost}: how the {rows} of {record.path} came about is not known"
            )
    return json.dumps(provenance, indent=1)


def _torch() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "unknown"
