"""Measured kernels as the source's tables have them: AIConfigurator (github.com/ai-dynamo/
aiconfigurator, Apache-2.0, commit 095f58a5). Its frameworks are our engines.

A reader adds the columns `device`, `precision` and `engine` to the rows that count, and names their
sizes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from experiments.models.accelerators import NARROW, accelerator
from experiments.models.kernel_times import nccl_calls as calls
from experiments.models.kernel_times.casts import ENGINE, MOVED
from experiments.models.kernel_times.exchange import USUAL, Exchange, sizes_of
from experiments.models.kernel_times.kernel_model import Key
from experiments.models.kernel_times.lookup import EAGER, chip_of
from experiments.shipped_tables import rows_of
from experiments.studies.kernel_fit import Groups, Measured
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import find
from topologies.errors import InputError

PRECISIONS = {"bfloat16": "bf16"} | {name: name for name in ("fp8", "fp8_static", *NARROW)}
"""Our names of the precisions of a table. Others are of weights alone."""
UNPACKED = {"w4a16_mxfp4": "mxfp4"}
"""Those of weights alone."""
WIRE = {"bfloat16": 2.0, "fp8": NARROW["fp8_block"], "nvfp4": NARROW["nvfp4"]}
"""Bytes of an element on the wire with its share of a scale; fp8 as in DeepEP."""
HEADS = ["heads", "kv_heads", "head_dim", "window"]
LENGTHS = ["q_len", "batch"]
COUNTS = ["batch", "heads", "kv_heads"]
NODES = {"a100": "dgx_a100", "h100": "hgx_h100", "h200": "hgx_h200", "b200": "b200"}
"""The machine of each GPU of which collectives in a node are measured."""
GROUPS = 2, 4, 8
LEAST = 2.0**14
"""Bytes of the smallest collectives that tell of a law."""
PASSES = {"computescale": "amax", "scale_matrix": "cast"}


def read(path: Path, columns: set[str]) -> pd.DataFrame:
    """The rows of a table as texts, with the column `device`: our name of the machine. Raises
    InputError, with the file, if it is no table or lacks some of the columns."""
    if not path.is_file():
        raise InputError(f"no file {path}")
    try:
        table = pd.DataFrame(rows_of(path), dtype="str").fillna("")
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV file: {error}") from None
    if missing := columns - {*table}:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
    table.attrs["path"] = path
    return table.assign(device=table["machine"].str.removesuffix("_sxm"))


def numbers(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Columns of positive numbers. Raises InputError with the first wrong text."""
    for name in names:
        for text in table[name].unique():
            if not _positive(text):
                raise InputError(
                    f"{table.attrs['path']}: {name} is {text[:40]!r}: it is a positive number"
                )
    return table[[*names]].astype(float)


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def named(table: pd.DataFrame, name: str, values: Mapping[str, Any]) -> pd.Series[Any]:
    """The values of the texts of a column. Raises InputError for a text without a value."""
    for text in table[name].unique():
        if text not in values:
            path = table.attrs["path"]
            raise InputError(f"{path}: {text[:40]!r} is none of {', '.join(values)}")
    return table[name].map(values)


def groups_of(table: pd.DataFrame, sizes: pd.DataFrame, shape: Sequence[str]) -> Groups:
    """The measured kernels of the rows of a table, by device, precision and engine. Those with the
    same texts of `shape` are left out together."""
    seconds = numbers(table, "time_us")["time_us"] * 1e-6
    texts = table[[*shape]].to_numpy()
    shapes = pd.Series([crc32("/".join(each).encode()) for each in texts], table.index)
    groups = {}
    for _, rows in table.groupby([*Key._fields], sort=False):
        key, of = Key(*rows[[*Key._fields]].iloc[0]), rows.index
        columns = {str(name): size[of].to_numpy(float) for name, size in sizes.items()}
        chip, numbers_of = chip_of(key.device, key.precision), np.array(shapes[of], np.int64)
        groups[key] = Measured(chip, columns, seconds[of].to_numpy(), numbers_of)
    return groups


def rows(path: Path, columns: set[str], precisions: Mapping[str, str]) -> pd.DataFrame:
    """The rows of a table of products in these precisions. vLLM launches products of fp8 in blocks
    one at a time from 0.22 on: none is faster than its host."""
    about = {"machine", "framework", "version", "precision", "time_us"}
    table = read(path, about | columns)
    table = table[table["precision"].isin([*precisions])]
    blocks = (table["framework"] == "vllm") & (table["precision"] == "fp8_block")
    host = np.where(blocks & (table["version"] >= "0.22"), EAGER, "")
    return table.assign(
        precision=table["precision"].map(precisions), engine=table["framework"] + host
    )


