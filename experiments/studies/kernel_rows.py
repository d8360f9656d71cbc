"""Measured kernels as the source's tables have them: AIConfigurator (github.com/ai-dynamo/
aiconfigurator, Apache-2.0, commit 095f58a5). Its frameworks are our engines."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from experiments.models.accelerators import NARROW
from experiments.models.kernel_times.kernel_model import Key, Sizes
from experiments.models.kernel_times.lookup import EAGER, chip_of
from experiments.shipped_tables import rows_of
from experiments.studies.kernel_fit import Groups, Measured
from experiments.studies.measured_rows import Row, grouped
from topologies.errors import InputError
from topologies.topology import Floats

PRECISIONS = {"bfloat16": "bf16"} | {name: name for name in ("fp8", "fp8_static", *NARROW)}
"""Our names of the precisions of a table. Others are of weights alone."""
UNPACKED = {"w4a16_mxfp4": "mxfp4"}
"""Those of weights alone."""


def read(path: Path, columns: set[str]) -> list[Row]:
    """The rows of a table. Raises InputError, with the file, if it is no table or lacks some of the
    columns."""
    if not path.is_file():
        raise InputError(f"no file {path}")
    try:
        table = rows_of(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV file: {error}") from None
    missing = columns - set(table[0] if table else ())
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
    return table


def rows(path: Path, precisions: Mapping[str, str] = PRECISIONS) -> dict[Key, list[Row]]:
    """The rows of a table in these precisions by device, precision and engine. Raises InputError as
    :func:`read`."""
    table = read(path, {"machine", "framework", "version", "precision", "time_us"})
    return grouped((row for row in table if row["precision"] in precisions), key_of)


def key_of(row: Row) -> Key:
    """What a row is about. vLLM launches products of fp8 in blocks one at a time from 0.22 on: none
    is faster than its host."""
    eager = row["framework"] == "vllm" and row["precision"] == "fp8_block"
    engine = row["framework"] + EAGER * (eager and row["version"] >= "0.22")
    return Key(device_of(row), (PRECISIONS | UNPACKED)[row["precision"]], engine)


def device_of(row: Row) -> str:
    """Our name of its machine."""
    return row["machine"].removesuffix("_sxm")


def column(group: list[Row], name: str, path: Path) -> Floats:
    """A column of positive numbers, shape (rows,). Raises InputError with the wrong one."""
    texts = [row.get(name) or "" for row in group]
    for text in texts:
        if not _positive(text):
            raise InputError(f"{path}: {name} is {text[:40]!r}: it is a positive number")
    return np.array(texts, float)


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def groups_of(
    path: Path,
    rows: Mapping[Key, list[Row]],
    sizes: Callable[[list[Row]], Sizes],
    shape: Callable[[Row], Sequence[str]],
) -> Groups:
    """The measured kernels of rows. Those with the same texts of `shape` are left out together."""
    groups = {}
    for key, alike in rows.items():
        columns, seconds = sizes(alike), column(alike, "time_us", path) * 1e-6
        shapes = np.array([crc32("/".join(shape(row)).encode()) for row in alike])
        chip = chip_of(key.device, key.precision)
        groups[key] = chip, Measured(columns, seconds, shapes)
    return groups


def products(folder: Path) -> Groups:
    """The dense products of `gemm.csv`. Those below 16 bits quantise x in the time, but for
    fp8_static."""
    path = folder / "gemm.csv"
    groups = rows(path)
    for device in {key.device: None for key in groups if key.precision == "bf16"}:
        alike = [group for key, group in groups.items() if key[:2] == (device, "bf16")]
        groups[Key(device, "bf16", "cublas")] = [row for group in alike for row in group]

    def sizes(alike: list[Row]) -> Sizes:
        quantised = np.full(len(alike), float(alike[0]["precision"] in NARROW))
        return {name: column(alike, name, path) for name in "mnk"} | {"quantised": quantised}

    return groups_of(path, groups, sizes, lambda row: [row["n"], row["k"]])


def grouped_products(folder: Path, precisions: Mapping[str, str] = PRECISIONS) -> Groups:
    """The layers of experts of `moe.csv`. All layers of a model, and of a cut, are left out
    together. Kernels for the least latency are an engine of their own."""
    path, cut = folder / "moe.csv", ("hidden", "inter", "topk", "experts", "tp", "ep")

    def sizes(alike: list[Row]) -> Sizes:
        ups = [1.0 if "nongated" in row["kernel"] else 2.0 for row in alike]
        power = [row["distribution"].removeprefix("power_law_") for row in alike]
        return {name: column(alike, name, path) for name in ("tokens", *cut)} | {
            "ups": np.array(ups),
            "uneven": np.array([0.0 if text == "balanced" else float(text) for text in power]),
        }

    return groups_of(
        path, _engines(rows(path, precisions)), sizes, lambda row: [row[name] for name in cut]
    )


def _engines(groups: dict[Key, list[Row]]) -> dict[Key, list[Row]]:
    rows_by_engine = {}
    for key, group in groups.items():
        for quick, alike in grouped(group, lambda row: "min_latency" in row["kernel"]).items():
            rows_by_engine[key._replace(engine=key.engine + "_min_latency" * quick)] = alike
    return rows_by_engine
