"""Parse what `simctl plan` trains."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.commands.planned_runs import SearchRequest
from experiments.models.accelerators import DEVICES
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.options import condition_parser
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.options import DetailName
from experiments.options.profile_options import ProfileOptions
from experiments.options.training_options import CONDITIONS, PlanOptions, listed
from experiments.parallel.plan_job import PlanJob, Setting
from experiments.parallel.plan_space import parse_space
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import KEYS, parse_plan
from experiments.parallel.step_calibration import calibrated_by
from topologies.errors import InputError
from topologies.units import parse_counts, parse_sizes

if TYPE_CHECKING:
    from experiments.training.training_grid import TrainingGrid

USED = ("model", "plan", "p", "batch", "detail", "calibrate_compute")
"""Options of a training job that go with a plan or a search."""
COURSE = (*CONDITIONS, "seed", "steps")
"""Options that go with a plan, and not with a search."""


def is_search(text: str) -> bool:
    """Whether a plan asks for the fastest plans."""
    return text.replace(" ", "").partition(",")[0] == "auto"


def parse(
    options: PlanOptions, machine: MachineOptions, rules: RuleOptions, profile: ProfileOptions
) -> PlanJob | TrainingGrid | SearchRequest:
    """The step of a plan to simulate, the runs of several plans and strategies, or the search for
    plans. Raises InputError for options that do not go with it."""
    plans = plans_in(options.plan)
    if len(plans) == 1 and options.strategy is None and is_search(plans[0]):
        return parse_search(options, machine, rules, profile)
    if any(map(is_search, plans)):
        raise InputError("auto: it goes alone, name the plans to compare")
    if options.seed and options.noise is None:
        output.note(f"--seed {options.seed}: there is no --noise, so it changes nothing")
    texts = [text for plan in plans for text in _swept(plan, options.sweep)]
    counts = [options.p] if options.p is None else map(str, parse_counts(options.p))
    of_plans = replace(options, strategy=None, bucket=None, algo_file=None, sweep=None)
    if options.strategy is None:
        of_plans = replace(of_plans, bucket=options.bucket, algo_file=options.algo_file)
    each = [replace(of_plans, plan=text, p=count) for count in counts for text in texts]
    if len(set(texts)) < len(texts):
        raise InputError(f"{(options.plan or '')[:60]}: name each plan once")
    requests = [parse_course(case, machine, rules, profile) for case in each]
    if len(requests) == 1 and options.strategy is None:
        return requests[0]
    # Strategies are imported where some are compared.
    from experiments.training.strategy_options import SweptValue
    from experiments.training.training_grid import TrainingGrid

    stated = {"plan": options.plan, "p": options.p, "sweep": options.sweep}
    parameters = {**requests[0].parameters, **stated}
    values = [SweptValue(text, text, text) for text in (case.plan or "" for case in each)]
    cases = [*zip(values, requests, strict=True)]
    if options.strategy is None:
        return TrainingGrid("strategy", [], [], parameters, cases)
    if options.detail is DetailName.transfers:
        raise InputError("--detail transfers: of plans, or of strategies: compare each alone")
    others = options.with_sweep()
    grid = others.request(machine, rules, profile)
    alone = SweptValue(*[others.strategy or ""] * 3)
    named = [(value or alone, job) for value, job in grid.variants]
    variants = [(value, replace(job, name=value.text)) for value, job in named]
    return TrainingGrid(
        "strategy", variants, grid.ranks, {**parameters, **grid.parameters, **stated}, cases
    )


def plans_in(text: str | None) -> list[str]:
    """The plans of a list with semicolons; an empty one has the defaults of all keys."""
    return [name.strip() for name in (text or "").split(";") if name.strip()] or [""]


def _swept(plan: str, sweep: str | None) -> list[str]:
    """The plan with each value of a key."""
    if sweep is None:
        return [plan]
    key, _, values = sweep.partition("=")
    if key not in KEYS or not values:
        raise InputError(f"--sweep {sweep[:60]!r}: write a key of the plan and values: micro=1,2,4")
    texts = [text.strip() for text in values.split(",")]
    if "" in texts or len(set(texts)) < len(texts):
        raise InputError(f"--sweep {sweep[:60]!r}: write each value once, like micro=1,2,4")
    if key == "bucket" and ".." in values:
        texts = [f"{size:.0f}B" for size in parse_sizes(values)]
    else:
        texts = listed(values)
    others = [part for part in plan.split(",") if part.partition("=")[0].strip() != key]
    return [",".join([*filter(None, others), f"{key}={value}"]) for value in texts]


def parse_course(
    options: PlanOptions, machine: MachineOptions, rules: RuleOptions, profile: ProfileOptions
) -> PlanJob:
    """The steps to simulate, under conditions. Raises InputError for options that do not go with a
    plan."""
    plain = {name: getattr(PlanOptions(), name) for name in (*COURSE, "epochs")}
    stated = {name: getattr(options, name) for name in plain}
    setting, gpus = _setting(replace(options, **plain), machine, rules, profile)
    plan, detail = parse_plan(_with_batch(options), gpus), options.detail
    if detail is DetailName.transfers and any(stated[name] != plain[name] for name in COURSE):
        raise InputError(f"--detail {detail.value}: it is of a step without conditions")
    changed = {name: value for name, value in stated.items() if value != plain[name]}
    ranks = {"plan": str(plan), "p": str(plan.degrees.ranks)}
    conditions = condition_parser.parse(
        options.straggler, options.noise, options.fail, None, options.seed
    )
    settled = {
        "slow_links": condition_parser.slow_links(options.slow_link, setting.profile),
        "parameters": {**setting.parameters, **ranks, **changed},
    }
    return PlanJob(
        **vars(setting) | settled,
        plan=plan,
        transfers=detail is DetailName.transfers,
        conditions=conditions,
        steps=options.steps or 1,
        epochs=condition_parser.parse_epochs(options.epochs),
    )


def parse_search(
    options: PlanOptions, machine: MachineOptions, rules: RuleOptions, profile: ProfileOptions
) -> SearchRequest:
    """The search for plans. Raises InputError for options that do not go with it."""
    setting, gpus = _setting(options, machine, rules, profile)
    if options.detail is not DetailName.auto:
        raise InputError(f"--detail {options.detail.value}: it does not go with auto")
    if gpus is None:
        raise InputError("auto: say on how many GPUs, like --gpus 64")
    values = parse_space(_with_batch(options))
    parameters = {**setting.parameters, "plan": options.plan, "p": str(gpus)}
    if options.batch is not None:
        parameters["batch"] = options.batch
    shared = {**vars(setting), "parameters": parameters}
    return SearchRequest(**shared, gpus=gpus, values=values)


def _with_batch(options: PlanOptions) -> str:
    """The plan with the sequences of --batch."""
    plan, batch = options.plan or "", options.batch
    return plan if batch is None else f"{plan},batch={batch}"


def _setting(
    options: PlanOptions, machine: MachineOptions, rules: RuleOptions, profile: ProfileOptions
) -> tuple[Setting, int | None]:
    """What is the same for all plans. The GPUs that the user names, or those of the machine; None
    for a shape's."""
    plain, of_steps = PlanOptions(), (*COURSE, "epochs", "sweep")
    for each in fields(PlanOptions):
        value = getattr(options, each.name)
        if each.name not in USED and value != getattr(plain, each.name):
            name = each.name.replace("_", "-")
            used = "with auto" if each.name in of_steps else "with a plan"
            raise InputError(f"--{name} {value}: it does not go {used}, leave one of them out")
    if options.model == plain.model:
        raise InputError("give --model with a transformer, like llama3_70b")
    chosen, calibrated = profile.calibrated(machine, rules)
    blueprint = replace(chosen.blueprint, force=rules.force)
    entry = find_transformer(options.model)
    if "batch" in entry.choices:
        raise InputError(f"{entry.name}: batch={entry.choices['batch']}: write it in the plan")
    usual = DEVICES.get(blueprint.name) or DEVICES.get(profile.profile or "", "a100")
    device = str(entry.choices.get("device", usual))
    times = DeviceTimes(device, str(entry.choices.get("dtype", "bf16")))
    setting = Setting(
        training=Training(entry.name, entry.shape, entry.size, times),
        machine=blueprint,
        rules=rules.rules,
        profile=calibrated,
        parameters={},
    )
    fitted: dict[str, str] = {}
    if options.calibrate_compute is not None:
        times = calibrated_by(Path(options.calibrate_compute), times, setting.groups)
        fitted = {"scale": f"{times.scale:.6g}", "launch_s": f"{times.launch:.6g}"}
    gpus = blueprint.whole().ranks if blueprint.kind != "shape" else None
    if (p := options.p) is not None:
        if len(counts := parse_counts(p)) > 1:
            raise InputError(f"--p {p[:40]}: with auto one number of GPUs")
        gpus = counts[0]
        if gpus < 1:
            raise InputError(f"--p {p[:40]}: take 1 GPU or more")
    parameters = {
        "model": options.model,
        "device": device,
        **fitted,
        **profile.library_parameters,
        **chosen.machine_parameters,
        **rules.rule_parameters,
    }
    training = replace(setting.training, times=times)
    return replace(setting, training=training, parameters=parameters), gpus
