"""Recognises the network between nodes in a log or in a description, never by a file's name."""

from __future__ import annotations

import re
from typing import NamedTuple

SLINGSHOT, EFA, INFINIBAND, ROCE, TCP = NETWORKS = ("Slingshot", "EFA", "InfiniBand", "RoCE", "TCP")

_PROVIDERS = {"cxi": SLINGSHOT, "efa": EFA, "verbs": INFINIBAND, "tcp": TCP, "sockets": TCP}
_PROVIDER = re.compile(
    r"(?:[Pp]rovider(?: is |: ?)|FI_PROVIDER(?:=| set by environment to )['\"]?)(\w{1,20})"
)
_EVIDENCE = (
    (SLINGSHOT, re.compile(r"\bFI_CXI_[A-Z]|MPICH Slingshot|\bcxi[0-9]\b")),
    (EFA, re.compile(r"\bFI_EFA_[A-Z]")),
    (ROCE, re.compile(r"NET/IB : Using [^\n]{0,200}/RoCE")),
    (INFINIBAND, re.compile(r"NET/IB : Using|Using network IB|\bNCCL_IB_(?!DISABLE)[A-Z]")),
    (TCP, re.compile(r"NET/Socket : Using|Using network Socket")),
)
_MARKS = ("rovider", "PROVIDER", "FI_", "cxi", "Slingshot", "NET/", "Using network", "NCCL_IB_")
"""What a line contains that may name the network."""
_WORDS = (
    (SLINGSHOT, re.compile(r"slingshot|\bcxi\b", re.IGNORECASE)),
    (EFA, re.compile(r"\bEFA\b")),
    (ROCE, re.compile(r"\bRoCE", re.IGNORECASE)),
    (INFINIBAND, re.compile(r"infiniband|\b[ENHX]DR[0-9]{0,3}\b", re.IGNORECASE)),
    (TCP, re.compile(r"\bTCP\b|\bGbE\b|ethernet", re.IGNORECASE)),
)


def network_of(text: str) -> str:
    """The network of a log: by libfabric's provider, else by variables and NCCL's lines; empty if
    nothing names it.

    >>> network_of("NCCL INFO NET/OFI Selected Provider is cxi (found 4 nics)")
    'Slingshot'
    >>> network_of("FI_CXI_RDZV_GET_MIN=0")
    'Slingshot'
    >>> network_of("NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE")
    'RoCE'
    >>> network_of("cd slingshot/aws-ofi-nccl")
    ''
    """
    # a long log has more such lines than anybody wants to search
    lines = "\n".join(line for line in text.split("\n") if any(mark in line for mark in _MARKS))[
        : 2**20
    ]
    for provider in _PROVIDER.findall(lines):
        if provider in _PROVIDERS:
            return _PROVIDERS[provider]
    return _first(_EVIDENCE, lines)


def network_by_words(words: str) -> str:
    """The network that a description of a machine names; empty if none.

    >>> network_by_words("4x NDR200 InfiniBand per node")
    'InfiniBand'
    >>> network_by_words("Slingshot-11"), network_by_words("NVLink4")
    ('Slingshot', '')
    """
    return _first(_WORDS, words)


def _first(evidence: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> str:
    return next((name for name, pattern in evidence if pattern.search(text)), "")


_GENERATIONS = {
    "EDR": 12.5,
    "HDR100": 12.5,
    "HDR200": 25.0,
    "HDR": 25.0,
    "NDR200": 25.0,
    "NDR": 50.0,
    "XDR": 100.0,
}
"""GB/s of a port of each InfiniBand generation, in one direction."""
_SPEED = re.compile(
    r"\b(?:(EDR|HDR100|HDR200|HDR|NDR200|NDR|XDR)\b|([0-9]{1,4}) ?Gb(?:/s|E)|([0-9.]{1,6}) GB/s "
    r"per link)"
)


class Ports(NamedTuple):
    """The network ports of a node."""

    name: str
    bandwidth: float
    """Bytes/s of one port in one direction."""
    number: int | None = 1
    """Ports of a node; None for one port per GPU."""


def parse_ports(description: str) -> Ports | None:
    """The ports that a description of the network names, or None without a speed.

    >>> parse_ports("4x NDR200 InfiniBand per node")
    Ports(name='NDR200', bandwidth=25000000000.0, number=4)
    >>> parse_ports("Slingshot-11, 200 Gb/s per GPU").number is None
    True
    """
    speed = _SPEED.search(description)
    if speed is None:
        return None
    generation, gigabits, gigabytes = speed.groups()
    if generation:
        name, bandwidth = generation, _GENERATIONS[generation]
    elif gigabits:
        name, bandwidth = f"{gigabits} Gbit/s", int(gigabits) / 8
    else:
        name, bandwidth = "link", float(gigabytes)
    return Ports(name, 1e9 * bandwidth, _number(description))


def _number(description: str) -> int | None:
    if number := re.search(r"\b([0-9]{1,2})(?:x | per node)", description):
        return int(number[1])
    return None if "per GPU" in description else 1
