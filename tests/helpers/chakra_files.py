"""Folders of Chakra traces written by a test."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.traces import chakra_nodes
from experiments.traces.chakra_nodes import COLLECTIVE, COMPUTE, RECEIVE, SEND, ChakraNode

MICROBENCHMARK = b64decode(
    "BwoFMC4wLjRIEhRhbGxfZ2F0aGVyXzRucHVzXzFNQhgHUg4KCWlzX2NwdV9vcNgBAFINCgljb21t"
    "X3R5cGVIAlIPCgljb21tX3NpemVIgIBA"
)
"""An all-gather of 1 MiB a rank, 4npus_1MB/all_gather.0.et of the microbenchmarks of
astra-sim/astra-sim (MIT License, Georgia Institute of Technology and Facebook)."""


def folder(
    path: Path,
    ranks: Sequence[Sequence[ChakraNode]],
    groups: Mapping[str, Sequence[int]] | None = None,
) -> Path:
    """A folder with the traces of all ranks."""
    path.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (path / f"job.{rank}.et").write_bytes(chakra_nodes.write(nodes))
    if groups is not None:
        (path / "groups.json").write_text(json.dumps(groups))
    return path


def compute(number: int, microseconds: int, *waits: int, **attributes: float | str) -> ChakraNode:
    """A computation."""
    return ChakraNode(number, f"compute {number}", COMPUTE, waits, microseconds, attributes)


def collective(
    number: int, kind: int, nbytes: int, *waits: int, **attributes: float | str
) -> ChakraNode:
    """A call of a collective."""
    about = {"comm_type": kind, "comm_size": nbytes, **attributes}
    return ChakraNode(number, f"collective {number}", COLLECTIVE, waits, 0, about)


def send(number: int, peer: int, nbytes: int, *waits: int) -> ChakraNode:
    """A send."""
    return ChakraNode(number, "send", SEND, waits, 0, {"comm_dst": peer, "comm_size": nbytes})


def receive(number: int, peer: int, nbytes: int, *waits: int) -> ChakraNode:
    """A receive."""
    return ChakraNode(number, "receive", RECEIVE, waits, 0, {"comm_src": peer, "comm_size": nbytes})
