"""`simctl animate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.animation.collective_film import check_ranks, collective_film
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from simulator.collectives import Algorithm
from simulator.collectives.proof import WrongAlgorithm
from simulator.schedules.routed import route
from simulator.schedules.timeline import Timeline
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from experiments.animation.film import Film
    from experiments.pages.page import Figure
    from experiments.parallel.plan_run import PlanRun
    from experiments.training.job import Job
    from simulator.parallel.pipeline_times import StageTimes
    from simulator.parallel.pipelines import Pipeline

FILES = (".html", ".gif")
Parameters = Mapping[str, output.Value]


@dataclass(frozen=True)
class Request:
    """A collective to animate."""

    algorithm: Algorithm
    ranks: int
    size: float
    """In bytes."""
    machine: Blueprint
    rules: Rules = DEFAULT
    parameters: Mapping[str, output.Value] = field(default_factory=dict)
    """The options as the user writes them."""


def run(request: Request, out: Path) -> int:
    """Write the animation of a collective; 1 if the algorithm is wrong."""
    check_out(out)
    check_ranks(request.ranks)
    timeline = _timeline(request)
    film = collective_film(timeline, request.algorithm.collective)
    case = f"{request.algorithm.name}, {request.ranks} ranks, {format_bytes(request.size)}"
    name = f"{case} on {request.machine.text}"

    def trees() -> list[Figure]:
        from experiments.animation.tree_picture import trees_figures

        return trees_figures(timeline.schedule)

    made = _write(film, name, request.parameters, out, trees)
    steps = output.counted(len(film.acts[0].marks) - 1, "step")
    output.say(f"{name}: {steps}, {format_seconds(timeline.makespan)}{made}")
    if wrong := film.acts[0].wrong:
        output.note(f"{request.algorithm.name} is wrong. {wrong}")
    return 1 if wrong else 0


def run_strategy(job: Job, ranks: int, out: Path, parameters: Parameters) -> None:
    """Write the animation of a step of a strategy: of DDP with its buckets."""
    from experiments.animation.ddp_film import ddp_film
    from experiments.animation.spans_film import spans_film
    from experiments.pictures.timelines.step_spans import strategy_spans
    from simulator.training.ddp import DDP

    check_out(out)
    check_ranks(ranks)
    strategy = job.strategy
    written = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
    training = written.run(ranks)
    if isinstance(strategy, DDP) and job.steps == 1:
        film = ddp_film(training.plan, training.timeline, strategy)
    else:
        film = spans_film(strategy_spans(training.plan, training.timeline))
    _write_step(film, training.title, parameters, out, training.plan.steps)


def run_plan(run: PlanRun, out: Path, parameters: Parameters) -> None:
    """Write the animation of steps of a plan."""
    from experiments.animation.spans_film import spans_film
    from experiments.pictures.timelines.step_spans import step_spans

    check_out(out)
    name, (step, attempts) = f"{run.training.name}, {run.plan}", run.timed
    _write_step(spans_film(step_spans(step, attempts)), name, parameters, out, len(attempts))


def run_pipeline(pipeline: Pipeline, times: StageTimes, out: Path, parameters: Parameters) -> None:
    """Write the animation of a step of a pipeline. `times` are those of a device's whole share of
    the model."""
    from experiments.animation.pipeline_film import pipeline_film
    from simulator.parallel.pipeline_times import of_stages, pipeline_times

    check_out(out)
    film = pipeline_film(pipeline_times(pipeline, of_stages(pipeline, times)), times.transfer)
    several = "es" * (pipeline.micro_batches > 1)
    sizes = f"{pipeline.devices} devices, {pipeline.micro_batches} micro-batch{several}"
    _write_step(film, f"{pipeline.name}, {sizes}", parameters, out)


def _write_step(film: Film, name: str, parameters: Parameters, out: Path, steps: int = 1) -> None:
    made = _write(film, name, parameters, out)
    several = "a step" if steps == 1 else f"for {steps} steps"
    output.say(f"{name}: {format_seconds(film.acts[0].end)} {several}{made}")


def check_out(out: Path) -> None:
    """Raise InputError now, before any work, unless the animation can be written to `out`."""
    if out.suffix.lower() == ".svg":
        raise InputError(
            f"cannot write {str(out)!r}: an animation is several SVGs, name a folder for them"
        )
    if out.suffix:
        output.check_writable(out, FILES)
    else:
        output.check_folder(out, (), ())


def _write(
    film: Film,
    name: str,
    parameters: Parameters,
    out: Path,
    figures: Callable[[], Sequence[Figure]] = tuple,
) -> str:
    """Write the film; returns how many pictures it has, in words. A page has further figures."""
    if out.suffix.lower() == ".html":
        from experiments.animation.film_page import film_page
        from experiments.pages.page import to_html

        output.write(out, to_html(film_page(film, name, parameters, figures())))
        return ""
    from experiments.animation.picture import gif, step_pictures

    if out.suffix:
        content, frames = gif(film)
        output.write(out, content)
        return f", {output.counted(frames, 'frame')}"
    files = step_pictures(film)
    output.check_folder(out, list(files), (".svg",))
    output.write_folder(out, files)
    return f", {output.counted(len(files), 'picture')}"


def _timeline(request: Request) -> Timeline:
    """The simulated collective, of a wrong algorithm as well."""
    algorithm, ranks, rules = request.algorithm, request.ranks, request.rules
    topology = request.machine.build(ranks, algorithm.servers)
    try:
        case = Case(algorithm, ranks, topology, rules._replace(symmetry="off"))
        return case.tuned(request.size).simulate(request.size)
    except WrongAlgorithm:
        fitted = algorithm.on(topology, ranks, request.size)
        fair = rules.sharing == "fair"
        return rules.run(route(fitted.schedule, fitted.topology, fair=fair))
