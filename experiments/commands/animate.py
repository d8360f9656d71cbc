"""`simctl animate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.animation.film import Film, check_ranks, film_of
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from simulator.collectives import Algorithm
from simulator.collectives.proof import WrongAlgorithm
from simulator.schedules.routed import route
from simulator.schedules.timeline import Timeline
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    from experiments.animation.picture import Reel
    from experiments.animation.step_film import StepFilm
    from experiments.pages.page import Page
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
    film = film_of(_timeline(request), request.algorithm.collective)
    case = f"{request.algorithm.name}, {request.ranks} ranks, {format_bytes(request.size)}"
    name = f"{case} on {request.machine.text}"

    def page() -> Page:
        from experiments.animation.collective_page import collective_page

        return collective_page(film, name, _summary(film, request), request.parameters)

    def reel() -> Reel:
        from experiments.animation.picture import collective_reel

        return collective_reel(film)

    steps = output.counted(film.steps, "step")
    made = _write(out, page, reel)
    output.say(f"{name}: {steps}, {format_seconds(film.timeline.makespan)}{made}")
    if film.wrong:
        output.note(f"{request.algorithm.name} is wrong. {film.wrong}")
    return 1 if film.wrong else 0


def run_ddp(job: Job, ranks: int, out: Path, parameters: Parameters) -> None:
    """Write the animation of a step of DDP."""
    from experiments.animation.ddp_film import ddp_film
    from simulator.training.ddp import DDP

    check_out(out)
    check_ranks(ranks)
    strategy = job.strategy
    if not isinstance(strategy, DDP):
        raise InputError(f"--strategy {job.name}: an animation shows ddp")
    written = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
    training = written.run(ranks)
    film = ddp_film(training.plan, training.timeline, strategy)
    facts = [f"A step takes {format_seconds(film.end)}. It has {training.plan.words[0]}."]
    if not len(film.flights.start):
        facts.append("The messages of its buckets are too many to draw.")
    _write_step(film, training.title, facts, parameters, out)


def run_pipeline(pipeline: Pipeline, times: StageTimes, out: Path, parameters: Parameters) -> None:
    """Write the animation of a step of a pipeline. `times` are those of a device's whole share of
    the model."""
    from experiments.animation.pipeline_film import pipeline_film
    from simulator.parallel.pipeline_times import of_stages, pipeline_times

    check_out(out)
    timed = pipeline_times(pipeline, of_stages(pipeline, times))
    film = pipeline_film(timed, times.transfer)
    several = "es" * (pipeline.micro_batches > 1)
    sizes = f"{pipeline.devices} devices, {pipeline.micro_batches} micro-batch{several}"
    idle = format_seconds(float(timed.idle.max()))
    facts = [f"A step takes {format_seconds(film.end)}. The most idle device waits for {idle}."]
    _write_step(film, f"{pipeline.name}, {sizes}", facts, parameters, out)


def _write_step(
    film: StepFilm, name: str, facts: Sequence[str], parameters: Parameters, out: Path
) -> None:
    def page() -> Page:
        from experiments.animation.step_page import step_page

        return step_page(film, name, facts, parameters)

    def reel() -> Reel:
        from experiments.animation.picture import step_reel

        return step_reel(film)

    made = _write(out, page, reel)
    output.say(f"{name}: {format_seconds(film.end)} a step{made}")


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


def _write(out: Path, page: Callable[[], Page], reel: Callable[[], Reel]) -> str:
    """Write the animation; returns how many pictures it has, in words."""
    if out.suffix.lower() == ".html":
        from experiments.pages.page import to_html

        output.write(out, to_html(page()))
        return ""
    from experiments.animation.picture import gif, step_pictures

    pictures = reel()
    if out.suffix:
        content, frames = gif(pictures)
        output.write(out, content)
        return f", {output.counted(frames, 'frame')}"
    output.check_folder(out, pictures.names, (".svg",))
    output.write_folder(out, dict(step_pictures(pictures)))
    return f", {output.counted(len(pictures.names), 'picture')}"


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


def _summary(film: Film, request: Request) -> list[str]:
    """What the reader of a page should know."""
    schedule, binary = film.schedule, in_binary([request.size])
    moved = format_bytes(schedule.volume, binary)
    redundant = format_bytes(film.memory.peak_redundant, binary)
    time = format_seconds(film.timeline.makespan)
    told = [f"{request.algorithm.collective.name}: {output.counted(film.steps, 'step')} in {time}."]
    if film.wrong:
        return [*told, f"The algorithm is wrong, and the animation stops there. {film.wrong}"]
    rate = f"{film.busbw / 1e9:.4g} GB/s busbw, " if film.busbw else ""
    return [*told, f"{rate}{moved} moved, {redundant} of duplicate data at the peak."]
