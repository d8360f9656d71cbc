"""Kineto traces in files: recorded ones, packed ones, and files that are cut off."""

import gzip
import json
from pathlib import Path

import pytest

from experiments.models import kineto
from experiments.models import model_files as files
from kineto_traces import step
from simulator.training.model import Model
from topologies.errors import InputError

REAL = Path(__file__).parent / "data" / "ddp_mlp_gloo.json.gz"
LAB = Path(__file__).parents[4] / "shared" / "measured" / "gloo_lab" / "traces"


def test_what_is_read_can_be_written_and_read(tmp_path: Path) -> None:
    mlp = files.read(REAL)
    (tmp_path / "mlp.yaml").write_text(files.dumps(mlp))
    assert files.read(tmp_path / "mlp.yaml") == mlp


def check_mlp(mlp: Model) -> None:
    """Four times Linear(768, 768) and ReLU, and the mean of squares, for a batch of 512."""
    assert [layer.name for layer in mlp.layers] == [
        f"{name}_{k}" for k, name in enumerate(["linear", "relu"] * 4 + ["pow", "mean"])
    ]
    assert mlp.gradients == 4 * (768 * 768 + 768) * 4 == 9_449_472
    assert [tensor.nbytes for layer in mlp.layers for tensor in layer.tensors] == [
        768 * 768 * 4,
        768 * 4,
    ] * 4
    assert (mlp.batch, mlp.inputs, mlp.device) == (512, 512 * 768 * 4, "CPU")


def test_a_real_trace_gives_the_model_that_was_trained() -> None:
    """A rank of DDP on gloo, two steps: 77.6 and 99.9 ms forward, 123.0 and 246.0 ms in the nodes
    of the backward."""
    mlp = files.read(REAL)
    check_mlp(mlp)
    assert mlp.source == "measured: Kineto trace ddp_mlp_gloo.json.gz, step 1 of 2"
    assert mlp.forward == pytest.approx(0.0776, abs=5e-5)
    assert 0.1230 < mlp.backward < 0.1235


def test_without_communication_a_step_takes_as_long_as_the_traces_say() -> None:
    """Alone the four ranks took 88 ms forward and 143 ms backward, as the slowest of them did;
    medians of 8 steps."""
    if not LAB.is_dir():
        pytest.skip(f"no traces in {LAB}")
    models = [files.read(path) for path in sorted(LAB.glob("*.json"))]
    for mlp in models:
        check_mlp(mlp)
    for truth, measured in (
        (0.088, [mlp.forward for mlp in models]),
        (0.143, [mlp.backward for mlp in models]),
    ):
        assert min(measured) < truth < max(measured)


def test_a_trace_is_known_by_what_it_says(tmp_path: Path) -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": step()}).encode()
    for name, content in (
        ("t.txt", data),
        ("t.json", b"\xef\xbb\xbf \n" + data),
        ("t.json.gz", gzip.compress(data)),
    ):
        (tmp_path / name).write_bytes(content)
        assert files.read(tmp_path / name) == kineto.parse(data, name)[0]
    assert files.read(tmp_path / "t.json.gz").name == "t"


def test_a_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole, path = gzip.decompress(REAL.read_bytes()), tmp_path / "t.json"
    for end in range(0, len(whole) - 1, len(whole) // 60):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"t\.json is (empty|no trace as JSON, or a part)"):
            files.read(path)


def test_a_packed_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    packed, path = REAL.read_bytes(), tmp_path / "t.json.gz"
    for end in range(2, len(packed) - 1, len(packed) // 60):
        path.write_bytes(packed[:end])
        with pytest.raises(InputError, match="is damaged or cut off"):
            files.read(path)
