"""Training runs: one in full, or a table of several, of strategies and of plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from experiments import output
from experiments.execution.journal import Journal, is_complete
from experiments.execution.results import Countdown, results
from experiments.options.execution_options import ExecutionOptions
from experiments.pages.reports.result import Picture, Result, check_files
from experiments.pictures.timelines.timeline_file import (
    FILES,
    check_timeline,
    is_folder,
    write_timeline,
)
from experiments.simulations import workload
from experiments.training.job import Job, TrainingRun
from experiments.training.training_grid import (
    TrainingGrid,
    failure_of,
    in_common,
    run_seconds,
    simulates_again,
    what_if,
)
from experiments.training.training_report import report, words_of
from simulator.training.plan import Plan
from topologies.errors import InputError, naming
from topologies.resources import duration


def run(
    grid: TrainingGrid,
    files: output.RunFiles,
    how: str,
    execution: ExecutionOptions = ExecutionOptions(),
    plot: Path | None = None,
) -> int:
    """Print one run in full, or a table of several; 1 if a check failed or nothing fits."""
    check_files(files.out, plot, files.report, files.timeline)
    if files.timeline is not None and not is_folder(files.timeline):
        output.check_writable(files.timeline, FILES)
    number = len(grid.runs)
    if number == 1:
        if not execution.are_usual:
            raise InputError(
                "--jobs and --resume are of several runs: give --p, --strategy or --sweep "
                "several values, or leave them out"
            )
        if plot:
            raise InputError(
                f"--plot {plot}: of several runs: give --p, --strategy or --sweep several "
                f"values, or take --timeline"
            )
        return _one(grid, files, how)
    if files.timeline:
        raise InputError(
            f"--timeline {files.timeline}: of one run, not of {number}: leave out --sweep, or give "
            f"one --p, and one strategy or plan"
        )
    result = files.out if output.is_result(files.out) else None
    for option, file in {"report": files.report, "out": result}.items():
        if file and grid.plans:
            raise InputError(f"--{option} {file}: of one plan, or of strategies alone")
    return _several(grid, files, how, execution, plot)


def _one(grid: TrainingGrid, files: output.RunFiles, how: str) -> int:
    job, ranks = grid.job, grid.ranks[0]
    if files.timeline:
        check_timeline(files.timeline, ranks, files.trace)
        job = _in_full(job, ranks, files.timeline)
    progress = output.Progress("stages done")
    progress(0, 3)
    plan = job.plan(ranks)
    if files.timeline and not is_folder(files.timeline):
        files.trace.of(plan.schedule.ranks)
    explained = how != "csv" or bool(files.report) or output.is_result(files.out)
    _announce(job, plan, explained)
    result = job.run(ranks, plan)
    progress(1, 3, ", measuring")
    record = result.row
    progress(2, 3, ", explaining")
    if files.timeline:
        _draw(result, files, grid.parameters)
    changes = what_if(result) if explained else {}
    progress(3, 3)
    about = grid.parameters, job.machine, job.profile
    document = report(result, changes) if explained else None
    words = words_of(result) if how == "table" else {}
    answer = Result("train", document, [record], *about, words=words)
    answer.write(files.out, report=files.report, subject=result)
    answer.show(how)
    return _verdict([failure_of(result)], [record])


def _announce(job: Job, plan: Plan, explained: bool) -> None:
    """Say of what takes minutes how long, and if changes are not simulated."""
    again = simulates_again(job, plan)
    seconds = run_seconds(plan, explained and again)
    if seconds > workload.ANNOUNCED.seconds:
        output.note(f"{job.name}: this takes about {duration(seconds)}")
    if explained and not again:
        output.note("what would help: to first order alone, simulated with --force")


def _in_full(job: Job, ranks: int, path: Path) -> Job:
    """The job with all transfers of all ranks, which pictures show."""
    written = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
    plan = job.plan(ranks)
    if plan.is_priced or plan.shifts is not None:
        output.note(f"--timeline {path}: all transfers of all ranks are simulated")
        with naming(f"--timeline {path}: it shows all transfers, as with --detail transfers"):
            written.plan(ranks)
    return written


def _verdict(failures: Iterable[str], records: Sequence[output.Record]) -> int:
    """1 if a check failed, or if no run fits into the memory of its devices."""
    wrong = [failure for failure in failures if failure]
    for failure in wrong:
        output.note(f"{failure}: this is a bug in simctl, please report it")
    return int(bool(wrong) or all(record["fits"] is False for record in records))


def _draw(training: TrainingRun, files: output.RunFiles, parameters: output.Record) -> None:
    from experiments.pictures.timelines.step_spans import strategy_spans

    plan, timeline = training.plan, training.timeline
    assert files.timeline
    write_timeline(
        files.timeline,
        lambda: strategy_spans(plan, timeline),
        lambda: plan.simulated(timeline),
        training.title,
        plan.model.device,
        dict(parameters),
        files.trace,
        training.memory,
    )


def _several(
    grid: TrainingGrid,
    files: output.RunFiles,
    how: str,
    execution: ExecutionOptions,
    plot: Path | None,
) -> int:
    if is_complete(files.out, grid.parameters, execution.resume):
        return 0
    with ExitStack() as stack:
        journal = None
        if files.out:
            facts = output.facts(grid.parameters)
            journal = stack.enter_context(Journal(files.out, facts, execution.resume))
        executor = stack.enter_context(closing(execution.executor()))
        progress = output.Progress("runs simulated")
        countdown = Countdown(progress, grid.costs, journal.results if journal else ())
        outcomes = list(results(grid, executor, journal, countdown))
        progress.clear()
        records = in_common([outcome.record for outcome in outcomes])
        answer = _compared(grid, records)
        answer.write(files.out, plot, files.report)
        if journal:
            journal.remove()
    answer.show(how)
    return _verdict((outcome.failure for outcome in outcomes), records)


def _compared(grid: TrainingGrid, records: Sequence[output.Record]) -> Result:
    _, job, _ = grid.runs[0]
    machine = job.machine
    drawn = records, grid.swept, grid.names, machine.text
    pictures = [Picture(f"{records[0]['model']} on {machine.text}", drawn)]
    about = grid.parameters, machine, job.profile
    remarks = []
    if grid.plans and grid.variants:
        remarks.append(
            "Memory of a plan counts optimizer states in fp32, logits and contexts; that of a "
            "strategy what --model says."
        )
    words = {"swept": grid.swept, "names": grid.names}
    return Result("runs", records, records, *about, pictures, remarks, words)
