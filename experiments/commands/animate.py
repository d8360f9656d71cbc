"""`simctl animate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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

FILES = (".html", ".gif")


@dataclass(frozen=True)
class Request:
    """What to animate."""

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
    name = _name(request)
    made = ""
    if film.wrong:
        output.note(f"{request.algorithm.name} is wrong. {film.wrong}")
    if out.suffix.lower() == ".html":
        from experiments.animation.collective_page import collective_page
        from experiments.pages.page import to_html

        page = collective_page(film, name, _summary(film, request), request.parameters)
        output.write(out, to_html(page))
    elif out.suffix.lower() == ".gif":
        from experiments.animation.picture import gif

        content, frames = gif(film)
        output.write(out, content)
        made = f", {output.counted(frames, 'frame')}"
    else:
        from experiments.animation.picture import step_names, step_pictures

        output.check_folder(out, step_names(film), (".svg",))
        output.write_folder(out, dict(step_pictures(film)))
        made = f", {output.counted(len(step_names(film)), 'picture')}"
    output.say(f"{name}: {_figures(film)}{made}")
    return 1 if film.wrong else 0


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


def _name(request: Request) -> str:
    case = f"{request.algorithm.name}, {request.ranks} ranks, {format_bytes(request.size)}"
    return f"{case} on {request.machine.text}"


def _figures(film: Film) -> str:
    steps = output.counted(film.steps, "step")
    return f"{steps}, {format_seconds(film.timeline.makespan)}"


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
