"""`simctl measure`."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from experiments import output
from experiments.answer_blocks import render
from experiments.options.completion import completer, measured_names
from experiments.options.options import FormatOptions, option
from experiments.pages.reports.result import Result
from experiments.terms import footnote
from topologies.errors import InputError
from topologies.units import format_bytes, parse_counts, parse_sizes

if TYPE_CHECKING:
    from experiments.measure.launcher import RankPlace
    from experiments.measure.points import MeasurementPlan
    from experiments.measure.result_rows import ResultFile, ResultRow

_INIT = re.compile(r"env://|tcp://[^\s/:]+:\d{1,5}|file:///\S+", re.ASCII)
_COPIES = 3
"""Buffers of V that a rank needs at least: its numbers, where they change, what must come out."""
MOST_PROCESSES = 1024
"""On one machine."""


@dataclass(frozen=True, kw_only=True)
class Measure(FormatOptions):
    """Measure torch.distributed, and simctl's schedules on it.

    The result of every collective is checked.
    """

    EXAMPLES: ClassVar = (
        "measure --p 4 --collective all_reduce,ring --size 4KiB..64MiB:x4 --out runs.csv",
    )

    library: Literal["gloo", "nccl", "mpi"] = option(
        "The library of torch.distributed.", default="gloo"
    )
    p: str | None = option(
        "Ranks to start here: 4, or 2,4 in turn.  [default: those of torchrun or srun]",
        "--p",
        "--gpus",
    )
    collective: str = option(
        "The library's (all_reduce, ..., barrier) and ours over isend and irecv (ring, tree, ...).",
        default="all_reduce",
        autocompletion=completer(measured_names),
    )
    size: str = option("V as nccl-tests counts: 64MiB,1GiB or a range.", default="4KiB..64MiB:x4")
    device: Literal["cpu", "cuda"] | None = option(
        "Where buffers are.  [default: cuda with nccl, cpu else]", show_default=False
    )
    dtype: Literal["float32", "float64", "float16", "bfloat16", "int32", "int64"] = option(
        "The type of an element.", default="float32"
    )
    effort: str = option(
        "Of each point: warmup=2 repetitions that do not count, and as many as fit into "
        "budget=1s, 3 at least and at most repetitions=100. A rank waits timeout=60s for "
        "others before it gives up.  [default: these]",
        default="",
    )
    init: str | None = option("Where ranks meet: env://, tcp://HOST:PORT or file:///PATH.")
    seed: int = option("Seed of the numbers that are sent and checked.", default=0, min=0)
    out: Path | None = option(
        "Keep each point in this CSV file as soon as it is there.", writable=True
    )
    resume: bool = option("Go on with the file of --out.", "--resume", default=False, stored=False)

    def run(self) -> int:
        """Measure and print; 1 if a result is wrong or a rank fails, which keeps what was
        measured."""
        from experiments.measure.launcher import find_place
        from experiments.measure.result_rows import ResultFile

        place = None if self._counts else find_place(os.environ)
        try:
            record = ResultFile(None) if place and place.rank else self._record()
            plans = self._plans(place)
        except InputError:
            if place and place.rank:
                _wait_for_the_end()
                return 2
            raise
        plans = [_without(plan, record) for plan in plans]
        record.about = self._provenance(plans, record)
        if place is None:
            return self._finished(record, lambda: _measure_here(plans, record))
        code = self._finished(record, lambda: _measure_as(place, plans[0], record))
        if code:
            os._exit(code)  # what ranks that are gone have left might block an orderly end
        return code

    @cached_property
    def _counts(self) -> list[int]:
        """The numbers of ranks to start here; none if torchrun or srun has started the ranks."""
        counts = [] if self.p is None else parse_counts(self.p)
        if not all(1 <= count <= MOST_PROCESSES for count in counts):
            raise InputError(f"--p {self.p}: 1 to {MOST_PROCESSES} processes")
        return counts

    def _plans(self, place: RankPlace | None) -> list[MeasurementPlan]:
        from experiments.measure.points import parse_names, points

        if find_spec("torch") is None:
            raise InputError(
                "measuring needs torch, which is not installed: pip install '.[torch]'"
            )
        if place is None:
            _check_counts(self._counts)
        counts = [place.ranks] if place else self._counts
        plan, names, sizes = self._plan, parse_names(self.collective), parse_sizes(self.size)
        plans = [
            replace(plan, ranks=ranks, points=points(names, sizes, ranks, self.dtype))
            for ranks in counts
        ]
        _check_init(plan.init)
        _check_memory(plans, place)
        if place is None:
            _check_here(plans)
            _check_device(plans[counts.index(max(counts))])
        return plans

    @property
    def _plan(self) -> MeasurementPlan:
        """A plan without ranks and points. Raises InputError for options that have no meaning."""
        from experiments.measure.points import MeasurementPlan, parse_effort

        device = self.device or ("cuda" if self.library == "nccl" else "cpu")
        if self.library == "nccl" and device == "cpu":
            raise InputError(
                "library nccl on cpu: it works on GPUs alone, take --device cuda or --library gloo"
            )
        return MeasurementPlan(
            self.library,
            device,
            self.dtype,
            0,
            self.init or "",
            (),
            **parse_effort(self.effort),
            seed=self.seed,
        )

    def _record(self) -> ResultFile:
        from experiments.measure.result_rows import ResultFile, read_rows

        out, resume = self.out, self.resume
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

    def _finished(self, record: ResultFile, work: Callable[[], None]) -> int:
        """The exit code; whatever ends the work, the table of what was measured is printed."""
        from experiments.measure.launcher import MeasurementFailed
        from experiments.measure.result_rows import cells

        failure = None
        try:
            work()
        except MeasurementFailed as error:
            failure = str(error)
        finally:
            if rows := [asdict(row) for row in record.rows]:
                text = f"{render(rows, cells(record.rows))}\n\n{footnote(['V', 'busbw'])}"
                Result("points", rows, rows).show(self.format, lambda: text)
        wrong = sum(row.wrong > 0 for row in record.rows)
        if wrong:
            verb = "has a wrong result" if wrong == 1 else "have wrong results"
            points = output.counted(len(record.rows), "point")
            print(f"simctl: {wrong} of {points} {verb}", file=sys.stderr)  # noqa: T201
        text = "; ".join(filter(None, (failure, _kept(record))))
        if failure is not None and text:
            print(f"simctl: {text}", file=sys.stderr)  # noqa: T201
        return 1 if wrong or failure is not None else 0

    def _provenance(self, plans: Sequence[MeasurementPlan], record: ResultFile) -> str:
        """As of every table; what was known of one that is resumed is under `before`."""
        machine = {"host": platform.node(), "machine": platform.platform(), "cores": os.cpu_count()}
        ranks = ",".join(str(plan.ranks) for plan in plans)
        provenance = json.loads(
            output.provenance(**self.parameters, **machine, ranks=ranks, torch=_torch())
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


def _wait_for_the_end() -> None:
    """Wait until the launcher ends this process, `GRACE_SECONDS` at most.

    Rank 0 prints the message. torchrun ends all ranks as soon as one of them is gone, so that
    another rank that leaves first would cut off the message.
    """
    from experiments.measure.launcher import GRACE_SECONDS

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigtimedwait({signal.SIGTERM}, GRACE_SECONDS)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_counts(ranks: Sequence[int]) -> None:
    """Raise InputError if there are none, or if a launcher runs already."""
    from experiments.measure.launcher import TORCHRUN

    if not ranks:
        raise InputError(
            "how many ranks: --p 4 starts them here; torchrun and srun start them on many machines"
        )
    if TORCHRUN[0] in os.environ and TORCHRUN[1] in os.environ:
        raise InputError(
            f"--p {','.join(map(str, ranks))} in one of torchrun's processes: leave it out, "
            f"torchrun has started them all"
        )


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
    from experiments.measure.launcher import check_port

    if init and not _INIT.fullmatch(init):
        raise InputError(
            f"init {init[:80]!r}: env://, tcp://HOST:PORT or file:///PATH/OF/A/NEW/FILE"
        )
    if init.startswith("tcp://"):
        check_port(f"init {init[:80]!r}", init.rpartition(":")[2])
    output.check_writable(_meeting_file(init))


def _check_here(plans: Sequence[MeasurementPlan]) -> None:
    """Whether ranks that start here can meet at their `init`."""
    from experiments.measure.launcher import meeting_point

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


def _without(plan: MeasurementPlan, record: ResultFile) -> MeasurementPlan:
    from experiments.measure.result_rows import key_of

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
    from experiments.measure.launcher import meeting_point
    from experiments.measure.ranks import take_part

    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    if plan.init in ("", "env://"):
        os.environ.update(meeting_point(os.environ))
        plan = replace(plan, init="env://")
    take_part(plan, place, _keep(record, len(plan.points)))


def _keep(record: ResultFile, total: int) -> Callable[[ResultRow], None]:
    progress, before = output.Progress("points measured"), len(record.rows)

    def keep(row: ResultRow) -> None:
        record.add(row)
        progress(len(record.rows) - before, total)

    return keep


def _kept(record: ResultFile) -> str:
    points, verb = output.counted(len(record.rows), "point"), "are" if record.rows[1:] else "is"
    return f"{points} {verb} kept in {record.path}" if record.path and record.rows else ""


def _torch() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "unknown"
