"""What `simctl plan` trains: steps of plans, and searches for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.frameworks.job_choice import chosen_transformer, names_file, with_jobs
from experiments.models.accelerators import DEVICES, usual_dtype
from experiments.models.device_times import DeviceTimes
from experiments.options import condition_parser
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import JobOptions
from experiments.options.training_options import CONDITIONS, PlanOptions, listed
from experiments.pages.reports.result import Picture, Result
from experiments.parallel.measured_steps import calibrated_by, error_cells, span_of
from experiments.parallel.plan_job import PlanJob, Setting
from experiments.parallel.plan_keys import check_recomputation, idle_keys, like_framework
from experiments.parallel.plan_search import SearchResult, find_plans
from experiments.parallel.plan_space import Space, parse_space
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import KEYS, Plan, parse_plan
from experiments.pictures.timelines.timeline_file import check_timeline
from experiments.profiles.interval_levels import level_of
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import parse_number, parse_sizes

if TYPE_CHECKING:
    from experiments.training.training_grid import TrainingGrid

USED = ("model", "plan", "p", "batch", "detail", "tokens", "like", "calibrate_compute")
"""Options of a training job that go with a plan or a search."""
COURSE = (*CONDITIONS, "seed", "steps")
"""Options that go with a plan, and not with a search."""


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Setting):
    """What to search."""

    gpus: int
    """The GPUs of the job."""
    values: Mapping[str, Any]
    """What all plans have."""
    like: str | None = None
    """The framework whose defaults plans have."""

    def searched(self) -> SearchResult:
        """The fastest plans. Only they have intervals."""
        plan = Plan(dp=self.gpus, links=self.values.get("links", Plan.links))
        times = replace(self.groups(plan), end=None)
        span = span_of(times.topology, self.gpus, links_alone=not times.laws)
        size = node_size(times.topology, self.gpus)
        space = Space(self.training, self.gpus, size, self.values, span, self.like)
        return find_plans(space, times, output.Progress, level=level_of(self.profile))

    def records(self) -> list[output.Record]:
        """The rows of the table."""
        return [*self.searched().rows]


def is_search(text: str) -> bool:
    """Whether a plan asks for the fastest plans."""
    return text.replace(" ", "").partition(",")[0] == "auto"


def parse(
    options: PlanOptions, simulation: SimulationOptions
) -> PlanJob | TrainingGrid | SearchRequest:
    """The step of a plan to simulate, the runs of several plans and strategies, or the search for
    plans. Raises InputError for options that do not go with it."""
    options = _with_jobs(options, simulation)
    plans = plans_in(options.plan)
    if len(plans) == 1 and options.strategy is None and is_search(plans[0]):
        return parse_search(options, simulation)
    if any(map(is_search, plans)):
        raise InputError("auto: it goes alone, name the plans to compare")
    if options.seed and options.noise is None:
        output.note(f"--seed {options.seed}: there is no --noise, so it changes nothing")
    texts = [text for plan in plans for text in _swept(plan, options.sweep)]
    counts: list[str | None] = [*map(str, options.counts)] or [None]
    of_plans = replace(options, strategy=None, bucket=None, algo_file=None, sweep=None)
    if options.strategy is None:
        of_plans = replace(of_plans, bucket=options.bucket, algo_file=options.algo_file)
    each = [replace(of_plans, plan=text, p=count) for count in counts for text in texts]
    if len(set(texts)) < len(texts):
        raise InputError(f"{(options.plan or '')[:60]}: name each plan once")
    requests = [parse_course(case, simulation) for case in each]
    if options.strategy is not None:
        requests = [request.on_links() for request in requests]
    if len(requests) == 1 and options.strategy is None:
        return requests[0]
    # Strategies are imported where some are compared.
    from experiments.training.strategy_options import SweptValue
    from experiments.training.training_grid import TrainingGrid

    compared = {"plan": options.plan, "p": options.p}
    resolved = {**requests[0].resolved, **compared}
    values = [SweptValue(text, text, text) for text in (case.plan or "" for case in each)]
    cases = [*zip(values, requests, strict=True)]
    if options.strategy is None:
        return TrainingGrid("strategy", [], [], resolved, cases)
    options.refuse(("detail",), ": of plans, or of strategies: compare each alone")
    others = options.with_sweep()
    grid = others.request(simulation)
    alone = SweptValue(*[others.strategy or ""] * 3)
    named = [(value or alone, job) for value, job in grid.variants]
    variants = [(value, replace(job, name=value.text)) for value, job in named]
    resolved = {**resolved, **grid.resolved, **compared}
    return TrainingGrid("strategy", variants, grid.ranks, resolved, cases)


def _with_jobs(options: PlanOptions, simulation: SimulationOptions) -> PlanOptions:
    """The options with the plans, the model and the GPUs of the files that a plan names."""
    plans = plans_in(options.plan)
    if not any(map(names_file, plans)):
        return options
    gpus = None
    if len(options.counts) == 1:
        gpus = options.counts[0]
    elif options.p is None:
        gpus = _whole_machine(simulation.chosen[0].blueprint)
    texts, models, counted = with_jobs(plans, gpus)
    changes: dict[str, Any] = {"plan": "; ".join(texts)}
    if options.model == PlanOptions().model and models:
        if len(models) > 1:
            raise InputError(f"the files train {' and '.join(models)}: give --model")
        changes["model"] = models[0]
    if options.p is None and simulation.topology is None and len(counted) == 1:
        changes["p"] = str(counted[0])
    return replace(options, **changes)


def _whole_machine(blueprint: Blueprint) -> int | None:
    """All GPUs of a machine; None for a shape, which has any number."""
    return blueprint.whole().ranks if blueprint.kind != "shape" else None


def plans_in(text: str | None) -> list[str]:
    """The plans of a list with semicolons; an empty one has the defaults of all keys."""
    return [name.strip() for name in (text or "").split(";") if name.strip()] or [""]


def _swept(plan: str, sweep: str | None) -> list[str]:
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


def parse_course(options: PlanOptions, simulation: SimulationOptions) -> PlanJob:
    """The steps to simulate, under conditions. Raises InputError for options that do not go with a
    plan."""
    setting, gpus = _setting(options, simulation)
    plan = parse_plan(_with_batch(options), gpus)
    plan, defaults = like_framework(plan, options.like, setting.training.times.device)
    check_recomputation(plan, setting.training.shape)
    output.note(*idle_keys(plan, setting.training.shape, ideal=setting.ideal))
    stated = {name for name in COURSE if getattr(options, name) != getattr(PlanOptions, name)}
    if options.detail == "transfers" and stated:
        raise InputError(f"--detail {options.detail}: it is of a step without conditions")
    ranks = {"plan": str(plan), "p": str(plan.degrees.ranks)}
    settled = {
        "slow_links": condition_parser.slow_links(options.slow_link, setting.profile),
        "resolved": {**setting.resolved, **ranks, **setting.software(plan.links)},
        "training": setting.training.under(plan),
    }
    return PlanJob(
        **vars(setting) | settled,
        plan=plan,
        defaults=defaults,
        transfers=options.detail == "transfers",
        conditions=condition_parser.parse(
            options.straggler, options.noise, options.fail, None, options.seed
        ),
        steps=options.steps or 1,
        epochs=condition_parser.parse_epochs(options.epochs),
    )


def parse_search(options: PlanOptions, simulation: SimulationOptions) -> SearchRequest:
    """The search for plans. Raises InputError for options that do not go with it."""
    of_steps = sorted({*COURSE, "epochs", "sweep"})
    options.refuse(of_steps, ": it does not go with auto, leave one of them out")
    setting, gpus = _setting(options, simulation)
    options.refuse(("detail",), ": it does not go with auto")
    if gpus is None:
        raise InputError("auto: say on how many GPUs, like --gpus 64")
    values = parse_space(_with_batch(options))
    whole = Plan(dp=1, recompute=str(values.get("recompute", Plan.recompute)))
    check_recomputation(whole, setting.training.shape)
    software = setting.software(values.get("links", Plan.links))
    resolved = {**setting.resolved, "plan": options.plan, "p": str(gpus), **software}
    training = setting.training.under(replace(Plan(), **values))
    shared = {**vars(setting), "training": training, "resolved": resolved}
    return SearchRequest(**shared, gpus=gpus, values=values, like=options.like)


def _with_batch(options: PlanOptions) -> str:
    plan, batch = options.plan or "", options.batch
    return plan if batch is None else f"{plan},batch={batch}"


def _setting(options: PlanOptions, simulation: SimulationOptions) -> tuple[Setting, int | None]:
    """What is the same for all plans. The GPUs that the user names, or those of the machine; None
    for a shape's."""
    others = options.values_of(PlanOptions).keys() - {*USED, *COURSE, "epochs"}
    options.refuse(sorted(others), ": it does not go with a plan, leave one of them out")
    if options.model == PlanOptions().model:
        raise InputError("give --model with a transformer, like llama3_70b")
    chosen, profile = simulation.chosen
    blueprint = replace(chosen.blueprint, force=simulation.force)
    entry = chosen_transformer(options.model)
    if "batch" in entry.choices:
        raise InputError(f"{entry.name}: batch={entry.choices['batch']}: write it in the plan")
    usual = DEVICES.get(blueprint.name) or DEVICES.get(simulation.profile or "", "a100")
    device = str(entry.choices.get("device", usual))
    power = float(entry.choices.get("power", 0.0))
    times = DeviceTimes(device, str(entry.choices.get("dtype", usual_dtype(device))), power=power)
    tokens = 0.0 if options.tokens is None else _tokens(options.tokens)
    setting = Setting(
        training=Training(entry.name, entry.shape, entry.size, times, tokens),
        machine=blueprint,
        rules=simulation.rules,
        profile=profile,
        ideal=blueprint.kind == "shape" or profile is not None or options.detail == "transfers",
        resolved={},
    )
    resolved = {"model": options.model, "device": device}
    if options.calibrate_compute is not None:
        file = Path(options.calibrate_compute)
        training = calibrated_by(file, setting.training, setting.groups, options.like)
        setting, times = replace(setting, training=training), training.times
        resolved |= {"scale": f"{times.scale:.6g}", "launch_s": f"{times.launch:.6g}"}
    gpus = _whole_machine(blueprint)
    if (p := options.p) is not None:
        if len(options.counts) > 1:
            raise InputError(f"--p {p[:40]}: with auto one number of GPUs")
        gpus = options.counts[0]
        if gpus < 1:
            raise InputError(f"--p {p[:40]}: take 1 GPU or more")
    return replace(setting, resolved=resolved), gpus


