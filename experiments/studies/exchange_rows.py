"""Measured attention, exchanges of experts, collectives and casts, as the source's tables have them
(:mod:`.kernel_rows`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from experiments.models.accelerators import NARROW, accelerator
from experiments.models.kernel_times import nccl_calls as calls
from experiments.models.kernel_times.casts import ENGINE, MOVED
from experiments.models.kernel_times.exchange import USUAL, Exchange, sizes_of
from experiments.models.kernel_times.kernel_model import Key, Sizes
from experiments.studies.kernel_fit import Groups
from experiments.studies.kernel_rows import PRECISIONS, column, device_of, groups_of, read
from experiments.studies.measured_rows import Row, grouped
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import find
from topologies.columns import plain_rows
from topologies.errors import InputError
from topologies.topology import Floats

WIDE = {"bfloat16": 2.0, "fp8": NARROW["fp8_block"], "nvfp4": NARROW["nvfp4"]}
"""Bytes of an element on the wire with its share of a scale; fp8 as in DeepEP."""
HEADS = "heads", "kv_heads", "head_dim", "window"
LENGTHS = "q_len", "batch"
COUNTS = "batch", "heads", "kv_heads"
WIDTHS = "hidden", "experts", "topk"
Value = TypeVar("Value")
NODES = {"a100": "dgx_a100", "h100": "hgx_h100", "h200": "hgx_h200", "b200": "b200"}
"""The machine of each GPU of which collectives in a node are measured."""
GROUPS = 2, 4, 8
LEAST = 2.0**14
"""Bytes of the smallest collectives that tell of a law."""
PASSES = {"computescale": "amax", "scale_matrix": "cast"}


def attention(folder: Path, shape: Sequence[str] = HEADS) -> Groups:
    """The prefills of `attention_context.csv` whose keys and queries have one dtype."""
    path = folder / "attention_context.csv"
    names = {"machine", "framework", "attn_dtype", "kv_dtype", "time_us", *HEADS, *LENGTHS}
    rows = [row for row in read(path, names) if row["attn_dtype"] == row["kv_dtype"]]

    def key_of(row: Row) -> Key:
        return Key(device_of(row), _of(PRECISIONS, row["attn_dtype"], path), row["framework"])

    def sizes(alike: list[Row]) -> Sizes:
        counts = {name: column(alike, name, path) for name in COUNTS}
        length = column(alike, "q_len", path)
        return counts | {
            "head_size": column(alike, "head_dim", path),
            "queries": length,
            "keys": length,
            "window": _windows(alike, path),
            "causal": np.ones(len(alike)),
        }

    return groups_of(path, grouped(rows, key_of), sizes, lambda row: [row[name] for name in shape])


def decodes(folder: Path) -> Groups:
    """The decodes of `attention_generation.csv`."""
    path = folder / "attention_generation.csv"

    def sizes(alike: list[Row]) -> Sizes:
        tokens, size = column(alike, "past_len", path) + 1, column(alike, "head_dim", path)
        seen = np.minimum(_windows(alike, path), tokens)
        counts = {name: column(alike, name, path) for name in COUNTS}
        return counts | {"head_size": size, "elements": 2 * size, "tokens": seen}

    groups = _by_cache(path, {*HEADS})
    return groups_of(path, groups, sizes, lambda row: [row[name] for name in HEADS])


def latent_decodes(folder: Path) -> Groups:
    """Those of latent attention, as DeepSeek-V3 has it, of `mla_kernel.csv`."""
    path = folder / "mla_kernel.csv"

    def sizes(alike: list[Row]) -> Sizes:
        ones = np.ones(len(alike))
        return {
            **{name: column(alike, name, path) for name in ("batch", "heads")},
            **{"kv_heads": ones, "head_size": 544 * ones, "elements": 576 * ones},
            "tokens": column(alike, "past_len", path) + 1,
        }

    groups = {
        key: [row for row in rows if row["op"] == "generation"]
        for key, rows in _by_cache(path, {"op", "heads"}).items()
    }
    return groups_of(path, groups, sizes, lambda row: [row["heads"]])


def _by_cache(path: Path, names: set[str]) -> dict[Key, list[Row]]:
    """The rows by device, precision of the KV cache and engine. An A100 has such caches in 8 bits,
    but no products."""
    rows = read(path, {"machine", "framework", "kv_dtype", "batch", "past_len", "time_us", *names})

    def key_of(row: Row) -> Key:
        return Key(device_of(row), _of(PRECISIONS, row["kv_dtype"], path), row["framework"])

    groups = grouped(rows, key_of)
    return {key: rows for key, rows in groups.items() if key[1] in accelerator(key.device).peak}


def _windows(rows: list[Row], path: Path) -> Floats:
    """Keys that a query sees; very many without a window."""
    every = {"0": "1e9"}
    texts = [{"window": every.get(row["window"], row["window"])} for row in rows]
    return column(texts, "window", path)


def exchanges(folder: Path) -> Groups:
    """The dispatches and combines of `all_to_all_ep.csv`. A combine returns 16 bits whatever was
    sent, unless its name says otherwise. Where all kernels have the same sizes but for the tokens,
    these are left out."""
    path = folder / "all_to_all_ep.csv"
    whole = "ranks", "nodes", "experts", "topk"
    names = {"machine", "library", "phase", "wire_dtype", "sms", "time_us", "tokens_per_rank"}
    rows = read(path, names | {"hidden", *whole})

    def key_of(row: Row) -> Key:
        library, phase = row["library"].removeprefix("trtllm_"), row["phase"]
        if library.startswith("nvlink") and phase == "dispatch":
            phase += f" {_of(PRECISIONS, row['wire_dtype'], path)}"
        return Key(device_of(row), "bf16", f"{library} {phase}")

    def sizes(alike: list[Row]) -> Sizes:
        library = key_of(alike[0]).engine.partition(" ")[0]
        counts = [column(alike, name, path).astype(int).tolist() for name in whole]
        wide = [
            2.0 if row["phase"] == "combine" else _of(WIDE, row["wire_dtype"], path)
            for row in alike
        ]
        usual = [{"sms": row["sms"] or str(USUAL)} for row in alike]
        columns = [
            column(alike, "tokens_per_rank", path).tolist(),
            (column(alike, "hidden", path) * wide).tolist(),
            column(usual, "sms", path).tolist(),
        ]
        exchanges = [
            sizes_of(library, Exchange(*row)) for row in zip(*counts, *columns, strict=True)
        ]
        return {name: np.array([row[name] for row in exchanges], float) for name in exchanges[0]}

    def shape(row: Row) -> list[str]:
        tokens = [row["tokens_per_rank"]] if "nvlink" in row["library"] else []
        return [row[name] for name in WIDTHS] + tokens

    return groups_of(path, grouped(rows, key_of), sizes, shape)


def collectives(folder: Path) -> Groups:
    """The collectives of `nccl.csv` inside nodes with NVLink, of 16 KiB and more, on elements of 16
    bits as in training. All ranks of a size are left out together.

    Raises InputError for a file without any.
    """
    path = folder / "nccl.csv"
    names = {"machine", "library", "collective", "dtype", "ranks", "size_bytes", "time_us"}
    rows = [
        row
        for row in read(path, names | {"suspect"})
        if (row["library"], row["dtype"], row["suspect"]) == ("nccl", "float16", "")
        and device_of(row) in NODES
    ]
    ranks, nbytes = (column(rows, name, path).tolist() for name in ("ranks", "size_bytes"))
    rows = [
        row
        for row, size, length in zip(rows, ranks, nbytes, strict=True)
        if size in GROUPS and length >= LEAST and row["collective"] in calls.ENGINES
    ]
    return _calls(path, rows, "collective", {})


def engine_calls(folder: Path) -> Groups:
    """The all-reduces of `custom_all_reduce.csv` in CUDA graphs, of the same machines and sizes.

    Raises InputError for a file without any.
    """
    path = folder / "custom_all_reduce.csv"
    names = {"machine", "framework", "mode", "ranks", "size_bytes", "time_us"}
    rows = [
        {**row, "collective": "all_reduce"}
        for row in read(path, names)
        if row["mode"] == "graph" and device_of(row) in NODES
    ]
    nbytes = column(rows, "size_bytes", path)
    rows = [row for row, length in zip(rows, nbytes.tolist(), strict=True) if length >= LEAST]
    return _calls(path, rows, "framework", calls.ENGINE_ALGORITHMS)


def _calls(
    path: Path, rows: list[Row], engine: str, algorithms: Mapping[str, Sequence[str]]
) -> Groups:
    """Collectives on simulated links, by device and the column of their engine."""
    if not rows:
        raise InputError(f"{path}: no collective that counts in nodes of {', '.join(NODES)}")
    machines = {device: find(NODES[device]).build(8) for device in {*map(device_of, rows)}}
    times = {
        (device, size): GroupTimes(machine, Degrees(dp=8 // size, tp=size), algorithms)
        for device, machine in machines.items()
        for size in GROUPS
    }

    def sizes(alike: list[Row]) -> Sizes:
        device, collective = device_of(alike[0]), alike[0]["collective"]
        ranks, nbytes = column(alike, "ranks", path), column(alike, "size_bytes", path)
        pairs = plain_rows(ranks.astype(int), nbytes)
        links = [times[device, size].seconds("tp", collective, length) for size, length in pairs]
        return calls.sizes_of(collective, ranks, nbytes, np.array(links))

    def key_of(row: Row) -> Key:
        return Key(device_of(row), calls.PRECISION, row[engine])

    return groups_of(path, grouped(rows, key_of), sizes, lambda row: [row["size_bytes"]])


def casts(folder: Path) -> Groups:
    """The passes of a cast to 8 bits of `quantize.csv`, by the library that has them apart."""
    path = folder / "quantize.csv"
    rows = [
        row
        for row in read(path, {"op", "machine", "framework", "m", "k", "time_us"})
        if row["framework"] == ENGINE
    ]

    def key_of(row: Row) -> Key:
        return Key(device_of(row), "bf16", f"{ENGINE} {_of(PASSES, row['op'], path)}")

    def sizes(alike: list[Row]) -> Sizes:
        moved = MOVED[PASSES[alike[0]["op"]]]
        return {
            "rows": column(alike, "m", path),
            "columns": column(alike, "k", path),
            "width": np.full(len(alike), moved),
        }

    return groups_of(path, grouped(rows, key_of), sizes, lambda row: [row["k"]])


def _of(values: Mapping[str, Value], name: str, path: Path) -> Value:
    if name not in values:
        raise InputError(f"{path}: {name[:40]!r} is none of {', '.join(values)}")
    return values[name]
