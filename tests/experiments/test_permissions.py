"""Input that may not be read, and an installation that may not be written to."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

_DROP = """
import ctypes, os, sys
DROP_FROM_BOUNDING_SET = 24
# With CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH root reads and writes everything.
for capability in (1, 2):
    ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_bound(
    folder: Path, code: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Python code in a process of its own in `folder`. Skips the test where root cannot be bound by
    permissions."""
    _check(folder)
    return _run(
        folder, f"import sys; sys.path[:] = {sys.path!r}\n{code}", *arguments, **environment
    )


def _check(folder: Path) -> None:
    closed = folder / "not to be read"
    closed.write_text("")
    closed.chmod(0)
    done = _run(folder, "open('not to be read').close()")
    closed.unlink()
    if done.returncode == 0:
        pytest.skip("permissions do not bind this user, and the privilege cannot be dropped")


def _run(
    folder: Path, code: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _DROP, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


ROOT = Path(__file__).parents[2]
FILES = {
    "log.csv": ROOT / "examples" / "h100_10_nodes_all_reduce.csv",
    "model.yaml": ROOT / "examples" / "two_layer_model.yaml",
    "profile.yaml": ROOT / "experiments" / "profiles" / "mn5_acc.yaml",
    "nccl.xml": ROOT / "tests" / "topologies" / "readers" / "data" / "nccl_hgx.xml",
    "noise.txt": ROOT / "examples" / "README.md",
}
SEVERAL = """
import io, json
from contextlib import redirect_stderr, redirect_stdout
from experiments.cli import main

said = []
for line in sys.argv[1:]:
    out, err, sys.argv = io.StringIO(), io.StringIO(), ["simctl", *line.split()]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        said.append([line, stop.code or 0, out.getvalue(), err.getvalue()])
    except Exception as error:
        said.append([line, -1, "", repr(error)])
print(json.dumps(said))
"""
"""Runs command lines one after the other."""
READ: tuple[str, ...] = (
    "diagnose {}log.csv",
    "validate {}log.csv --fit",
    "validate {}log.csv --profile mn5_acc --held-out",
    "validate {0}profile.yaml --profile {0}profile.yaml --held-out",
    "calibrate {}log.csv --library nccl",
    "topo show {}nccl.xml",
    "topo import {}nccl.xml --out new.yaml",
    "run --p 2 --topology {}nccl.xml",
    "run --p 2 --profile {}profile.yaml",
    "train --p 2 --model {}model.yaml",
    "train --p 2 --noise {}noise.txt",
)
IN_FOLDERS: dict[str, tuple[str, ...]] = {
    "": (
        "diagnose closed",
        "calibrate closed",
        "diagnose listed",
        "validate listed --profile mn5_acc --held-out",
        "train --p 2 --model closed",
        "train --p 2 --model closed/*.json",
    ),
    "closed/": ("run --p 2 --profile {}profile",),
}
if find_spec("torch"):  # without it these are refused before they look at their files
    READ += ("measure --p 2 --size 4KiB --resume --out {}log.csv",)
    IN_FOLDERS["closed/"] += ("profile-model {}module.py:Net --input 2x2",)
DENIED = {"": (*FILES, "closed", "listed"), "closed/": ("closed/",)}


CLOSED, LISTED = 0, 0o444
"""Permissions of a folder that nobody may enter, and of one whose files can be listed and not
opened."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Files without permission to read them, and readable ones in folders without permission to
    enter."""
    places = {tmp_path / "closed": CLOSED, tmp_path / "listed": LISTED}
    for place in (tmp_path, *places):
        place.mkdir(exist_ok=True)
        for name, source in FILES.items():
            shutil.copyfile(source, place / name)
        (place / "module.py").write_text("")
    for name in FILES:
        (tmp_path / name).chmod(CLOSED)
    for place, mode in places.items():
        place.chmod(mode)
    yield tmp_path
    for place in places:
        place.chmod(0o755)


IN_FOLDER = pytest.param("closed/", id="folder", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("place", [pytest.param("", id="file"), IN_FOLDER])
def test_input_that_may_not_be_read_gets_one_line_that_names_it(place: str, folder: Path) -> None:
    lines = [line.format(place) for line in (*READ, *IN_FOLDERS[place])]
    done = run_bound(folder, SEVERAL, *lines)
    assert done.returncode == 0, done.stderr
    for line, code, out, err in json.loads(done.stdout):
        (denied,) = {
            word.partition(":")[0] for word in line.split() if word.startswith(DENIED[place])
        }
        assert (code, out, len(err.splitlines())) == (2, "", 1), (line, err)
        assert denied in err, (line, err)
        assert "ermission denied" in err or "is not readable" in err, (line, err)
    assert not (folder / "new.yaml").exists()


PACKAGES = ("topologies", "simulator", "experiments", "simctl")
INSTALLED = """
from pathlib import Path
import experiments
assert Path(experiments.__file__).is_relative_to(Path("../site").resolve())
from experiments.cli import main
main()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """The packages, and a home for caches and settings, in folders that nobody may write to."""
    for package in PACKAGES:
        origin = Path(str(importlib.import_module(package).__file__)).parent
        shutil.copytree(
            origin, tmp_path / "site" / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    folders = [
        tmp_path / "home",
        *(path for path in (tmp_path / "site").rglob("*") if path.is_dir()),
        tmp_path / "site",
    ]
    for folder in folders:
        folder.chmod(0o555)
    yield tmp_path
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ((), ()),
        pytest.param(
            ("--engine", "compiled"),
            ("note: compiled code is not cached: ",),
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["interpreted", "compiled"],
)
def test_an_installation_that_may_not_be_written_to_works(
    options: tuple[str, ...], notes: tuple[str, ...], site: Path
) -> None:
    before = sorted(site.rglob("*"))
    home = str(site / "home")
    places = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"), home)
    done = run_bound(
        site / "work",
        f"sys.path.insert(0, {str(site / 'site')!r})\n{INSTALLED}",
        *("run", "--p", "4", "--timeline", "line.png", *options),
        **places,
        SIMCTL_CACHE_DIR=f"{home}/cache",
    )
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
    lines = [line for line in done.stderr.splitlines() if not line.startswith("built and proven")]
    assert len(lines) == len(notes), done.stderr
    assert all(line.startswith(note) for line, note in zip(lines, notes, strict=True))
    assert sorted(site.rglob("*")) == sorted([*before, site / "work" / "line.png"])
