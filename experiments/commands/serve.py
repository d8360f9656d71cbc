"""`simctl serve`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.answer_files import ALL
from experiments.options.completion import complete_machines
from experiments.options.machine_options import TOPOLOGY_HELP, MachineOptions
from experiments.options.options import ReportOptions, RunTimeline, option
from experiments.pages.reports.result import Picture, Result
from experiments.pictures.timelines.timeline_file import check_timeline, write_timeline
from experiments.serving.engines import Engine, ServedPrecision
from topologies.errors import InputError, naming
from topologies.units import parse_counts, parse_seconds, parse_whole

if TYPE_CHECKING:
    from experiments.serving.deployment import Deployment, PrefillWorkers
    from experiments.serving.operating_point import Factor, Load, Point
    from experiments.serving.search import Served
    from topologies.catalogue import Blueprint
    from topologies.topology import Topology

LONGEST = 2**20
"""Tokens of a prompt, an answer or a chunk at most."""
LEAST = {"isl": 1, "osl": 2, "chunk": 64}
"""Tokens of each at least."""
DEFAULT_MACHINE = "hgx_h100"
CONCURRENCY = "1..256:x4"


@dataclass(frozen=True, kw_only=True)
class Serve(MachineOptions, ReportOptions):
    """Predict how fast an engine serves a model.

    TTFT is the time until the first token, and TPOT that of each further one. So many sequences are
    in flight, and a new one comes for each that is done. With `--plan auto` it finds the most
    tokens a GPU within --ttft and --tpot.
    """

    EXAMPLES: ClassVar = (
        "serve --model llama3_70b --plan tp=8 --topology b200 --precision fp8 --concurrency 64",
        "serve --model gpt_oss_120b --plan auto --gpus 8 --topology hgx_h200 --precision fp4 "
        "--tpot 10ms",
    )

    topology: str | None = option(
        f"{TOPOLOGY_HELP}  [default: {DEFAULT_MACHINE}, or star with --device]",
        autocompletion=complete_machines,
    )
    model: str = option("A transformer: llama3_70b, or its config.json.", default="llama3_70b")
    plan: str = option(
        "How GPUs share it: tp=8,dp=8,ep=8, with attention of dp groups and experts of "
        "ep; pp=2: stages of a pipeline; mtp=2: drafted tokens; auto: find the best of 1, 2, "
        "4, ... GPUs an instance. With --prefill: of workers that decode, like 3:tp=8.",
        default="tp=1",
    )
    prefill: str | None = option(
        "Prefill on workers of their own, like 2:tp=4: two on nodes of their own, which "
        "send KV caches to those of --plan.  [default: each worker does both]"
    )
    chunk: str | None = option("Prefill prompts in chunks of so many tokens, like 2048.")
    p: str | None = option("GPUs of all instances.  [default: those of --plan]", "--p", "--gpus")
    device: str | None = option("A GPU: l40s.  [default: that of the machine]")
    isl: str = option("Tokens of a prompt.", default="1024")
    osl: str = option("Tokens of an answer.", default="1024")
    concurrency: str | None = option(
        f"Sequences in flight in an instance: 64, or {CONCURRENCY}, the default."
    )
    precision: ServedPrecision = option("That of weights and products.", default="fp8")
    engine: Engine = option("What serves the model.", default="trtllm")
    ttft: str | None = option("With auto: the first token after this time at most, like 1s.")
    tpot: str | None = option("With auto: each further token, like 30ms.")
    accepted: float = option(
        "With mtp: the share of drafted tokens that are accepted.", default=0.7
    )
    measured: Path | None = option(
        "Points of yours: a CSV with isl, osl, concurrency, ttft_ms and tpot_ms, which "
        "correct the times."
    )
    level: float = option("The share of engines and models that an interval holds.", default=0.8)

    timeline: RunTimeline = None

    def run(self) -> int:
        """Print the operating points."""
        self.written_files.check(folders=True)
        if self.timeline is not None:
            auto = self.plan == "auto"
            drawn = self._served[0].deployment if auto else self._deployment
            check_timeline(self.timeline, drawn.cut.gpus)
            self._draw(self._served[0 if auto else -1])
        rows = self.records()
        pictures = [Picture("Tokens of a user and of a GPU", self._drawn)]
        answer = Result("serve", self._report(rows), rows, self.parameters, pictures=pictures)
        answer.publish(self.written_files, self.format)
        return 0

    @cached_property
    def blueprint(self) -> Blueprint:
        """The machine. Raises InputError as that of other commands."""
        if self.topology or self.device:
            return super().blueprint
        return replace(self, topology=DEFAULT_MACHINE).blueprint

    def records(self) -> list[output.Record]:
        """A row for each number of sequences, or for each way to serve."""
        return [self._record(each) for each in self._served]

    @cached_property
    def _served(self) -> Sequence[Served]:
        from experiments.serving.operating_point import Load, point
        from experiments.serving.search import Limits, Served, search

        isl, osl = (self._tokens(name) for name in ("isl", "osl"))
        load = Load(float(isl), float(osl), 1.0)
        chunk = 0 if self.chunk is None else self._tokens("chunk")
        if self.plan == "auto":
            alone = " goes with a plan such as tp=8, not auto"
            self.refuse(("concurrency", "measured", "prefill"), alone)
            gpus = self._gpus or self.blueprint.whole().ranks
            limits = Limits(*(self._limit(name) for name in ("ttft", "tpot")))
            progress, build = output.Progress("ways to serve"), cache(self._machine)
            about = limits, self.level, chunk
            return search(self._deployment, build, gpus, load, *about, progress)
        self.refuse(("ttft", "tpot"), " goes with --plan auto")
        loads = [load._replace(concurrency=float(each)) for each in self._concurrency]
        deployment, workers = self._deployment, self._workers
        machine = self._machine(deployment.cut.gpus)
        at = partial(point, deployment, machine, workers=workers, chunk=chunk)
        corrections = self._factors(deployment, at)
        served = [
            Served(
                *(deployment, 1, at(each, factors=corrections, level=self.level)),
                workers=workers,
            )
            for each in loads
        ]
        gpus = served[0].gpus
        self._check_size(gpus)
        if self._gpus and self._gpus % gpus:
            raise InputError(f"--gpus {self._gpus}: instances have {gpus} GPUs each")
        return [each._replace(instances=(self._gpus or gpus) // gpus) for each in served]

    def _check_size(self, gpus: int) -> None:
        """Raise InputError if a machine of stated size has fewer GPUs."""
        stated = self.blueprint.options.get("nodes") or self.hosts
        if stated and gpus > (ranks := self.blueprint.whole().ranks):
            raise InputError(f"--gpus {gpus}: {self.blueprint.text} has {ranks} GPUs")

    @cached_property
    def _workers(self) -> PrefillWorkers | None:
        from experiments.serving.deployment import PrefillWorkers, parse_workers, sent_seconds

        if self.prefill is None:
            return None
        number, cut = parse_workers("--prefill", self.prefill)
        deployment = replace(self._deployment, cut=cut)
        machine = self._machine(cut.gpus)
        sent = sent_seconds(deployment, self._deployment, self.blueprint, float(self.isl))
        decoders, _ = parse_workers("--plan", self.plan)
        return PrefillWorkers(deployment, machine, number, decoders, sent)

    @cached_property
    def _deployment(self) -> Deployment:
        from experiments.models.accelerators import DEVICES
        from experiments.models.model_catalogue import find_transformer
        from experiments.serving.deployment import Cut, Deployment, parse_workers
        from topologies.clusters import MACHINES

        entry = find_transformer(self.model)
        name = self.blueprint.name
        device = self.device or DEVICES.get(name)
        if device is None:
            known = ", ".join(each for each in DEVICES if each in MACHINES)
            raise InputError(f"--topology {name}: give its GPU as --device, or take one of {known}")
        count, cut = (1, Cut()) if self.plan == "auto" else parse_workers("--plan", self.plan)
        if count > 1 and self.prefill is None:
            self.refuse(("plan",), ": several workers go with --prefill, or take --gpus")
        about = device, self.engine, self.precision, cut, self.accepted
        return Deployment(entry.name or self.model, entry.shape, *about)

    def _machine(self, gpus: int) -> Topology:
        """That of an instance; no machine has a single rank."""
        return self.blueprint.build(max(gpus, 2))

    @cached_property
    def _gpus(self) -> int | None:
        if self.p is None:
            return None
        gpus = self._whole("gpus", self.p)
        if gpus < 1:
            raise InputError("--gpus 0: 1 or more")
        self._check_size(gpus)
        return gpus

    def _whole(self, name: str, text: str) -> int:
        with naming(f"--{name}"):
            return parse_whole(text)

    @property
    def _concurrency(self) -> list[int]:
        text = CONCURRENCY if self.concurrency is None else self.concurrency
        counts = parse_counts(text)
        if min(counts) < 1:
            raise InputError(f"--concurrency {text}: 1 sequence or more")
        return counts

    def _tokens(self, name: str) -> int:
        text = getattr(self, name)
        value = self._whole(name, text)
        if not LEAST[name] <= value <= LONGEST:
            raise InputError(f"--{name} {text[:40]}: {LEAST[name]} to {LONGEST} tokens")
        return value

    def _limit(self, name: str) -> float:
        text = getattr(self, name)
        with naming(f"--{name}"):
            limit = float("inf") if text is None else parse_seconds(text)
        if limit <= 0:
            raise InputError(f"--{name} {text}: more than 0s")
        return limit

    def _factors(
        self, deployment: Deployment, at: Callable[[Load], Point]
    ) -> tuple[Factor, Factor]:
        from experiments.serving.operating_point import Factor

        if self.measured is None:
            return Factor(), Factor()
        from experiments.serving.measured_points import factors, read_points

        points, queued = read_points(self.measured), self.prefill is not None
        corrections = factors(deployment, at, points, queued=queued)
        tpot, ttft = (f"{factor.expected:.3g}" for factor in corrections)
        output.note(
            f"{self.measured}: TPOT takes {tpot} times, and TTFT {ttft} times what simctl predicts"
        )
        return corrections

    def _record(self, served: Served) -> output.Record:
        point, deployment = served.point, served.deployment
        load, tokens = point.load, point.tokens
        return {
            "plan": self.plan if served.workers else str(deployment.cut) or "tp=1",
            "prefill": self.prefill,
            "instances": served.instances,
            "gpus": served.instances * served.gpus,
            "concurrency": load.concurrency,
            "ttft_s": point.ttft.expected,
            "ttft_low_s": point.ttft.low,
            "ttft_high_s": point.ttft.high,
            "tpot_s": point.tpot.expected,
            "tpot_low_s": point.tpot.low,
            "tpot_high_s": point.tpot.high,
            "tokens_per_s": served.instances * tokens.expected,
            "tokens_per_s_low": served.instances * tokens.low,
            "tokens_per_s_high": served.instances * tokens.high,
            "requests_per_s": served.instances * tokens.expected / load.osl,
            "tokens_per_s_gpu": served.tokens,
            "tokens_per_s_gpu_low": tokens.low / served.gpus,
            "tokens_per_s_gpu_high": tokens.high / served.gpus,
            "less": 1 - served.tokens / max(each.tokens for each in self._served),
            "tokens_per_s_user": 1 / point.tpot.expected,
            "in_flight": point.sequences,
            "fits": point.fits,
            "limit": point.limit,
            "full": point.sequences < load.concurrency,
            "prefilling": point.prefilling,
            "busy": point.busy,
            "kv_cache_sent_s": served.workers.sent if served.workers else 0.0,
            "weights_B": deployment.weights,
            "kv_cache_B": point.sequences
            / served.decoders
            / deployment.cut.dp
            * deployment.stage_share
            * deployment.kv_bytes(load.isl + load.osl),
            **{f"token_{name}_s": seconds for name, seconds in point.parts.items()},
            **{f"prefill_{name}_s": seconds for name, seconds in point.first.items()},
        }

    @property
    def _where(self) -> str:
        return f"{self.blueprint.text}" + (f" of {self.device}" if self.device else "")

    @property
    def _drawn(self) -> tuple[str, dict[str, Sequence[tuple[float, float]]], float]:
        """The arguments of the picture."""
        served = self._served
        curves = {str(each.deployment.cut) or "tp=1": each.curve for each in served}
        if self.plan != "auto":
            curves = {self.plan: [(1 / each.point.tpot.expected, each.tokens) for each in served]}
        about = self._deployment
        title = f"{about.model} in {about.precision} by {about.engine} on {self._where}"
        return title, curves, 1 / self._limit("tpot")

    def _draw(self, served: Served) -> None:
        """Draw a decode of a point."""
        from experiments.pictures.timelines.step_spans import step_spans
        from experiments.serving.operating_point import iteration
        from simulator.parallel.step_splits import ranks_of

        deployment = served.deployment
        machine = self._machine(deployment.cut.gpus)
        step = iteration(deployment, machine, served.point, served.decoders)
        sequences = served.point.sequences * served.point.decoding / served.decoders
        title = f"A decode of {sequences:.0f} sequences of {deployment.model}"
        assert self.timeline
        about = title, deployment.device, self.parameters, ALL
        write_timeline(self.timeline, lambda: step_spans(step), lambda: ranks_of(step), *about)

    def _report(self, rows: Sequence[output.Record]) -> dict[str, object]:
        first = self._deployment
        return {
            "model": first.model,
            "device": first.device,
            "machine": self._where,
            "engine": first.engine,
            "precision": first.precision,
            "isl": int(self.isl),
            "osl": int(self.osl),
            "level": self.level,
            "unchecked": first.cut.pp > 1 or first.cut.mtp > 0,
            "workers": self.prefill is not None,
            "auto": self.plan == "auto",
            "points": [dict(row) for row in rows],
        }
