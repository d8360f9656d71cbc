"""`simctl train`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path

from experiments import output
from experiments.models import model_catalogue as catalogue
from experiments.models.accelerators import ACCELERATORS, DEVICES
from experiments.simulations.machine import Machine
from experiments.training import condition_options as conditions
from experiments.training import strategy_options as strategies
from experiments.training.job import Job, TrainingRun
from experiments.training.training_report import report, text
from experiments.training.training_table import COLUMNS, cells
from simulator.training import Strategy
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import format_bytes, parse_counts

PICTURES = (".png", ".svg", ".pdf")
TIMELINES = (*PICTURES, ".json")
MOST_WORKERS = 16_384


@dataclass(frozen=True)
class Request:
    """The options as text; see `simctl train --help`."""

    model: str
    strategy: str
    machine: Machine
    p: str | None = None
    bucket: str | None = None
    steps: int | None = None
    sweep: str | None = None
    straggler: str | None = None
    noise: str | None = None
    fail: str | None = None
    batches: str | None = None
    slow_link: str | None = None
    seed: int = 0
    engine: str = "auto"

    def job(self) -> Job:
        """What is to be trained, and how."""
        name, given = self.strategy.partition(":")[0], self.strategy
        strategy = strategies.find(given)
        if self.bucket is not None and "bucket=" in given:
            raise InputError(
                f"--bucket {self.bucket[:40]}: --strategy names a bucket already, leave out one "
                f"of them"
            )
        if self.bucket is not None:
            strategy = strategies.with_option(strategy, name, "bucket", self.bucket)
        return Job(
            catalogue.find(self.model_text),
            name,
            strategy,
            self.machine.blueprint,
            self.machine.rules(self.engine),
            self._steps(strategy),
            conditions.parse(self.straggler, self.noise, self.fail, self.batches, self.seed),
            conditions.slow_links(self.slow_link),
        )

    def ranks(self, job: Job) -> list[int]:
        """Numbers of workers: by default as many as the model has ranks; else all GPUs of the
        machine, 8 of a shape."""
        if self.p is None:
            return [job.model.ranks or _all_of(self.machine.blueprint, job)]
        if not 1 <= min(self.counts) <= max(self.counts) <= MOST_WORKERS:
            raise InputError(f"--p {self.p[:40]}: 1 to {MOST_WORKERS} workers")
        return self.counts

    @cached_property
    def counts(self) -> list[int]:
        """The numbers of workers that --p lists."""
        return parse_counts(self.p or "")

    def variants(self, job: Job) -> list[tuple[str, Job]]:
        """The job with each value of `--sweep`, and that value."""
        if self.sweep is None:
            return [("", job)]
        key, equals, text = self.sweep.partition("=")
        if not equals or not text:
            raise InputError(
                f"--sweep {self.sweep[:60]!r}: write an option and its values, like "
                f"bucket=1MiB..200MiB:x2"
            )
        known = catalogue.MODELS.get(self.model.partition(":")[0])
        if key not in strategies.options_of(job.strategy) and known and key in known.options:
            base = self.model if key == "device" else self.model_text
            joint = "," if ":" in base else ":"
            models = {
                value: catalogue.find(f"{base}{joint}{key}={value}") for value in _listed(text)
            }
            return [(value, replace(job, model=model)) for value, model in models.items()]
        changed = {
            value: strategies.with_option(job.strategy, job.name, key, value)
            for value in strategies.values(job.strategy, job.name, key, text)
        }
        if not changed:
            raise InputError(f"--sweep {self.sweep[:60]!r}: there is no value")
        return [
            (value, replace(job, strategy=strategy, steps=self._steps(strategy)))
            for value, strategy in changed.items()
        ]

    def _steps(self, strategy: Strategy) -> int:
        return self.steps or strategy.usual_steps

    @property
    def model_text(self) -> str:
        """The model, on the machine's devices unless it says itself on which."""
        name, _, options = self.model.partition(":")
        device = DEVICES.get(self.machine.blueprint.name)
        if name not in catalogue.MODELS or device is None or "device=" in options:
            return self.model
        return f"{name}:{options + ',' if options else ''}device={device}"

    @property
    def parameters(self) -> dict[str, output.Value]:
        """What a result is stored with."""
        job = self.job()
        chosen = {"steps": job.steps, "model": self.model_text, "model_source": job.model.source}
        given = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "machine"
        }
        options = {key: getattr(job.strategy, key) for key in strategies.options_of(job.strategy)}
        return {
            **given,
            **chosen,
            "p": ",".join(map(str, self.ranks(job))),
            **options,
            **self.machine.parameters,
        }


def _listed(text: str) -> list[str]:
    if ".." in text:
        return [str(count) for count in parse_counts(text)]
    return [part.strip() for part in text.split(",") if part.strip()]


