"""`simctl train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from experiments import output
from experiments.commands.machine import Machine
from experiments.models import catalogue
from experiments.output import Cell, Record
from experiments.training import conditions, strategies
from experiments.training.job import CHANGES, Job, Run
from experiments.training.strategies import shown
from simulator.critical_path import PARTS, parts
from simulator.memory import Memory
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds, parse_counts

PICTURES = (".png", ".svg", ".pdf")
TIMELINES = (*PICTURES, ".json")
MOST_WORKERS = 16_384
POINTS = 1000
"""Points in time of which the memory is told in JSON."""
WORDS = 3
"""Lines on what was chosen that are shown."""


@dataclass(frozen=True)
class Request:
    """The options as text; see `simctl train --help`."""

    model: str
    strategy: str
    machine: Machine
    p: str | None = None
    bucket: str | None = None
    steps: int = 1
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
        if self.bucket is not None:
            strategy = strategies.with_option(strategy, name, "bucket", self.bucket)
        return Job(
            catalogue.find(self.model),
            name,
            strategy,
            self.machine,
            self.machine.rules(self.engine),
            self.steps,
            conditions.parse(self.straggler, self.noise, self.fail, self.batches, self.seed),
            conditions.slow_links(self.slow_link),
        )

    def ranks(self, job: Job) -> list[int]:
        """Numbers of workers: by default all GPUs of the machine, 8 of a shape."""
        if self.p is None:
            return [_all_of(self.machine, job)]
        ranks = parse_counts(self.p)
        if not 1 <= min(ranks) <= max(ranks) <= MOST_WORKERS:
            raise InputError(f"--p {self.p}: 1 to {MOST_WORKERS} workers, not {min(ranks)} to {max(ranks)}")
        return ranks

    def variants(self, job: Job) -> list[tuple[str, Job]]:
        """The job with each value of `--sweep`, and that value."""
        if self.sweep is None:
            return [("", job)]
        key, equals, text = self.sweep.partition("=")
        if not equals or not text:
            raise InputError(
                f"--sweep {self.sweep[:60]!r}: write an option and its values, like bucket=1MiB..200MiB:x2"
            )
        known = catalogue.MODELS.get(self.model.partition(":")[0])
        if key not in strategies.options_of(job.strategy) and known and key in known.options:
            joint = "," if ":" in self.model else ":"
            models = {value: catalogue.find(f"{self.model}{joint}{key}={value}") for value in _listed(text)}
            return [(value, replace(job, model=model)) for value, model in models.items()]
        changed = {
            value: strategies.with_option(job.strategy, job.name, key, value)
            for value in strategies.values(job.strategy, job.name, key, text)
        }
        if not changed:
            raise InputError(f"--sweep {self.sweep[:60]!r}: there is no value")
        return [(value, replace(job, strategy=strategy)) for value, strategy in changed.items()]

    @property
    def parameters(self) -> dict[str, output.Value]:
        """What a result is stored with."""
        return {**{k: v for k, v in vars(self).items() if k != "machine"}, **self.machine.parameters}


def _listed(text: str) -> list[str]:
    if ".." in text:
        return [str(count) for count in parse_counts(text)]
    return [part.strip() for part in text.split(",") if part.strip()]


def _all_of(machine: Machine, job: Job) -> int:
    if machine.blueprint.kind == "shape":
        return 8
    apart = job.strategy.servers(1) if getattr(job.strategy, "server_kind", None) == "gpu" else 0
    return max(1, machine.blueprint.whole().ranks - apart)


def run(request: Request, timeline: Path | None, out: Path | None, plot: Path | None, how: str) -> int:
    """Print one run in full, or a table of several; 1 if a check failed."""
    for path, suffixes in ((timeline, TIMELINES), (out, ()), (out and _meta(out), ()), (plot, PICTURES)):
        output.check_writable(path, suffixes)
    job = request.job()
    ranks, variants = request.ranks(job), request.variants(job)
    if len(ranks) == 1 and len(variants) == 1:
        return _one(request, job, ranks[0], timeline, out, plot, how)
    if timeline:
        raise InputError(
            f"--timeline {timeline}: of one run, not of {len(ranks) * len(variants)}: leave out --sweep, or one --p"
        )
    return _several(request, variants, ranks, out, plot, how)


def _one(
    request: Request, job: Job, ranks: int, timeline: Path | None, out: Path | None, plot: Path | None, how: str
) -> int:
    if plot:
        raise InputError(f"--plot {plot}: of several runs: give --p or --sweep several values, or take --timeline")
    progress = output.Progress("simulated, measured, explained")
    progress(0, 3)
    found = job.run(ranks)
    progress(1, 3)
    record = asdict(found.row)
    progress(2, 3)
    if timeline:
        output.write(timeline, _picture(found, timeline, request))
    what_if = found.what_if()
    progress(3, 3)
    if out:
        _store(out, [record], request)
    if how == "csv":
        output.say(output.to_csv([record]).rstrip("\n"))
    elif how == "json":
        output.say(output.to_json(_report(found, record, what_if)))
    else:
        output.say(_text(found, what_if))
    return _verdict([found])


def _verdict(runs: list[Run]) -> int:
    wrong = [found for found in runs if found.wrong]
    for found in wrong:
        output.note(f"{found.title}: {found.wrong}: this is a bug in simctl, please report it")
    return 1 if wrong else 0


def _picture(found: Run, path: Path, request: Request) -> bytes | str:
    if path.suffix.lower() == ".json":
        from experiments.timelines.chrome_trace import chrome_trace

        return chrome_trace(found.plan, found.timeline, dict(request.parameters), found.memory)
    from experiments.timelines.gantt import step_figure

    return step_figure(found.plan, found.timeline, found.title, path.suffix[1:].lower())


def _store(out: Path, records: list[dict[str, output.Value]], request: Request) -> None:
    output.write(out, output.to_csv(records))
    output.write(_meta(out), output.provenance(**request.parameters))


def _meta(out: Path) -> Path:
    return out.with_name(f"{out.name}.meta.json")


def _several(
    request: Request, variants: list[tuple[str, Job]], ranks: list[int], out: Path | None, plot: Path | None, how: str
) -> int:
    progress = output.Progress("runs simulated")
    records: list[dict[str, output.Value]] = []
    runs: list[Run] = []
    swept = request.sweep.partition("=")[0] if request.sweep else ""
    total = len(variants) * len(ranks)
    for done, ((value, job), p) in enumerate(product(variants, ranks)):
        progress(done, total)
        found = job.run(p)
        record: dict[str, output.Value] = {swept: value} if swept else {}
        record |= asdict(found.row)
        if not swept:
            for name, (first_order, simulated) in found.what_if().items():
                record |= {f"{COLUMNS[name]}_first_order_s": first_order, f"{COLUMNS[name]}_s": simulated}
        if found.wrong:
            runs.append(found)
        records.append(record)
    progress(total, total)
    if out:
        _store(out, records, request)
    if plot:
        from experiments.training.figures import scaling_figure, swept_figure

        kind = plot.suffix[1:].lower()
        output.write(plot, swept_figure(records, swept, kind) if swept else scaling_figure(records, kind))
    output.say(output.render(records, _cells(swept, how, request), how))
    return _verdict(runs)


COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))


def _rate(samples: float) -> str:
    return f"{samples:.0f}" if samples >= 1000 else f"{samples:.4g}"


def _memory(nbytes: output.Value) -> str:
    return "-" if nbytes is None else format_bytes(float(nbytes))


def _seconds(key: str) -> Cell:
    return lambda record: format_seconds(float(record[key] or 0.0))


def _share(key: str) -> Cell:
    return lambda record: f"{float(record[key] or 0.0) / (float(record['step_s'] or 0.0) or 1.0):.1%}"


def _cells(swept: str, how: str, request: Request) -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {}
    if swept:
        cells[swept] = lambda record: shown(str(record[swept]))
    cells |= {
        "p": lambda record: str(record["ranks"]),
        "step": _seconds("step_s"),
        "samples/s": lambda record: _rate(float(record["samples_per_s"] or 0.0)),
        "efficiency": lambda record: f"{float(record['efficiency'] or 0.0):.1%}",
        "exposed": _seconds("exposed_s"),
        "hidden": _seconds("hidden_s"),
        "transfer": _share("transfer_s"),
        "queue": _share("queue_s"),
        "slower peer": _share("slower_peer_s"),
        "drain": _share("drain_s"),
        "sent": lambda record: format_bytes(float(record["volume_B"] or 0.0)),
        "peak": lambda record: _memory(record["peak_B"]),
    }
    if request.strategy.partition(":")[0] in ("asgd", "ssp"):
        cells["staleness"] = lambda record: f"{float(record['staleness'] or 0.0):.2f}"
    if not swept:
        for name, heading in zip(COLUMNS.values(), ("2β", "α/2", "2x compute"), strict=True):
            cells[heading] = _what_if_cell(name)
    return cells


def _what_if_cell(name: str) -> Cell:
    def cell(record: Record) -> str:
        first, simulated = (float(record[f"{name}{kind}"] or 0.0) for kind in ("_first_order_s", "_s"))
        return f"{format_seconds(simulated)} ({format_seconds(first)})"

    return cell


def _report(found: Run, record: Mapping[str, output.Value], what_if: Mapping[str, tuple[float, float]]) -> object:
    measures = found.measures
    return {
        "summary": record,
        "steps_s": measures.steps.tolist(),
        "critical_path_s": parts(found.path),
        "critical_path_by_phase_s": found.by_phase(),
        "what_if_s": {name: {"first_order": a, "simulated": b} for name, (a, b) in what_if.items()},
        "ranks": [
            {
                "rank": rank,
                "computing_s": float(measures.computing[rank]),
                "exposed_s": float(measures.exposed[rank]),
                "hidden_s": float(measures.hidden[rank]),
                "bubble_s": dict(zip(CAUSE_KEYS, measures.bubbles.seconds[rank].tolist(), strict=True)),
            }
            for rank in range(found.ranks)
        ],
        "memory": None if found.memory is None else _over_time(found.memory, found.timeline.schedule.ranks),
        "staleness": measures.staleness.tolist(),
        "chosen": list(found.plan.words),
        "model_source": found.plan.model.source,
    }


def _over_time(memory: Memory, ranks: int) -> object:
    """All ranks together, and each; of many steps about a thousand."""
    every = slice(None, None, max(1, len(memory.times) // POINTS))
    return {
        "times_s": memory.times[every].tolist(),
        "resident_B": memory.resident[every].tolist(),
        "redundant_B": memory.redundant[every].tolist(),
        "ranks": [
            {
                "rank": rank,
                "peak_B": float(memory.peaks[rank]),
                "times_s": times[:: max(1, len(times) // POINTS)].tolist(),
                "resident_B": nbytes[:: max(1, len(times) // POINTS)].tolist(),
            }
            for rank in range(ranks)
            for times, nbytes in [memory.of(rank)]
        ],
    }


CAUSE_KEYS = ("transfer", "queue", "slower_peer", "drain")


def _text(found: Run, what_if: Mapping[str, tuple[float, float]]) -> str:
    row = found.row
    blocks = [
        f"{found.title}: {format_seconds(row.step_s)} a step",
        output.align(_summary(found)),
        "bubbles: why devices wait, of a step\n" + output.align(_bubbles(found)),
        "where the time goes (the critical path)\n" + output.align(_path(found)),
        "what would help\n" + output.align(_helping(found, what_if)),
    ]
    chosen = found.plan.words
    more = [f"... {len(chosen)} lines, all with --format json"] if len(chosen) > WORDS else []
    words = [*chosen[:WORDS], *more, f"model: {found.plan.model.source}"]
    blocks.insert(1, "\n".join(f"  {line}" for line in words))
    return "\n\n".join(blocks)


def _summary(found: Run) -> list[list[str]]:
    row, steps = found.row, found.measures.steps
    talked = row.exposed_s + row.hidden_s
    lines = [
        ["  step", format_seconds(row.step_s), _spread(found)],
        ["  samples/s", _rate(row.samples_per_s), f"{row.efficiency:.1%} of {row.ranks} times one worker alone"],
        ["  computing", format_seconds(row.computing_s), f"{row.computing_s / (row.step_s or 1.0):.1%} of the step"],
        [
            "  communicating",
            format_seconds(talked),
            f"{format_seconds(row.hidden_s)} hidden, {format_seconds(row.exposed_s)} exposed",
        ],
        ["  sent", format_bytes(row.volume_B), "all ranks, a step"],
        ["  peak memory", _memory(row.peak_B), "the fullest rank"],
        ["  redundant", _memory(row.redundant_B), "all ranks together, at the worst moment"],
    ]
    if len(found.measures.staleness):
        lines.append(["  staleness", f"{row.staleness:.2f}", _stale(found)])
    lines.append(["  verdict", "ok" if not found.wrong else f"FAIL: {found.wrong}", found.proof])
    return lines if len(steps) else lines[1:]


def _spread(found: Run) -> str:
    steps = found.measures.steps
    if len(steps) == 1:
        return ""
    return f"mean of {len(steps)}; {format_seconds(steps.min())} to {format_seconds(steps.max())}"


def _stale(found: Run) -> str:
    import numpy as np

    staleness = found.measures.staleness
    low, middle, high = (int(np.quantile(staleness, q, method="nearest")) for q in (0.1, 0.5, 0.9))
    return f"updates, mean; 10% {low}, median {middle}, 90% {high}, most {staleness.max()}"


def _bubbles(found: Run) -> list[list[str]]:
    steps, total = found.plan.steps, float(found.measures.steps.sum()) or 1.0
    seconds = found.measures.bubbles.seconds
    worst = int(seconds.sum(axis=1).argmax())
    lines = [["", "mean", "", f"worst: rank {worst}", ""]]
    for cause, key in enumerate(("transfer", "queue", "slower peer", "drain")):
        mean, most = float(seconds[:, cause].mean()), float(seconds[worst, cause])
        lines.append(
            [
                f"  {key}",
                format_seconds(mean / steps),
                f"{mean / total:.1%}",
                format_seconds(most / steps),
                f"{most / total:.1%}",
            ]
        )
    mean, most = float(seconds.sum(axis=1).mean()), float(seconds[worst].sum())
    lines.append(
        [
            "  in all",
            format_seconds(mean / steps),
            f"{mean / total:.1%}",
            format_seconds(most / steps),
            f"{most / total:.1%}",
        ]
    )
    return lines


def _path(found: Run) -> list[list[str]]:
    total = found.timeline.makespan or 1.0
    steps = found.plan.steps
    by_part = {part: seconds for part, seconds in parts(found.path).items() if seconds > 0 and part != "compute"}
    by_phase = {f"compute: {phase}": seconds for phase, seconds in found.by_phase().items() if seconds > 0}
    together = {**by_phase, **{part: by_part[part] for part in PARTS if part in by_part}}
    return [[f"  {name}", format_seconds(s / steps), f"{s / total:.1%}"] for name, s in together.items()]


def _helping(found: Run, what_if: Mapping[str, tuple[float, float]]) -> list[list[str]]:
    now = found.timeline.makespan / found.plan.steps
    lines = [["", "a step", "saves", "to first order"]]
    for name, (first_order, simulated) in what_if.items():
        saved = f"{1 - simulated / (now or 1.0):.1%}"
        lines.append([f"  {name}", format_seconds(simulated), saved, format_seconds(first_order)])
    return lines
