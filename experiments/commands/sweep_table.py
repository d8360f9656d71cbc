"""The table that `simctl sweep` prints: csv and json carry every field in SI units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from experiments.output import Cell, Record
from experiments.streaming import Column
from simulator.collectives import Algorithm
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

TIME, RATIO, BANDWIDTH, BYTES = (
    len(widest) for widest in ("999.9ms", "999.999", "999.9GB/s", "3.8125GiB")
)


def columns(
    algorithms: Sequence[Algorithm], ranks: Sequence[int], sizes: Sequence[float], profiled: bool
) -> dict[str, Column]:
    """The columns with their widths, which hold every row to come."""
    binary, most = in_binary(sizes), max(ranks)
    steps = max(algorithm.cost.steps(p) for algorithm in algorithms for p in ranks)
    widest = {
        "algorithm": max(len(algorithm.name) for algorithm in algorithms),
        "size": max(len(format_bytes(size, binary)) for size in sizes),
        "bound": len(f"cut of {most // 2} of {most} ranks"),
    }
    found = {
        "algorithm": Column(lambda row: str(row["algorithm"]), widest["algorithm"], words=True),
        "p": Column(lambda row: str(row["ranks"]), len(str(most))),
        "size": Column(_bytes("size_B", binary), widest["size"]),
        "time": Column(_seconds("time_s"), TIME),
        "formula": Column(_seconds("formula_s"), TIME),
        "differ": Column(_differ),
        "/bound": Column(lambda row: f"{_number(row, 'over_bound'):.3f}", RATIO),
        "bound": Column(lambda row: str(row["bound"]), widest["bound"], words=True),
        "algbw": Column(_bandwidth("algbw_Bps"), BANDWIDTH),
        "busbw": Column(_bandwidth("busbw_Bps"), BANDWIDTH),
        "steps": Column(lambda row: str(row["steps"]), len(str(steps))),
        "bytes": Column(_bytes("volume_B", binary), BYTES),
        "formula ": Column(_bytes("volume_formula_B", binary), BYTES),
        "peak": Column(_bytes("peak_B", binary), BYTES),
        "formula  ": Column(_bytes("peak_formula_B", binary), BYTES),
        "redundant": Column(_bytes("redundant_B", binary), BYTES),
        "formula   ": Column(_bytes("redundant_formula_B", binary), BYTES),
    }
    if profiled:
        found["protocol"] = Column(lambda row: str(row["protocol"]), words=True)
    return found | {"verdict": Column(lambda row: str(row["verdict"]), words=True)}


def _number(record: Record, key: str) -> float:
    return float(cast(float, record[key]))


def _bytes(key: str, binary: bool) -> Cell:
    return lambda record: format_bytes(_number(record, key), binary)


def _seconds(key: str) -> Cell:
    return lambda record: format_seconds(_number(record, key))


def _bandwidth(key: str) -> Cell:
    return lambda record: format_bandwidth(_number(record, key))


def _differ(record: Record) -> str:
    """From the formula, where it is claimed."""
    if str(record["verdict"]).startswith("not claimed"):
        return "-"
    return (
        f"{_number(record, 'difference'):+.2%}"
        if abs(_number(record, "difference")) > 1e-9
        else "0"
    )
