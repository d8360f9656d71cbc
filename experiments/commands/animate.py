"""`simctl animate`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.options.completion import (
    complete_algorithms,
    complete_models,
    complete_strategies,
    completer,
    pipeline_names,
)
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.options import (
    ALGORITHM_HELP,
    AlgorithmFile,
    Size,
    Times,
    argument,
    option,
    word_or_option,
)
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import SimulationOptions
from experiments.options.training_options import (
    CONDITIONS,
    PlanOptions,
    StepOptions,
    TrainingOptions,
)
from experiments.options.values import (
    names_of,
    parse_algorithm,
    parse_rank_count,
    parse_stage_times,
    usual_ranks,
)
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds, parse_bytes, parse_whole

if TYPE_CHECKING:
    from experiments.animation.film import Film
    from simulator.collectives import Algorithm
    from simulator.schedules.schedule import Schedule
    from simulator.schedules.timeline import Timeline

FILES = (".html", ".gif")
Parameters = output.Record
FilmedStep = tuple["Film", str, Parameters, int]
"""A film, its name, what the page says of how it was made, and the number of its steps."""

MODEL = ("model", "strategy", "bucket", "steps", *CONDITIONS)
"""Options of training steps."""
PIPELINE = ("batch", "times")
COLLECTIVE = ("algo", "algo_file", "size", "root", "skew", "matrix")
LINK_OPTIONS = ("topology", "bandwidth", "latency", "gap", "reduction")
USUAL_RANKS = "4"
"""Ranks of a shape, if the user does not say."""


@dataclass(frozen=True, kw_only=True)
class Animate(StepOptions, PatternOptions, MachineOptions, RuleOptions):
    """Show step by step which rank sends what to whom.

    It shows a collective; with --model a training step of DDP and its buckets, of another strategy
    or of a plan; with --pipeline the micro-batches of a pipeline. A page has controls, a GIF is for
    slides. If the algorithm is wrong, the animation stops at the first wrong value, and the exit
    code is 1.
    """

    EXAMPLES: ClassVar = (
        "animate ring --p 4 --out ring.html",
        "animate --model resnet50 --p 4 --bandwidth 10GB/s --out ddp.html",
        "animate --pipeline 1f1b --p 4 --batch 8 --out pipeline.gif",
    )

    out: Path = option(
        "FILE.html, FILE.gif, or FOLDER for an SVG of each step.", default=MISSING, writable=True
    )
    word: str | None = argument(
        "[ALGO|PLAN]",
        "The same as --algo, or a plan of parallel training: dp=2,tp=2,pp=2,batch=16.",
        stored=False,
        autocompletion=complete_algorithms,
    )
    algo: str | None = option(ALGORITHM_HELP, autocompletion=complete_algorithms)
    algo_file: AlgorithmFile = None
    p: str | None = option(
        "The number of ranks, 2 to 32, or of devices of --pipeline.  [default: all of the "
        "machine; 4 of a shape; 8 devices]",
        "--p",
        "--gpus",
    )
    size: Size = None
    model: str | None = option(
        "A step of this model, with a strategy or a plan: see `simctl train`.",
        autocompletion=complete_models,
    )
    strategy: str | None = option(
        "NAME with options.  [default with --model, without a plan: ddp]",
        autocompletion=complete_strategies,
    )
    pipeline: str | None = option(
        "A step of a pipeline: NAME with options, or FILE.csv. See `simctl pipelines`.",
        autocompletion=completer(pipeline_names),
    )
    batch: int | None = option("Micro-batches of --pipeline.  [default: 16]", min=1)
    times: Times = None

    @property
    def kind(self) -> str:
        """What is animated: "pipeline", "model" or "collective"."""
        if self.pipeline is not None:
            if self._plan is not None:
                raise InputError(f"{self._plan[:60]} does not go with --pipeline: leave one out")
            return "pipeline"
        stated = self._plan is not None or any(getattr(self, key) is not None for key in MODEL)
        return "model" if stated else "collective"

    @property
    def _plan(self) -> str | None:
        """The word if it is a plan, KEY=VALUE,..., and no algorithm with options."""
        return self.word if "=" in (self.word or "").partition(":")[0] else None

    def run(self) -> int:
        """Write the animation; 1 if an algorithm is wrong."""
        algo = word_or_option(None if self._plan else self.word, self.algo)
        foreign = {
            "pipeline": (*MODEL, *COLLECTIVE, *LINK_OPTIONS),
            "model": (*PIPELINE, *COLLECTIVE),
            "collective": PIPELINE,
        }[self.kind]
        what = {"model": "--model", "pipeline": "--pipeline"}.get(self.kind, "a collective")
        why = f" does not go with {what}: leave one of them out"
        named = replace(self, algo=algo)
        named.refuse(foreign, why)
        if self.kind == "collective":
            return named._animate_collective()
        is_pipeline = self.kind == "pipeline"
        film, name, parameters, steps = self._pipeline() if is_pipeline else self._model()
        made = _write(film, name, parameters, self.out)
        several = "a step" if steps == 1 else f"for {steps} steps"
        output.say(f"{name}: {format_seconds(film.acts[0].end)} {several}{made}")
        return 0

    def _animate_collective(self) -> int:
        from experiments.animation.collective_film import check_ranks, collective_film

        algorithm = self.patterned(parse_algorithm(self.algo, self.algo_file))
        usual = partial(usual_ranks, self.blueprint, [algorithm], USUAL_RANKS)
        p, size = self.count_text(self.p, usual), self.size_text(self.size)
        ranks, nbytes = parse_rank_count(p), parse_bytes(size)
        check_out(self.out)
        check_ranks(ranks)
        timeline = self._timeline(algorithm, ranks, nbytes)
        film = collective_film(timeline, algorithm.collective)
        case = f"{algorithm.name}, {ranks} ranks, {format_bytes(nbytes)}"
        name = f"{case} on {self.blueprint.text}"
        algo = self.algo or names_of(algorithm)
        parameters = {**self.parameters, "algo": algo, "p": p, "size": size}
        made = _write(film, name, parameters, self.out, timeline.schedule)
        steps = output.counted(len(film.acts[0].marks) - 1, "step")
        output.say(f"{name}: {steps}, {format_seconds(timeline.makespan)}{made}")
        if wrong := film.acts[0].wrong:
            output.note(f"{algorithm.name} is wrong. {wrong}")
        return 1 if wrong else 0

    def _timeline(self, algorithm: Algorithm, ranks: int, nbytes: float) -> Timeline:
        """The simulated collective, of a wrong algorithm as well."""
        from experiments.simulations.case import Case
        from simulator.collectives.proof import WrongAlgorithm
        from simulator.schedules.routed import route

        rules = self.rules._replace(symmetry="off")
        machine = replace(self.blueprint, force=self.force)
        topology = machine.build(ranks, algorithm.servers)
        try:
            return Case(algorithm, ranks, topology, rules).tuned(nbytes).simulate(nbytes)
        except WrongAlgorithm:
            fitted = algorithm.on(topology, ranks, nbytes)
            fair = rules.sharing == "fair"
            return self.rules.run(route(fitted.schedule, fitted.topology, fair=fair))

    def _model(self) -> FilmedStep:
        """Steps of a strategy, or of a plan."""
        from experiments.animation.collective_film import check_ranks
        from experiments.animation.spans_film import spans_film
        from experiments.pictures.timelines.step_spans import strategy_spans
        from simulator.training.buckets import initial, rebuilt
        from simulator.training.ddp import DDP

        p = self.p
        is_any_size = self.blueprint.kind == "shape" and self.blueprint.size is None
        if p is None and is_any_size and self._plan is None:
            p = USUAL_RANKS
        _, *names = MODEL
        stated = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        job_options = {"model": self.model or "resnet50", "p": p, **stated}
        simulation = SimulationOptions(
            **self.values_of(MachineOptions), **self.values_of(RuleOptions)
        )
        if self._plan is not None:
            return self._planned(PlanOptions(plan=self._plan, **job_options), simulation)
        request = TrainingOptions(**job_options).request(simulation)
        if len(request.runs) > 1:
            raise InputError(f"--p {p}, --strategy {self.strategy}: one of each here")
        job, [ranks] = request.job, request.ranks
        check_out(self.out)
        check_ranks(ranks)
        written = replace(job, detail="transfers", rules=job.rules._replace(symmetry="off"))
        training = written.run(ranks)
        plan, timeline = training.plan, training.timeline
        strategy, buckets = job.strategy, []
        if isinstance(strategy, DDP) and job.steps == 1:
            buckets = (initial if strategy.find_unused else rebuilt)(plan.model, strategy.bucket)
        film = spans_film(strategy_spans(plan, timeline), buckets)
        resolved = {key: request.resolved[key] for key in ("model", "strategy", "p")}
        return film, training.title, {**self.parameters, **resolved}, plan.steps

    def _planned(self, options: PlanOptions, simulation: SimulationOptions) -> FilmedStep:
        from experiments.animation.spans_film import spans_film
        from experiments.commands.plan_cases import parse
        from experiments.parallel.plan_job import PlanJob
        from experiments.pictures.timelines.step_spans import step_spans

        case = parse(options, simulation)
        if not isinstance(case, PlanJob):
            raise InputError(f"{(self._plan or '')[:60]}: an animation shows one plan alone")
        run = case.answer()
        check_out(self.out)
        film = spans_film(step_spans(run.whole, run.attempts))
        name, parameters = f"{run.training.name}, {run.plan}", {**self.parameters, **case.resolved}
        return film, name, parameters, len(run.attempts)

    def _pipeline(self) -> FilmedStep:
        """A step of a pipeline."""
        from experiments.animation.spans_film import pipeline_film
        from experiments.pipeline_files import named_pipeline
        from simulator.parallel.pipeline_times import of_stages, pipeline_times

        times, kept = parse_stage_times(self.times)
        asked = None if self.p is None else parse_whole(self.p), self.batch
        pipeline = named_pipeline(self.pipeline or "", asked, times, kept)
        check_out(self.out)
        film = pipeline_film(pipeline_times(pipeline, of_stages(pipeline, times)), times.transfer)
        devices, micro_batches = pipeline.devices, pipeline.micro_batches
        several = "es" * (micro_batches > 1)
        name = f"{pipeline.name}, {devices} devices, {micro_batches} micro-batch{several}"
        sizes = {"devices": devices, "micro_batches": micro_batches}
        return film, name, {"pipeline": self.pipeline, **sizes, "times": self.times}, 1


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
    schedule: Schedule | None = None,
) -> str:
    """Write the film; returns how many pictures it has, in words. A page has the trees of a
    schedule too."""
    if out.suffix.lower() == ".html":
        from experiments.animation.film_page import film_page, trees_figures
        from experiments.pages.page import to_html

        figures = [] if schedule is None else trees_figures(schedule)
        output.write(out, to_html(film_page(film, name, parameters, figures)))
        return ""
    from experiments.animation.film_painter import gif, step_pictures

    if out.suffix:
        content, frames = gif(film)
        output.write(out, content)
        return f", {output.counted(frames, 'frame')}"
    files = step_pictures(film)
    output.check_folder(out, list(files), (".svg",))
    output.write_folder(out, files)
    return f", {output.counted(len(files), 'picture')}"
