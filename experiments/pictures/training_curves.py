"""Pictures of several runs: throughput by number of workers, step time by an option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from experiments.output import Record
from experiments.pictures.figure_file import GREY, to_bytes

WHAT_IF = {"twice_bandwidth_s": "2β", "half_latency_s": "α/2", "twice_compute_s": "2x compute"}


def scaling_figure(records: Sequence[Record], kind: str) -> bytes:
    """Samples per second and efficiency by number of workers; dashed, what twice the machine would
    do."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    p = [_number(record, "ranks") for record in records]
    rate = [_number(record, "samples_per_s") for record in records]
    ideal = rate[0] / p[0] / (_number(records[0], "efficiency") or 1.0)
    upper.plot(p, [ideal * ranks for ranks in p], color=GREY, label="no communication")
    upper.plot(p, rate, "o-", color="C0", label="simulated")
    for number, (column, name) in enumerate(WHAT_IF.items()):
        faster = [
            r * _number(record, "step_s") / _number(record, column)
            for r, record in zip(rate, records, strict=True)
        ]
        upper.plot(p, faster, "--", color=f"C{number + 1}", label=name)
    lower.plot(p, [_number(record, "efficiency") for record in records], "o-", color="C0")
    lower.set_ylim(0, max(1.05, *(_number(record, "efficiency") for record in records)))
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    for axes in (upper, lower):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    upper.set_yscale("log", base=2)
    upper.yaxis.set_major_formatter(EngFormatter(sep="", places=0))
    lower.set_xticks(p, [f"{ranks:g}" for ranks in p])
    lower.minorticks_off()
    upper.set_ylabel("samples/s")
    lower.set_ylabel("efficiency")
    lower.set_xlabel("workers p")
    upper.set_title(_title(records))
    upper.legend(frameon=False)
    return to_bytes(figure, kind)


def swept_figure(
    records: Sequence[Record], swept: str, names: Mapping[str, str], kind: str
) -> bytes:
    """Step time, and what of it is exposed communication, at each value of an option, which `names`
    says how to show; a line a number of workers."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    values = list(dict.fromkeys(str(record[swept]) for record in records))
    for number, p in enumerate(dict.fromkeys(record["ranks"] for record in records)):
        curve = [record for record in records if record["ranks"] == p]
        place = [values.index(str(record[swept])) for record in curve]
        axes.plot(
            place,
            [_number(r, "step_s") for r in curve],
            "o-",
            color=f"C{number}",
            label=f"{p} workers",
        )
        axes.plot(
            place,
            [_number(r, "exposed_s") for r in curve],
            ".--",
            color=f"C{number}",
            label="exposed communication",
        )
    axes.set_xticks(
        range(len(values)),
        [names[value] for value in values],
        rotation=30 if len(values) > 8 else 0,
    )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.set_xlabel(swept)
    axes.set_ylabel("time a step")
    axes.set_title(_title(records))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return to_bytes(figure, kind)


def _title(records: Sequence[Record]) -> str:
    first = records[0]
    return f"{first['model']}, batch {first['batch']} a device, {first['strategy']}"


def _number(record: Record, key: str) -> float:
    return float(record[key] or 0.0)
