"""Training runs: one in full, or a table of several, of strategies and of plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from experiments import output
from experiments.answer_files import is_folder
from experiments.execution.journal import Countdown, is_complete, results
from experiments.options.run_options import JobOptions
from experiments.pages.reports.result import Picture, Result
from experiments.pictures.timelines.timeline_file import check_timeline
from experiments.simulations import workload
from experiments.training.job import Job
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


def run(grid: TrainingGrid, options: JobOptions) -> int:
    """Print one run in full, or a table of several; 1 if a check failed or nothing fits."""
    files, number = options.written_files, len(grid.runs)
    files.check(folders=True)
    if number == 1:
        if not options.are_usual:
            raise InputError(
                "--jobs and --resume are of several runs: give --p, --strategy or --sweep "
                "several values, or leave them out"
            )
        several = "give --p, --strategy or --sweep several values, or take --timeline"
        options.refuse(("plot",), f": of several runs: {several}")
        return _one(grid, options)
    alone = "leave out --sweep, or give one --p, and one strategy or plan"
    options.refuse(("timeline",), f": of one run, not of {number}: {alone}")
    if grid.plans:
        stored = ("report", "out") if output.is_result(files.out) else ("report",)
        options.refuse(stored, ": of one plan, or of strategies alone")
    return _several(grid, options)


def _one(grid: TrainingGrid, options: JobOptions) -> int:
    files, how = options.written_files, options.format
    job, ranks = grid.job, grid.ranks[0]
    if files.timeline:
        check_timeline(files.timeline, ranks, files.trace)
        job = _in_full(job, ranks, files.timeline)
    progress = output.Progress("stages done")
    progress(0, 3)
    plan = job.plan(ranks)
    if files.timeline and not is_folder(files.timeline):
        files.trace.of(plan.schedule.ranks)
    explained = how != "csv" or files.has_result
    _announce(job, plan, explained)
    result = job.run(ranks, plan)
    progress(1, 3, ", measuring")
    record = result.row
    progress(2, 3, ", explaining")
    changes = what_if(result) if explained else {}
    progress(3, 3)
    about = {**options.parameters, **grid.resolved}, job.machine, job.profile
    document = report(result, changes) if explained else None
    words = words_of(result) if how == "table" else {}
    answer = Result("train", document, [record], *about, words=words)
    answer.publish(files, how, result)
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


def _several(grid: TrainingGrid, options: JobOptions) -> int:
    parameters = {**options.parameters, **grid.resolved}
    if is_complete(options.out, parameters, options.resume):
        return 0
    with options.execution(options.out, parameters) as (executor, journal):
        progress = output.Progress("runs simulated")
        countdown = Countdown(progress, grid.costs, journal.results if journal else ())
        outcomes = list(results(grid, executor, journal, countdown))
        progress.clear()
        records = in_common([outcome.record for outcome in outcomes])
        answer = _compared(grid, records, parameters)
        answer.write(options.written_files)
    answer.show(options.format)
    return _verdict((outcome.failure for outcome in outcomes), records)


def _compared(
    grid: TrainingGrid, records: Sequence[output.Record], parameters: output.Record
) -> Result:
    _, job, _ = grid.runs[0]
    machine = job.machine
    drawn = records, grid.swept, grid.names, machine.text
    pictures = [Picture(f"{records[0]['model']} on {machine.text}", drawn)]
    about = parameters, machine, job.profile
    remarks = []
    if grid.plans and grid.variants:
        remarks.append(
            "Memory of a plan counts optimizer states in fp32, logits and contexts; that of a "
            "strategy what --model says."
        )
    words = {"swept": grid.swept, "names": grid.names}
    return Result("runs", records, records, *about, pictures, remarks, words)
