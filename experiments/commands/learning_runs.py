"""What `simctl train --learn` and `simctl plan --learn` learn, and along which runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from experiments import output
from experiments.commands.plan_cases import parse_course, plans_in
from experiments.learning.learning_run import LearningRun, learn, learn_steps, without_disturbance
from experiments.learning.task import LearningTask
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import JobOptions
from experiments.options.training_options import CONDITIONS, DDP, PlanOptions, TrainingOptions
from experiments.pages.reports.result import Picture, Result
from experiments.parallel.plan_job import PlanJob
from experiments.training.strategy_options import names_in
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.option_text import parse_options

Planned = tuple[list[Callable[[], LearningRun]], Blueprint, output.Record]
"""The runs, each simulated and learnt when it is called; their machine; and what options come to,
which is stored with the result."""


def run(options: TrainingOptions, job: JobOptions) -> int:
    """Print a table with a row for each run. Raises InputError for options that learning does not
    have."""
    job.refuse(("timeline",), ": with --learn take --plot, or leave out --learn")
    if not job.are_usual:
        raise InputError("--jobs, --resume: learning runs in one process, leave them out")
    planned, machine, resolved = parse(options, job)
    progress = output.Progress("runs learnt")
    runs: list[LearningRun] = []
    for run_of in planned:
        progress(len(runs), len(planned))
        runs.append(run_of())
    progress.clear()
    records = [asdict(run.row) for run in runs]
    curves = [[point._asdict() for point in run.curve] for run in runs]
    documents = [{**record, "curve": curve} for record, curve in zip(records, curves, strict=True)]
    pictures = [Picture("Accuracy over time", (runs,))]
    parameters = {**job.parameters, **resolved}
    answer = Result("learn", documents, records, parameters, machine, pictures=pictures)
    answer.publish(job.written_files, job.format)
    return 0


def parse_task(text: str, seed: int) -> LearningTask:
    """The task for NETWORK or NETWORK:key=value,..."""
    network, _, options = text.partition(":")
    return replace(
        LearningTask(network, seed=seed), **parse_options(LearningTask, network[:40], options)
    )


def parse(options: TrainingOptions, simulation: SimulationOptions) -> Planned:
    """The runs along which to learn: one for each strategy and plan."""
    task = parse_task(options.learn or "", options.seed)
    simulation.refuse_library("an interval of a step does not go with --learn", "level")
    if not isinstance(options, PlanOptions):
        simulation.refuse_library("it goes with simctl plan, or without --learn")
        return _of_strategies(task, options, simulation)
    plans, machine, resolved = _of_plans(task, options, simulation)
    if options.strategy is None:
        return plans, machine, resolved
    simulation.refuse_library("it goes with plans alone, or without --learn")
    strategies, machine, of_strategies = _of_strategies(task, options, simulation)
    return [*strategies, *plans], machine, {**resolved, **of_strategies, "plan": options.plan}


def _of_strategies(
    task: LearningTask, options: TrainingOptions, simulation: SimulationOptions
) -> Planned:
    """A run for each strategy, all of as many workers; if workers differ, another where they are
    alike."""
    _check_input(options)
    names = names_in(options.strategy or DDP)
    requests = [replace(options, strategy=name, learn=None).request(simulation) for name in names]
    if not requests or len(requests[0].ranks) > 1:
        raise InputError("--learn: one number of workers in --p, and a strategy or several")
    ranks = min(request.ranks[0] for request in requests)
    steps = options.steps or task.steps(ranks)
    jobs = [replace(request.job, steps=steps) for request in requests]
    runs: list[Callable[[], LearningRun]] = [
        partial(learn, task, job if words else without_disturbance(job), name, ranks, words)
        for words in dict.fromkeys(("", _disturbance(options)))
        for name, job in zip(names, jobs, strict=True)
    ]
    shared: output.Record = {"strategy": options.strategy or DDP, "p": str(ranks), "steps": steps}
    return runs, jobs[0].machine, {**requests[0].resolved, **shared}


def _of_plans(task: LearningTask, options: PlanOptions, simulation: SimulationOptions) -> Planned:
    """A run for each plan; if ranks differ, another where they are alike."""
    job = replace(options, learn=None, strategy=None)
    if options.noise is None and options.fail is None:
        job = replace(job, steps=None, seed=0)
    alike = replace(job, straggler=None, noise=None, slow_link=None, fail=None, steps=None, seed=0)
    runs = list[Callable[[], LearningRun]]()
    for disturbed in [alike] if alike == job else [alike, job]:
        for name in plans_in(options.plan):
            request = parse_course(replace(disturbed, plan=name), simulation)
            words = _disturbance(disturbed)
            runs.append(partial(_learn_plan, task, request, name, options.steps, words))
    return runs, request.machine, {**request.resolved, "plan": options.plan}


def _learn_plan(
    task: LearningTask, request: PlanJob, name: str, steps: int | None, disturbance: str
) -> LearningRun:
    answer = request.answer()
    run = learn_steps(task, answer.step, name, steps, answer.measures)
    return run._replace(row=replace(run.row, disturbance=disturbance))


def _disturbance(options: TrainingOptions) -> str:
    stated = {key: getattr(options, key) for key in CONDITIONS}
    return ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in stated.items() if value is not None
    )


def _check_input(options: TrainingOptions) -> None:
    """Raise InputError for options of the samples, and for a sweep."""
    instead = "--strategy 'local_sgd:every=1; local_sgd:every=8'"
    options.refuse(("sweep",), f": with --learn write strategies instead, like {instead}")
    why = ": with --learn every worker has input in all steps, leave it out"
    options.refuse(("batches",), why)
    options.refuse(("epochs",), ": a run that learns has its own samples, leave it out")
