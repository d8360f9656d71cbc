"""Kernels that send tokens to their experts on other ranks, and bring the results back.

Multiprocessors handle each token and each of its copies, and all bytes that they touch. Copies for
other ranks pass NVLink, and copies for other nodes the NIC. The three run beside one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, comb
from typing import NamedTuple

from experiments.models.kernel_times.kernel_model import Chip, Sizes, kind_of, norm
from experiments.models.kernel_times.lookup import model_of
from topologies.topology import Floats

USUAL = 20.0
"""Multiprocessors that the kernel gets from Megatron-LM and DeepEP if the user does not say."""
LOW_LATENCY = 132
"""Multiprocessors that share the experts in the mode of low latency."""


class Exchange(NamedTuple):
    """Tokens that ranks send to experts, or get back."""

    ranks: int
    nodes: int
    """Nodes of the ranks, equally many on each."""
    experts: int
    """Experts of all ranks."""
    top: int
    """Experts of a token."""
    tokens: float
    """Tokens of a rank."""
    nbytes: float
    """Bytes of a token."""
    multiprocessors: float = USUAL
    """Those that the kernel gets."""


def sizes_of(library: str, exchange: Exchange) -> dict[str, float]:
    """The sizes of an exchange for the formula: copies of a token, of which `far` are for other
    ranks of a node and beyond, and `across` for other nodes.

    DeepEP sends a token once to each rank that has some of its experts, and once to each such node,
    if routers choose experts at random. In its mode of low latency it sends a token to each expert;
    warps of the multiprocessors share the experts. TensorRT-LLM's kernels were measured with even
    routing, where a token reaches as many ranks as it can.
    """
    ranks, nodes, experts, top, _, _, multiprocessors = exchange
    if library.startswith("nvlink"):
        copies, across = float(min(ranks, top)), 0.0
    elif library == "deepep_low_latency":
        copies, across = float(top), top * (1 - 1 / nodes)
        multiprocessors = ceil(experts / ceil(experts / LOW_LATENCY))
    else:
        copies = distinct(ranks, experts, top)
        across = distinct(nodes, experts, top) * (1 - 1 / nodes)
    more = {"copies": copies, "far": copies * (1 - 1 / ranks), "across": across}
    return {**exchange._asdict(), **more, "multiprocessors": multiprocessors}


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of exchanges, by the sizes of :func:`sizes_of`, shape (exchanges,)."""
    nbytes, copies = sizes["nbytes"], sizes["copies"]
    touched = (
        values["byte"] + copies * values["copied_byte"] + sizes["across"] * values["node_byte"]
    )
    handled = values["token"] + copies * values["copy"] + nbytes * touched
    handling = sizes["tokens"] * handled * USUAL / sizes["multiprocessors"]
    moved = sizes["tokens"] * nbytes
    link, nic = moved * sizes["far"] * values["link"], moved * sizes["across"] * values["nic"]
    body = norm(1 + values["power"], handling, link, nic)
    start = values["launch"] + values["expert"] * sizes["experts"]
    return norm(1 + values["ramp"], start, body)


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Tokens, bytes of a token's copies, multiprocessors and ranks."""
    copied = sizes["copies"] * sizes["nbytes"]
    return sizes["tokens"], copied, sizes["multiprocessors"], sizes["ranks"]


def distinct(places: int, number: int, chosen: int) -> float:
    """How many of `places` have one of the `chosen` things, on average, if `number` of them are
    shared out evenly.

    >>> round(distinct(8, 256, 8), 2)
    5.29
    """
    rest = number - number // places
    return places * (1 - comb(rest, chosen) / comb(number, chosen))


EXCHANGE = kind_of("exchange", seconds, axes)


@lru_cache(maxsize=1024)
def exchange_seconds(device: str, library: str, phase: str, exchange: Exchange) -> float:
    """Seconds that kernels of a library take on `device` for a phase, such as dispatch.

    >>> tokens = Exchange(8, 1, 256, 8, 4096, 2 * 7168)
    >>> round(exchange_seconds("h100", "deepep_normal", "combine", tokens) * 1e6, -1)
    990.0
    """
    model = model_of(EXCHANGE, device, "bf16", f"{library} {phase}")
    return model.of(**sizes_of(library, exchange)).expected
