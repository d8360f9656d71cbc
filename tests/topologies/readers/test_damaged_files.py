"""Whatever happened to a file of a machine, it is read, or refused in one line with its name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import tries
from refusals import attempt
from tests.topologies.readers.test_graph_files import GOLDEN, GOLDEN_JSON
from topologies.readers.files import read_graphml, read_json, read_yaml, to_graphml
from topologies.readers.nccl_xml import read_nccl_xml
from topologies.readers.nvidia_smi import read_matrix
from topologies.shapes import star
from topologies.topology import Topology


class Damaged(NamedTuple):
    """A reader, whole files, and pieces of text that matter to it."""

    read: Callable[[str, str], Topology]
    files: list[str]
    pieces: tuple[str, ...]


def texts(names: str) -> list[str]:
    return [path.read_text() for path in sorted((Path(__file__).parent / "data").glob(names))]


GRAPHML = to_graphml(star(2, bandwidth=1e9, latency=1e-6))
NUMBERS = ("0", "-1", "x", '"', "\x00", "\ufffd")
READERS = {
    "nccl": Damaged(read_nccl_xml, texts("nccl_*"), (*NUMBERS, "<nic/>")),
    "nvidia-smi": Damaged(
        read_matrix, texts("smi_*"), ("\n", "\t", "NV18", "X", "GPU0 ", "|", "\x1b[", "\x00")
    ),
    "yaml": Damaged(read_yaml, [GOLDEN], (*NUMBERS, "- ", ": ")),
    "json": Damaged(read_json, [GOLDEN_JSON], (*NUMBERS, "[", ": ")),
    "graphml": Damaged(read_graphml, [GRAPHML], (*NUMBERS, "<a>")),
}


@st.composite
def damaged(draw: st.DrawFn, form: Damaged) -> str:
    """A file of which lines or a few letters are left out, doubled or overwritten."""
    text = draw(st.sampled_from(form.files))
    for _ in range(draw(st.integers(1, 3))):
        lines = text.splitlines(keepends=True) or [""]
        line = draw(st.integers(0, len(lines) - 1))
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 1, 2, 9, 20, 80))))
        piece = draw(st.sampled_from(("", *form.pieces)) | st.text(max_size=3))
        text = draw(
            st.sampled_from(
                (
                    "".join(lines[:line] + lines[line + 1 :]),
                    "".join(lines[: line + 1] + lines[line:]),
                    text[:end] + text[start:],
                    text[:start] + piece + text[end:],
                )
            )
        )
    return text


@pytest.mark.parametrize("form", READERS)
@tries(62, 250)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(form: str, data: st.DataObject) -> None:
    text = data.draw(damaged(READERS[form]))
    machine, message = attempt(lambda content: READERS[form].read(content, "file"), text)
    assert len(message.splitlines()) == (machine is None)
    assert machine or message.startswith("file")
