"""`simctl train`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.execution.choice import HERE, Execution
from experiments.execution.journal import Journal, is_complete
from experiments.execution.results import Countdown, results
from experiments.pictures.timelines.trace_folder import (
    FILES,
    check_timeline,
    is_folder,
    write_timeline,
)
from experiments.simulations import workload
from experiments.trace_choice import ALL, TraceChoice
from experiments.training.fastest import comparison_text
from experiments.training.job import Job, TrainingRun
from experiments.training.scaling import scaling_text
from experiments.training.strategy_options import SweptValue
from experiments.training.training_grid import TrainingGrid, failure_of
from experiments.training.training_report import report, text
from experiments.training.training_table import DISPENSABLE, cells
from simulator.profile import Profile
from simulator.training.plan import Plan
from topologies.errors import InputError
from topologies.resources import duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Request:
    """What to train."""

    job: Job
    """Everything but the number of workers."""
    ranks: Sequence[int]
    """Numbers of workers."""
    swept: str
    """The option of `--sweep`, or "strategy" if there are several; else empty."""
    variants: Sequence[tuple[SweptValue, Job]]
    """Its values with their jobs, if there are any."""
    parameters: Mapping[str, output.Value]
    """The options as the user writes them: stored with the result."""

    def under(self, profile: Profile, parameters: Mapping[str, output.Value]) -> Request:
        """The same under a calibrated library, whose `parameters` are stored, too."""
        variants = [(value, replace(job, profile=profile)) for value, job in self.variants]
        return replace(
            self,
            job=replace(self.job, profile=profile),
            variants=variants,
            parameters={**self.parameters, **parameters},
        )


class Files(NamedTuple):
    """The files to write."""

    timeline: Path | None = None
    out: Path | None = None
    plot: Path | None = None
    report: Path | None = None
    trace: TraceChoice = ALL
    """What the timeline has if it is a trace."""

    @property
    def keeps(self) -> bool:
        """Whether the whole result is wanted in a file."""
        return bool(self.report or output.is_result(self.out))


def run(request: Request, files: Files, how: str, execution: Execution = HERE) -> int:
    """Print one run in full, or a table of several; 1 if a check failed or nothing fits."""
    check_files(files.out, files.plot, files.report, files.timeline)
    if files.timeline is not None and not is_folder(files.timeline):
        output.check_writable(files.timeline, FILES)
    number = len(request.ranks) * (len(request.variants) or 1)
    if number == 1 and len(request.variants) <= 1:
        if execution != HERE:
            raise InputError(
                "--jobs, --dask and --resume are of several runs: give --p, --strategy or --sweep "
                "several values, or leave them out"
            )
        return _one(request, files, how)
    if files.timeline:
        raise InputError(
            f"--timeline {files.timeline}: of one run, not of {number}: leave out --sweep, or give "
            f"one --p and --strategy"
        )
    return _several(request, files, how, execution)


def _one(request: Request, files: Files, how: str) -> int:
    if files.plot:
        raise InputError(
            f"--plot {files.plot}: of several runs: give --p, --strategy or --sweep several "
            f"values, or take --timeline"
        )
    job = request.variants[0][1] if request.variants else request.job
    if files.timeline:
        check_timeline(files.timeline, request.ranks[0], files.trace)
        job = _in_full(job, request.ranks[0], files.timeline)
    progress = output.Progress("stages done")
    progress(0, 3)
    plan = job.plan(request.ranks[0])
    if files.timeline and not is_folder(files.timeline):
        files.trace.of(plan.schedule.ranks)
    explained = how != "csv" or files.keeps
    _announce(job, plan, what_if=explained)
    result = job.run(request.ranks[0], plan)
    progress(1, 3, ", measuring")
    record = result.record
    progress(2, 3, ", explaining")
    if files.timeline:
        _draw(result, files.timeline, request, files.trace)
    what_if = result.what_if() if explained else {}
    progress(3, 3)
    about = request.parameters, job.machine, job.profile
    document = report(result, record, what_if) if explained else None
    answer = Answer("train", document, [record], *about)
    answer.write(files.out, report=files.report, keep=partial(_keep, result, answer))
    answer.show(how, lambda: text(result, what_if))
    return _verdict([failure_of(result)], [record])


def _keep(
    training: TrainingRun, answer: Answer, files: output.RunFiles, left_out: Sequence[str]
) -> None:
    from experiments.pages.reports.kept import keep_training

    keep_training(answer.report, training, files, answer.parameters, left_out)


def _announce(job: Job, plan: Plan, what_if: bool) -> None:
    """Say of what takes minutes how long, and if changes are not simulated."""
    again = job.simulates_again(plan)
    seconds = job.seconds(plan, what_if and again)
    if seconds > workload.ANNOUNCED.seconds:
        output.note(f"{job.name}: this takes about {duration(seconds)}")
    if what_if and not again:
        output.note("what would help: to first order alone, simulated with --force")


def _in_full(job: Job, ranks: int, path: Path) -> Job:
    """The job with all transfers of all ranks, which pictures show."""
    written = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
    plan = job.plan(ranks)
    if plan.blocks or plan.shifts is not None:
        output.note(f"--timeline {path}: all transfers of all ranks are simulated")
        try:
            written.plan(ranks)
        except InputError as error:
            raise InputError(
                f"--timeline {path}: it shows all transfers, as with --detail transfers: {error}"
            ) from None
    return written


def _verdict(failures: Iterable[str], records: Sequence[output.Record]) -> int:
    """1 if a check failed, or if no run fits into the memory of its devices."""
    wrong = [failure for failure in failures if failure]
    for failure in wrong:
        output.note(f"{failure}: this is a bug in simctl, please report it")
    return int(bool(wrong) or all(record["fits"] is False for record in records))


def _draw(training: TrainingRun, path: Path, request: Request, choice: TraceChoice) -> None:
    from experiments.pictures.timelines.step_spans import strategy_spans
    from experiments.traces.plan_tasks import tasks_of

    plan, timeline = training.plan, training.timeline
    write_timeline(
        path,
        lambda: strategy_spans(plan, timeline),
        lambda: tasks_of(plan, timeline.schedule),
        training.title,
        plan.model.device,
        dict(request.parameters),
        choice,
        training.memory,
    )


def _several(request: Request, files: Files, how: str, execution: Execution) -> int:
    if is_complete(files.out, request.parameters, execution.resume):
        return 0
    grid = TrainingGrid(request.swept, request.variants or [(None, request.job)], request.ranks)
    with ExitStack() as stack:
        journal = None
        if files.out:
            facts = output.facts(request.parameters)
            journal = stack.enter_context(Journal(files.out, facts, execution.resume))
        executor = stack.enter_context(closing(execution.executor()))
        progress = output.Progress("runs simulated")
        countdown = Countdown(progress, grid.costs, journal.results if journal else ())
        outcomes = list(results(grid, executor, journal, countdown))
        progress.clear()
        records = [outcome.record for outcome in outcomes]
        names = {value.text: value.name for value, _ in request.variants}
        answer = _compared(request, records, names)
        answer.write(files.out, files.plot, files.report)
        if journal:
            journal.remove()
    columns = cells(request.swept, names, [job for _, job in request.variants] or [request.job])
    answer.show(how, lambda: "\n\n".join(_words(records, request.swept, names, columns)))
    return _verdict((outcome.failure for outcome in outcomes), records)


def _words(
    records: Sequence[output.Record],
    swept: str,
    names: Mapping[str, str],
    columns: Mapping[str, output.Cell],
) -> Iterator[str]:
    """The table, and for people what is fastest and where more workers stop paying."""
    yield output.render(records, columns, DISPENSABLE)
    if len(names) > 1:
        yield comparison_text(records, swept, names)
    if text := scaling_text(records, swept, names):
        yield text


def _compared(
    request: Request, records: Sequence[output.Record], names: Mapping[str, str]
) -> Answer:
    """The answer of several runs."""
    job, machine = request.job, request.job.machine

    def draw() -> Figure:
        from experiments.pictures.training_curves import training_drawing

        return training_drawing(records, request.swept, names, machine.text)

    pictures = [(f"{job.model.name} on {machine.text}", draw)]
    about = request.parameters, machine, job.profile
    return Answer("runs", records, records, *about, pictures)
