"""Tables as Parquet: the same as the CSV."""

import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from experiments import output
from extras import needs
from refusals import refusal

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
COMMANDS = {
    "sweep": ("sweep", "--algo", "ring,tree", "--p", "2..5", "--size", "8B,1GiB"),
    "train": ("train", "--model", "resnet50:batch=2", "--p", "1,2"),
}


@needs("pyarrow", "parquet")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_is_that_of_the_csv(command: str, simctl: Simctl, tmp_path: Path) -> None:
    for name, jobs in (("x.csv", "1"), ("x.parquet", "1"), ("y.parquet", "2")):
        done = simctl(*COMMANDS[command], "--out", tmp_path / name, "--jobs", jobs)
        assert done.returncode == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(table, pd.read_parquet(tmp_path / "y.parquet"), check_exact=True)
    assert table.to_csv(index=False) == (tmp_path / "x.csv").read_text()
    assert (tmp_path / "x.parquet.meta.json").exists()


def test_without_pyarrow_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        output, "find_spec", lambda name: None if name == "pyarrow" else find_spec(name)
    )
    path = tmp_path / "x.parquet"
    assert refusal(output.check_table, path) == (
        f"cannot write {str(path)!r}: this needs pyarrow, which is not installed: "
        "pip install '.[parquet]'"
    )
