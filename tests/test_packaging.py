"""The wheel holds what the tree holds, and nothing else."""

import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ("topologies", "simulator", "experiments")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_the_tree(wheel: zipfile.ZipFile) -> None:
    packed = {
        name for name in wheel.namelist() if not name.partition("/")[0].endswith(".dist-info")
    }
    tree = {
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == tree
    assert {f"{floor}/py.typed" for floor in FLOORS} <= packed


def test_the_wheel_has_a_licence_and_the_script(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("LICENSE") for name in names)
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "simctl = experiments.cli:main" in wheel.read(entry).decode()


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from experiments.cli import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"simctl {version('simctl-collectives')}"