def _tokens(text: str) -> float:
    """Tokens in thousands (K), millions (M), billions (B) or trillions (T)."""
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:].upper())
    try:
        tokens = parse_number(text[:-1] if scale else text) * (scale or 1.0)
    except InputError:
        tokens = 0.0
    if tokens < 1:
        raise InputError(f"--tokens {text[:40]!r}: write 1 or more, like 15T, 300B or 4096")
    return tokens


def run(request: PlanJob | SearchRequest, options: JobOptions) -> int:
    """Print a step of a plan in full, or the fastest plans and why each loses; 1 if the step does
    not fit in memory."""
    files = options.written_files
    if not options.are_usual:
        raise InputError("--jobs, --resume: a plan is one step, leave them out")
    if isinstance(request, SearchRequest):
        options.refuse(("timeline",), ": with auto take --plot, or name a plan")
        _searched(request, options).publish(files, options.format)
        return 0
    options.refuse(("plot",), ": of several plans or strategies: else take --timeline")
    check_timeline(files.timeline, request.plan.degrees.ranks, files.trace)
    result = request.answer()
    _note_nodes(result.step.work.times)
    about = {**options.parameters, **request.resolved}, request.machine, request.profile
    answer = Result("plan", result.figures(), [result.record], *about)
    answer.publish(files, options.format, result)
    return int(result.missing > 0)


def _note_nodes(times: GroupTimes) -> None:
    """Say so if tensor parallel groups reach beyond a node."""
    groups = times.topology.placement[times.degrees.groups("tp")]
    if (count := max(len(np.unique(group)) for group in times.topology.node[groups])) > 1:
        crosses = f"tp={times.degrees.tp} crosses nodes: a group is on {count} nodes"
        output.note(f"{crosses}, so the transfers of every layer take the network between nodes")


def node_size(topology: Topology, gpus: int) -> int:
    """GPUs of the first node; all of a machine without nodes."""
    node = topology.node[topology.placement[:gpus]]
    return int(np.count_nonzero(node == node[0])) if node[0] >= 0 else gpus


def _searched(request: SearchRequest, options: JobOptions) -> Result:
    searched = request.searched()
    pictures = [Picture("Memory of the fastest plans", (searched,))]
    parameters = {**options.parameters, **request.resolved}
    about = parameters, request.machine, request.profile, pictures
    errors = dict.fromkeys(map(searched.error, searched.first))
    words = {"errors": [error_cells(*error) for error in errors]}
    return Result("plans", searched.figures(), searched.rows, *about, words=words)