def _all_of(machine: Blueprint, job: Job) -> int:
    if machine.kind == "shape":
        return machine.whole().ranks - (job.strategy.servers(1) if "dims" in machine.options else 0)
    apart = job.strategy.servers(1) if job.strategy.server_kind == "gpu" else 0
    return max(1, machine.whole().ranks - apart)


def run(
    request: Request, timeline: Path | None, out: Path | None, plot: Path | None, how: str
) -> int:
    """Print one run in full, or a table of several; 1 if a check failed."""
    _check_paths(timeline, out, plot)
    job = request.job()
    ranks, variants = request.ranks(job), request.variants(job)
    if len(ranks) == 1 and len(variants) == 1:
        return _one(request, job, ranks[0], timeline, out, plot, how)
    if timeline:
        raise InputError(
            f"--timeline {timeline}: of one run, not of {len(ranks) * len(variants)}: leave out "
            f"--sweep, or one --p"
        )
    return _several(request, variants, ranks, out, plot, how)


def _check_paths(timeline: Path | None, out: Path | None, plot: Path | None) -> None:
    for path, suffixes in ((timeline, TIMELINES), (out, ()), (plot, PICTURES)):
        output.check_writable(path, suffixes)
    output.check_writable(out and output.meta_of(out))
    files = [path.resolve() for path in (timeline, out, out and output.meta_of(out), plot) if path]
    if len(set(files)) < len(files):
        raise InputError("--timeline, --out and --plot name the same file: name different ones")


def _one(
    request: Request,
    job: Job,
    ranks: int,
    timeline: Path | None,
    out: Path | None,
    plot: Path | None,
    how: str,
) -> int:
    if plot:
        raise InputError(
            f"--plot {plot}: of several runs: give --p or --sweep several values, or take "
            f"--timeline"
        )
    progress = output.Progress("simulated, measured, explained")
    progress(0, 3)
    found = job.run(ranks)
    progress(1, 3)
    record = asdict(found.row)
    progress(2, 3)
    _warn(found)
    if timeline:
        output.write(timeline, _picture(found, timeline, request))
    what_if = found.what_if()
    progress(3, 3)
    if out:
        _store(out, [record], request)
    if how == "csv":
        output.say(output.to_csv([record]).rstrip("\n"))
    elif how == "json":
        output.say(output.to_json(report(found, record, what_if)))
    else:
        output.say(text(found, what_if))
    return _verdict([found])


def _warn(found: TrainingRun) -> None:
    """Say so if a device would have to hold more than it can."""
    device = ACCELERATORS.get(found.plan.model.device)
    if device is None or found.memory is None:
        return
    peak = float(found.memory.peaks[: found.ranks].max())
    if peak > device.memory:
        held, there = (format_bytes(nbytes, binary=False) for nbytes in (peak, device.memory))
        output.note(
            f"the fullest worker holds {held}: more than the {there} of {found.plan.model.device}"
        )


def _verdict(runs: list[TrainingRun]) -> int:
    wrong = [found for found in runs if found.wrong]
    for found in wrong:
        output.note(f"{found.title}: {found.wrong}: this is a bug in simctl, please report it")
    return 1 if wrong else 0


def _picture(found: TrainingRun, path: Path, request: Request) -> bytes | str:
    if path.suffix.lower() == ".json":
        from experiments.pictures.timelines.training_trace import training_trace

        return training_trace(found.plan, found.timeline, dict(request.parameters), found.memory)
    from experiments.pictures.timelines.training_picture import training_figure

    return training_figure(found.plan, found.timeline, found.title, path.suffix[1:].lower())


def _store(out: Path, records: list[dict[str, output.Value]], request: Request) -> None:
    output.write_table(out, records, output.provenance(**request.parameters))


def _several(
    request: Request,
    variants: list[tuple[str, Job]],
    ranks: list[int],
    out: Path | None,
    plot: Path | None,
    how: str,
) -> int:
    progress = output.Progress("runs simulated")
    records: list[dict[str, output.Value]] = []
    runs: list[TrainingRun] = []
    swept = request.sweep.partition("=")[0] if request.sweep else ""
    total = len(variants) * len(ranks)
    for done, ((value, job), p) in enumerate(product(variants, ranks)):
        progress(done, total)
        found = job.run(p)
        record: dict[str, output.Value] = {swept: value} if swept else {}
        record |= asdict(found.row)
        if not swept:
            for name, (first_order, simulated) in found.what_if().items():
                record |= {
                    f"{COLUMNS[name]}_first_order_s": first_order,
                    f"{COLUMNS[name]}_s": simulated,
                }
        if found.wrong:
            runs.append(found)
        records.append(record)
    progress(total, total)
    if out:
        _store(out, records, request)
    if plot:
        from experiments.pictures.training_curves import scaling_figure, swept_figure

        kind = plot.suffix[1:].lower()
        output.write(
            plot, swept_figure(records, swept, kind) if swept else scaling_figure(records, kind)
        )
    output.say(output.render(records, cells(swept, request.strategy.partition(":")[0]), how))
    return _verdict(runs)
