"""The table that `simctl sweep` prints: csv and json carry every field in SI units."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.simulations.sweep import Row
from experiments.streaming import Column
from simulator.collectives import Algorithm
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

TIME, RATIO, BANDWIDTH, BYTES = (
    len(widest) for widest in ("999.9ms", "999.999", "999.9GB/s", "3.8125GiB")
)


def columns(
    algorithms: Sequence[Algorithm], ranks: Sequence[int], sizes: Sequence[float], profiled: bool
) -> dict[str, Column[Row]]:
    """The columns with their widths, which hold every row to come."""
    binary, most = in_binary(sizes), max(ranks)
    steps = max(algorithm.cost.steps(p) for algorithm in algorithms for p in ranks)
    widest = {
        "algorithm": max(len(algorithm.name) for algorithm in algorithms),
        "size": max(len(format_bytes(size, binary)) for size in sizes),
        "bound": len(f"cut of {most // 2} of {most} ranks"),
    }
    found: dict[str, Column[Row]] = {
        "algorithm": Column(lambda row: row.algorithm, widest["algorithm"], words=True),
        "p": Column(lambda row: str(row.ranks), len(str(most))),
        "size": Column(lambda row: format_bytes(row.size_B, binary), widest["size"]),
        "time": Column(lambda row: format_seconds(row.time_s), TIME),
        "formula": Column(lambda row: format_seconds(row.formula_s), TIME),
        "differ": Column(_difference),
        "/bound": Column(lambda row: f"{row.over_bound:.3f}", RATIO),
        "bound": Column(lambda row: row.bound, widest["bound"], words=True),
        "algbw": Column(lambda row: format_bandwidth(row.algbw_Bps), BANDWIDTH),
        "busbw": Column(lambda row: format_bandwidth(row.busbw_Bps), BANDWIDTH),
        "steps": Column(lambda row: str(row.steps), len(str(steps))),
        "bytes": Column(lambda row: format_bytes(row.volume_B, binary), BYTES),
        "formula ": Column(lambda row: format_bytes(row.volume_formula_B, binary), BYTES),
        "peak": Column(lambda row: format_bytes(row.peak_B, binary), BYTES),
        "formula  ": Column(lambda row: format_bytes(row.peak_formula_B, binary), BYTES),
        "redundant": Column(lambda row: format_bytes(row.redundant_B, binary), BYTES),
        "formula   ": Column(lambda row: format_bytes(row.redundant_formula_B, binary), BYTES),
    }
    if profiled:
        found["protocol"] = Column(lambda row: row.protocol, words=True)
    return found | {"verdict": Column(lambda row: str(row.verdict), words=True)}


def _difference(row: Row) -> str:
    """The difference from the formula, where the formula is claimed."""
    if not row.verdict.claimed:
        return "-"
    return f"{row.difference:+.2%}" if abs(row.difference) > 1e-9 else "0"
