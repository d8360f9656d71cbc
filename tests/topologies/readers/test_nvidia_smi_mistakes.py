"""A matrix of nvidia-smi topo -m that is wrong is refused in one line."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from smi_matrices import PAIR, refused, rendered
from topologies.errors import InputError
from topologies.readers.nvidia_smi import read_matrix

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("smi_*"))


def read_or_refused(text: str) -> str:
    """The name of the machine, or what the refusal says."""
    try:
        return read_matrix(text, "topo.txt").name
    except InputError as error:
        return str(error)


@each_case(
    ("old", "new", "message"),
    [
        (
            "PIX\tPXB",
            "PIZ\tPXB",
            "topo.txt line 2, column GPU1: 'PIZ' is no link: NV#, PIX, PXB, PHB, NODE, SYS, X or "
            "NS",
        ),
        ("PIX\tPXB", "NV0\tPXB", "topo.txt line 2, column GPU1: 'NV0' is no link"),
        ("GPU1\tPIX", "GPU1\t" + "Q" * 99, "topo.txt line 3, column GPU0: 'QQQ"),
        ("GPU1\tPIX\t X \tPXB\n", "", "topo.txt: the row of GPU1 is missing"),
        ("PIX\tPXB", "\tPXB", "topo.txt line 2, column GPU1: the cell is empty"),
        ("PIX\tPXB\n", "PIX\n", "topo.txt line 2, column mlx5_0: the row of GPU0 ends before it"),
        ("PIX\tPXB\n", "PIX\tPXB\tPXB\n", "topo.txt line 2: the row of GPU0 has more than 3 cells"),
        (
            "GPU0\t X \tPIX",
            "GPU0\t X \tPHB",
            "topo.txt: PHB at line 2, column GPU1, but PIX at line 3, column GPU0",
        ),
        (
            "GPU0\t X \tPIX",
            "GPU0\tPIX\t X ",
            "topo.txt line 2, column GPU0: PIX in the row of GPU0: X is right where",
        ),
        ("GPU1\tPIX\t X ", "GPU0\tPIX\t X ", "topo.txt line 3: a second row of GPU0, see line 2"),
        ("GPU0\tGPU1", "GPU0\tGPU0", "topo.txt line 1: column GPU0 is there twice"),
        ("GPU0\tGPU1", "GPU0\t" + "x" * 70, "topo.txt line 1: 'xxx"),
        ("PXB", "NV2", "topo.txt line 2, column mlx5_0: NV2: NVLinks join GPUs only"),
        ("mlx5_0", "cpu0", "topo.txt: device 'cpu0' is there twice"),
        ("mlx5_0", "gpu0", "topo.txt: two columns are the device gpu0"),
        ("\tGPU0\tGPU1\tmlx5_0\n", "", "topo.txt line 1: a row without a heading"),
        (PAIR, "GPU0 is fast\n", "topo.txt: no matrix of nvidia-smi topo -m"),
        (PAIR, "", "topo.txt: no matrix of nvidia-smi topo -m"),
        (PAIR, "x" * 10**8, "topo.txt is larger than 16 MiB"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in PAIR
    assert refused(PAIR.replace(old, new)).startswith(message)


def test_devices_are_no_further_apart_than_by_way_of_a_third() -> None:
    words = [["X", "PIX", "SYS"], ["PIX", "X", "PIX"], ["SYS", "PIX", "X"]]
    message = refused(rendered(["GPU0", "GPU1", "GPU2"], words))
    assert message.startswith("topo.txt line 2, column GPU2: SYS, but by way of others it is PIX")


def test_more_devices_than_any_machine_has() -> None:
    labels = [f"GPU{k}" for k in range(600)]
    assert "600 columns" in refused("\t".join(labels) + "\nGPU0\tX\n")


@tries(62, 250)
@given(st.data())
def test_whatever_happened_to_a_file_it_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(FILES)).read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from((0, 1, 2, 9, 80))))
        part = data.draw(
            st.sampled_from(
                ("", text[start:end] * 2, "\n", "\t", "NV18", "X", "GPU0 ", "|", "\x1b[", "\x00")
            )
        )
        text = text[:start] + (part or data.draw(st.text(max_size=3))) + text[end:]
    outcome = read_or_refused(text)
    assert len(outcome.splitlines()) == 1
    assert outcome.startswith("topo.txt")
