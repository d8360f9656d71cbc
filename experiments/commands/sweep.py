"""`simctl sweep`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import cast

from experiments import output
from experiments.commands.machine import Machine, ignored
from experiments.output import Record
from experiments.sweep import sweep
from simulator.collectives import Algorithm, find
from simulator.profile import Profile
from topologies.errors import InputError
from topologies.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_counts,
    parse_sizes,
)

FIGURES = (".png", ".svg", ".pdf")
MOST_RANKS = 131_072


def run(
    algo: str,
    p: str,
    size: str,
    machine: Machine,
    engine: str,
    out: Path | None,
    plot: Path | None,
    metric: str,
    how: str,
    profile: Profile | None = None,
) -> int:
    """Print the sweep; 1 if a check failed."""
    algorithms = parse_algorithms(algo)
    ranks, sizes = parse_ranks(p), parse_sizes(size)
    machine(ranks[0])
    rules = machine.rules(engine)
    output.check_writable(out)
    output.check_writable(out and output.meta_of(out))
    output.check_writable(plot, FIGURES)
    if out and plot and out.resolve() == plot.resolve():
        raise InputError(f"--out and --plot are both {str(out)!r}: name two files")
    progress = output.Progress("numbers of ranks simulated")
    skipped: list[str] = []
    rows = list(sweep(algorithms, ranks, sizes, machine, rules, progress, skipped.append, profile))
    if not rows:
        raise InputError(skipped[0])
    for line in (*(f"skipped {line}" for line in skipped), *ignored(profile, algorithms, ranks)):
        output.note(line)
    if out:
        parameters: dict[str, output.Value] = {"algo": algo, "p": p, "size": size, "engine": engine, "proof_seed": 0}
        parameters |= {"profile": profile.name} if profile else {}
        made = output.provenance(**machine.parameters, **parameters)
        output.write_table(out, [asdict(row) for row in rows], made)
    if plot:
        from experiments import figures

        output.write(plot, figures.sweep_figure(rows, metric, plot.suffix[1:]))
    cells = CELLS | ({"protocol": lambda row: str(row["protocol"])} if profile else {})
    output.say(output.render([asdict(row) for row in rows], cells, how))
    failed = [row for row in rows if row.failed]
    if failed:
        share = f"{len(failed)} of {output.counted(len(rows), 'point')}"
        output.note(f"{share} failed a check: this is a bug in simctl, please report it")
    return 1 if failed else 0


def parse_algorithms(text: str) -> list[Algorithm]:
    """Algorithms by name, comma-separated."""
    return [find(name.strip()) for name in dict.fromkeys(text.split(","))]


def parse_ranks(text: str) -> list[int]:
    """Numbers of ranks, each at least 2."""
    ranks = parse_counts(text)
    if min(ranks) < 2:
        raise InputError(f"--p {text}: ranks must be at least 2, got {min(ranks)}")
    if max(ranks) > MOST_RANKS:
        raise InputError(f"--p {text}: at most {MOST_RANKS} ranks, got {max(ranks)}")
    return ranks


def _number(record: Record, key: str) -> float:
    return float(cast(float, record[key]))


def _differ(record: Record) -> str:
    """From the formula, where it is claimed."""
    if str(record["verdict"]).startswith("not claimed"):
        return "-"
    return f"{_number(record, 'difference'):+.2%}" if abs(_number(record, "difference")) > 1e-9 else "0"


CELLS = {
    "algorithm": lambda row: str(row["algorithm"]),
    "p": lambda row: str(row["ranks"]),
    "size": lambda row: format_bytes(_number(row, "size_B")),
    "time": lambda row: format_seconds(_number(row, "time_s")),
    "formula": lambda row: format_seconds(_number(row, "formula_s")),
    "differ": lambda row: _differ(row),
    "/bound": lambda row: f"{_number(row, 'over_bound'):.3f}",
    "bound": lambda row: str(row["bound"]),
    "algbw": lambda row: format_bandwidth(_number(row, "algbw_Bps")),
    "busbw": lambda row: format_bandwidth(_number(row, "busbw_Bps")),
    "steps": lambda row: str(row["steps"]),
    "bytes": lambda row: format_bytes(_number(row, "volume_B")),
    "formula ": lambda row: format_bytes(_number(row, "volume_formula_B")),
    "peak": lambda row: format_bytes(_number(row, "peak_B")),
    "formula  ": lambda row: format_bytes(_number(row, "peak_formula_B")),
    "redundant": lambda row: format_bytes(_number(row, "redundant_B")),
    "formula   ": lambda row: format_bytes(_number(row, "redundant_formula_B")),
    "verdict": lambda row: str(row["verdict"]),
}
"""The columns of the printed table; csv and json carry every field in SI units."""
