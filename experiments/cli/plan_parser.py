"""Parse what `simctl train --plan` trains."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from experiments.cli.machine_options import MachineOptions, RuleOptions
from experiments.cli.training_options import TrainingOptions
from experiments.commands.train_plan import Request
from experiments.execution.choice import HERE, Execution
from experiments.models.accelerators import DEVICES
from experiments.models.device_times import DeviceTimes
from experiments.models.shape_catalogue import choose
from experiments.parallel.calibrated_compute import calibrated_by
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import parse_plan
from topologies.errors import InputError
from topologies.units import parse_counts

USED = ("model", "plan", "p", "detail", "calibrate_compute")
"""Options of a training job that go with a plan."""


def check_options(plot: Path | None, execution: Execution) -> None:
    """Raise InputError for options of `simctl train` that a plan does not have."""
    if plot is not None:
        raise InputError(f"--plot {plot}: with --plan take --timeline, or leave out --plan")
    if execution != HERE:
        raise InputError("--jobs, --dask, --resume: a plan is one step, leave them out")


def parse_training(
    text: str,
    options: TrainingOptions,
    machine: MachineOptions,
    rules: RuleOptions,
    profile: str | None,
) -> Request:
    """The step to simulate. Raises InputError for options that do not go with a plan."""
    usual = TrainingOptions()
    for each in fields(options):
        value = getattr(options, each.name)
        if each.name not in USED and value != getattr(usual, each.name):
            name = each.name.replace("_", "-")
            raise InputError(f"--{name} {value}: it does not go with --plan, leave one of them out")
    if options.model == usual.model:
        raise InputError("--plan: give --model with a transformer, like llama3_70b")
    chosen, calibrated = machine.under(profile, usual="star")
    blueprint = replace(chosen.blueprint, force=rules.force)
    choice = choose(options.model)
    if "batch" in choice.training:
        raise InputError(f"{choice.name}: batch={choice.training['batch']}: write it in --plan")
    device = choice.training.get("device", DEVICES.get(blueprint.name, "a100"))
    times = DeviceTimes(device, choice.training.get("dtype", "bf16"))
    fitted: dict[str, str] = {}
    if options.calibrate_compute is not None:
        times = calibrated_by(Path(options.calibrate_compute), times, blueprint, calibrated)
        fitted = {"scale": f"{times.scale:.6g}", "launch_s": f"{times.launch:.6g}"}
    gpus = blueprint.whole().ranks if blueprint.kind != "shape" else None
    if options.p is not None:
        counts = parse_counts(options.p)
        if len(counts) > 1:
            raise InputError(f"--p {options.p[:40]}: with --plan one number of GPUs")
        gpus = counts[0]
    plan = parse_plan(text, gpus)
    parameters = {
        "model": options.model,
        "plan": str(plan),
        "p": str(plan.degrees.ranks),
        "device": device,
        **fitted,
        **({} if profile is None else {"profile": profile}),
        **chosen.parameters,
        **rules.parameters,
    }
    training = Training(choice.name, choice.shape, choice.seq, times)
    transfers = options.detail.value == "transfers"
    return Request(training, plan, blueprint, rules.rules, calibrated, transfers, parameters)
