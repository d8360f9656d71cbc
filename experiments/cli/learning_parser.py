"""Parse what is learnt, like "mlp:rate=0.5,epochs=10", and along which runs."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from experiments.cli.machine_options import MachineOptions, RuleOptions
from experiments.cli.training_options import TrainingOptions
from experiments.commands.learn import Request
from experiments.execution.choice import HERE, Execution
from experiments.learning.task import Task
from topologies.errors import InputError, unknown_option
from topologies.units import parse_number, parse_whole

DISTURBANCES = ("straggler", "noise", "slow_link", "fail")


def parse_task(text: str, seed: int) -> Task:
    """The task for NETWORK or NETWORK:key=value,..."""
    network, _, options = text.partition(":")
    known = {field.name: field for field in fields(Task) if "help" in field.metadata}
    changes: dict[str, float] = {}
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        if key not in known:
            helps = {name: field.metadata["help"] for name, field in known.items()}
            raise InputError(unknown_option(network[:40], key, helps))
        if not equals or key in changes:
            raise InputError(f"--learn {text[:80]}: write {key}=value once")
        parse_value = parse_whole if isinstance(known[key].default, int) else parse_number
        changes[key] = parse_value(value)
    return replace(Task(network, seed=seed), **changes)  # type: ignore[arg-type]


def check_alone(timeline: Path | None, execution: Execution) -> None:
    """Raise InputError for options of `simctl train` that learning does not have."""
    if timeline is not None:
        raise InputError(f"--timeline {timeline}: with --learn take --plot, or leave out --learn")
    if execution != HERE:
        raise InputError("--jobs, --dask, --resume: learning runs in one process, leave them out")


def parse(
    text: str, options: TrainingOptions, machine: MachineOptions, rules: RuleOptions
) -> Request:
    """The runs along which to learn: one for each strategy, all of as many workers."""
    if options.sweep is not None:
        raise InputError(
            f"--sweep {options.sweep[:60]}: with --learn write strategies instead, like "
            f"--strategy 'local_sgd:every=1; local_sgd:every=8'"
        )
    if options.batches is not None:
        raise InputError(
            f"--batches {options.batches[:60]}: with --learn every worker has input in all steps, "
            f"leave it out"
        )
    for option, value in (("--dataset", options.dataset), ("--input-rate", options.input_rate)):
        if value is not None:
            raise InputError(
                f"{option} {str(value)[:40]}: a run that learns has its own samples, leave it out"
            )
    task = parse_task(text, options.seed)
    names = [name.strip() for name in options.strategy.split(";") if name.strip()]
    requests = [
        replace(options, strategy=name, learn=None).request(machine, rules) for name in names
    ]
    if not requests or len(requests[0].ranks) > 1:
        raise InputError("--learn: one number of workers in --p, and a strategy or several")
    ranks = min(request.ranks[0] for request in requests)
    steps = options.steps or task.steps(ranks)
    jobs = {
        name: replace(request.job, steps=steps)
        for name, request in zip(names, requests, strict=True)
    }
    stated = {key: getattr(options, key) for key in DISTURBANCES}
    disturbance = ", ".join(f"{key} {value}" for key, value in stated.items() if value is not None)
    parameters = {
        **requests[0].parameters,
        "strategy": options.strategy,
        "learn": text,
        "p": str(ranks),
        "steps": steps,
    }
    return Request(task, jobs, ranks, disturbance.replace("_", " "), parameters)