def products(folder: Path) -> Groups:
    """The dense products of `gemm.csv`. Those below 16 bits quantise x in the time, but for
    fp8_static."""
    table = rows(folder / "gemm.csv", {*"mnk"}, PRECISIONS)
    wide = table[table["precision"] == "bf16"].assign(engine="cublas")
    table = pd.concat([table, wide], ignore_index=True)
    quantised = table["precision"].isin([*NARROW]).astype(float)
    return groups_of(table, numbers(table, *"mnk").assign(quantised=quantised), ["n", "k"])


def grouped_products(folder: Path, precisions: Mapping[str, str] = PRECISIONS) -> Groups:
    """The layers of experts of `moe.csv`. All layers of a model, and of a cut, are left out
    together. Kernels for the least latency are an engine of their own."""
    cut = ["hidden", "inter", "topk", "experts", "tp", "ep"]
    table = rows(folder / "moe.csv", {"kernel", "tokens", "distribution", *cut}, precisions)
    quick = np.where(table["kernel"].str.contains("min_latency"), "_min_latency", "")
    power = table["distribution"].str.removeprefix("power_law_").replace("balanced", "0")
    sizes = numbers(table, "tokens", *cut).assign(
        ups=np.where(table["kernel"].str.contains("nongated"), 1.0, 2.0), uneven=power.astype(float)
    )
    return groups_of(table.assign(engine=table["engine"] + quick), sizes, cut)


def _attends(table: pd.DataFrame, precision: str) -> pd.DataFrame:
    """The rows of a table of attention, with their precision by a column of dtypes."""
    return table.assign(precision=named(table, precision, PRECISIONS), engine=table["framework"])


def _windows(table: pd.DataFrame) -> pd.Series[float]:
    """Keys that a query sees; very many without a window."""
    return numbers(table.assign(window=table["window"].replace("0", "1e9")), "window")["window"]


def attention(folder: Path, shape: Sequence[str] = HEADS) -> Groups:
    """The prefills of `attention_context.csv` whose keys and queries have one dtype."""
    names = {"machine", "framework", "attn_dtype", "kv_dtype", "time_us", *HEADS, *LENGTHS}
    table = read(folder / "attention_context.csv", names)
    table = _attends(table[table["attn_dtype"] == table["kv_dtype"]], "attn_dtype")
    length = numbers(table, "q_len")["q_len"]
    sizes = numbers(table, *COUNTS).assign(
        head_size=numbers(table, "head_dim")["head_dim"],
        queries=length,
        keys=length,
        window=_windows(table),
        causal=1.0,
    )
    return groups_of(table, sizes, shape)


def _by_cache(path: Path, columns: set[str]) -> pd.DataFrame:
    """The rows of a table of decodes by the precision of the KV cache. An A100 has such caches in 8
    bits, but no products."""
    about = {"machine", "framework", "kv_dtype", "batch", "past_len", "time_us"}
    table = _attends(read(path, about | columns), "kv_dtype")
    pairs = zip(table["device"], table["precision"], strict=True)
    return table[[precision in accelerator(device).peak for device, precision in pairs]]


def decodes(folder: Path) -> Groups:
    """The decodes of `attention_generation.csv`."""
    table = _by_cache(folder / "attention_generation.csv", {*HEADS})
    size = numbers(table, "head_dim")["head_dim"]
    tokens = np.minimum(_windows(table), numbers(table, "past_len")["past_len"] + 1)
    sizes = numbers(table, *COUNTS).assign(head_size=size, elements=2 * size, tokens=tokens)
    return groups_of(table, sizes, HEADS)


def latent_decodes(folder: Path) -> Groups:
    """Those of latent attention, as DeepSeek-V3 has it, of `mla_kernel.csv`."""
    table = _by_cache(folder / "mla_kernel.csv", {"op", "heads"})
    table = table[table["op"] == "generation"]
    tokens = numbers(table, "past_len")["past_len"] + 1
    sizes = numbers(table, "batch", "heads").assign(
        kv_heads=1.0, head_size=544.0, elements=576.0, tokens=tokens
    )
    return groups_of(table, sizes, ["heads"])


