"""Chakra files: the wire format, and damaged files."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_files import MICROBENCHMARK
from experiments.traces import chakra_nodes
from experiments.traces.chakra_nodes import (
    COLLECTIVE,
    ChakraNode,
    read,
    write,
    write_field,
    write_messages,
)
from grouped_cases import each_case
from refusals import refusal

WHOLE = st.integers(0, 2**63 - 1)
NODES = st.builds(
    ChakraNode,
    id=WHOLE,
    name=st.text(max_size=20),
    type=st.integers(0, 7),
    waits=st.lists(WHOLE, unique=True, max_size=4).map(tuple),
    microseconds=WHOLE,
    attributes=st.dictionaries(
        st.text(max_size=8).filter(lambda key: key not in ("is_cpu_op", chakra_nodes.CALLED)),
        st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=9),
        max_size=3,
    ),
)


@given(st.lists(NODES, min_size=1, max_size=4))
def test_nodes_are_read_as_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[ChakraNode]
) -> None:
    path = tmp_path_factory.getbasetemp() / "job.0.et"
    path.write_bytes(write(nodes))
    assert read(path) == nodes


def test_a_file_of_astra_sim_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all_gather.0.et"
    about = {"is_cpu_op": 0, "comm_type": 2, "comm_size": 2**20}
    for content in (MICROBENCHMARK, gzip.compress(MICROBENCHMARK)):
        path.write_bytes(content)
        assert read(path) == [ChakraNode(0, "all_gather_4npus_1MB", COLLECTIVE, attributes=about)]


def test_callers_of_torch_are_no_dependencies(tmp_path: Path) -> None:
    """A caller waits for what it calls, and ends after it."""
    torch = write_field(10, write_field(1, "rf_id") + write_field(9, 7))
    node = write_field(1, 1) + write_field(3, 4)
    waits = write_field(4, 2) + write_field(5, 3)
    path = tmp_path / "job.0.et"
    for made_by, expected in ((b"", (3, 2)), (torch, (3,))):
        path.write_bytes(write_messages([b"", node + waits + made_by]))
        assert read(path)[0].waits == expected


@each_case(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00", "has no nodes"),
        (b"\x7f\x01", "is cut off: the message at byte 1 has 127 bytes, and 1 are left"),
        (b"\x00" + b"\xff" * 20, "no whole number ends after byte 1"),
        (b"\x00\x02\x18\x63", "node 0 has the type 99: types are 0 to 7"),
        (b"\x00\x01\x0b", "is no protobuf file: a field has the wire type 3"),
        (b"\x00\x02\x12\x7f", "field 2 of a message is cut off"),
        (b"\x1f\x8b\x08\x00", "is damaged or cut off"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "job.0.et"
    path.write_bytes(content)
    assert words in refusal(read, path)


def test_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra_nodes, "LIMIT", 2**20)
    path = tmp_path / "job.0.et"
    for content in (b"\x00" * (2**20 + 1), gzip.compress(b"\x00" * (2**20 + 1))):
        path.write_bytes(content)
        assert "has more than 1 MiB" in refusal(read, path)