def exchanges(folder: Path) -> Groups:
    """The dispatches and combines of `all_to_all_ep.csv`. A combine returns 16 bits whatever was
    sent, unless its name says otherwise. Where all kernels have the same sizes but for the tokens,
    these are left out."""
    counts = ["ranks", "nodes", "experts", "topk"]
    about = {"machine", "library", "phase", "wire_dtype", "sms", "time_us", "tokens_per_rank"}
    table = read(folder / "all_to_all_ep.csv", about | {"hidden", *counts})
    sent = table["wire_dtype"].mask(table["phase"] == "combine", "bfloat16")
    table = table.assign(wire_dtype=sent, sms=table["sms"].replace("", str(USUAL)))
    wire, library = named(table, "wire_dtype", WIRE), table["library"].str.removeprefix("trtllm_")
    even = library.str.startswith("nvlink")
    dtype = np.where(even & (table["phase"] == "dispatch"), " " + sent.map(PRECISIONS), "")
    columns = numbers(table, *counts, "tokens_per_rank", "hidden", "sms")
    columns = columns.astype(dict.fromkeys(counts, int)).assign(hidden=columns["hidden"] * wire)
    sizes = [
        sizes_of(name, Exchange(*values))
        for name, values in zip(library, columns.itertuples(index=False), strict=True)
    ]
    table = table.assign(
        precision="bf16",
        engine=library + " " + table["phase"] + dtype,
        topk=table["topk"] + np.where(even, "/" + table["tokens_per_rank"], ""),
    )
    return groups_of(table, pd.DataFrame(sizes, table.index), ["hidden", "experts", "topk"])


def collectives(folder: Path) -> Groups:
    """The collectives of `nccl.csv` inside nodes with NVLink, of 16 KiB and more, on elements of 16
    bits as in training. All ranks of a size are left out together.

    Raises InputError for a file without any.
    """
    names = {"machine", "library", "collective", "dtype", "ranks", "size_bytes", "time_us"}
    table = read(folder / "nccl.csv", names | {"suspect"})
    known = (table["library"] == "nccl") & (table["dtype"] == "float16") & (table["suspect"] == "")
    table = table[known & table["device"].isin([*NODES])]
    in_group = numbers(table, "ranks")["ranks"].isin(GROUPS)
    return _calls(table[in_group & table["collective"].isin(calls.ENGINES)], "collective", {})


def engine_calls(folder: Path) -> Groups:
    """The all-reduces of `custom_all_reduce.csv` in CUDA graphs, of the same machines and sizes.

    Raises InputError for a file without any.
    """
    names = {"machine", "framework", "mode", "ranks", "size_bytes", "time_us"}
    table = read(folder / "custom_all_reduce.csv", names)
    table = table[(table["mode"] == "graph") & table["device"].isin([*NODES])]
    return _calls(table.assign(collective="all_reduce"), "framework", calls.ENGINE_ALGORITHMS)


def _calls(table: pd.DataFrame, engine: str, algorithms: Mapping[str, Sequence[str]]) -> Groups:
    """Collectives on simulated links, by device and the column of their engine."""
    table = table[numbers(table, "size_bytes")["size_bytes"] >= LEAST]
    if table.empty:
        path = table.attrs["path"]
        raise InputError(f"{path}: no collective that counts in nodes of {', '.join(NODES)}")
    times = {
        (device, size): GroupTimes(machine, Degrees(dp=8 // size, tp=size), algorithms)
        for device in table["device"].unique()
        for machine in [find(NODES[device]).build(8)]
        for size in GROUPS
    }
    columns = numbers(table, "ranks", "size_bytes").astype({"ranks": int})
    sizes = [
        calls.sizes_of(
            collective, ranks, nbytes, times[device, ranks].seconds("tp", collective, nbytes)
        )
        for device, collective, (ranks, nbytes) in zip(
            table["device"], table["collective"], columns.itertuples(index=False), strict=True
        )
    ]
    table = table.assign(precision=calls.PRECISION, engine=table[engine])
    return groups_of(table, pd.DataFrame(sizes, table.index), ["size_bytes"])


def casts(folder: Path) -> Groups:
    """The passes of a cast to 8 bits of `quantize.csv`, by the library that has them apart."""
    table = read(folder / "quantize.csv", {"op", "machine", "framework", "m", "k", "time_us"})
    table = table[table["framework"] == ENGINE]
    passes = named(table, "op", PASSES)
    sizes = numbers(table, "m", "k").set_axis(["rows", "columns"], axis=1)
    table = table.assign(precision="bf16", engine=f"{ENGINE} " + passes)
    return groups_of(table, sizes.assign(width=passes.map(MOVED)), ["k"])
