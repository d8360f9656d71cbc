"""Several processes that compile the same kernels, one of them beside the first command."""

import shutil
from pathlib import Path

import pytest

from compiling_processes import (
    COMPILE_ONE,
    DEPTHS,
    SIMULATE,
    cached,
    copied,
    finish,
    run,
    start,
    warnings_in,
)
from topologies._compile import code_cache


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copied(tmp_path)


def test_two_processes_that_start_cold_together_agree(tree: Path, tmp_path: Path) -> None:
    cache = {"SIMCTL_CACHE_DIR": str(tmp_path / "cache")}
    together = [start(COMPILE_ONE, tree, cache) for _ in range(2)]
    for answer, error in [finish(process) for process in together]:
        assert answer["depths"] == DEPTHS
        assert warnings_in(error) == 0
    answer, _ = run(COMPILE_ONE, tree, **cache)
    assert answer == {"depths": DEPTHS, "built": False}, "and a third finds a sound cache"


@pytest.mark.exhaustive
def test_two_cold_simulations_agree(tree: Path, tmp_path: Path) -> None:
    cache = {"SIMCTL_CACHE_DIR": str(tmp_path / "cache")}
    together = [start(SIMULATE, tree, cache) for _ in range(2)]
    for answer, error in [finish(process) for process in together]:
        assert answer["same"]
        assert answer["makespan"] == 9
        assert warnings_in(error) == 0
    answer, _ = run(SIMULATE, tree, **cache)
    assert (answer["makespan"], answer["built"]) == (9.0, False), "and a third finds a sound cache"


@pytest.mark.exhaustive
def test_a_process_waits_for_what_another_compiles(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(tmp_path / "first"))
    (compiled,) = cached(tmp_path / "first")
    folder = tmp_path / "second" / compiled.parent.name
    folder.mkdir(parents=True)
    monkeypatch.setattr(code_cache, "folder", lambda: folder)
    with code_cache.lock() as is_free:
        assert is_free
        waiting = start(COMPILE_ONE, tree, {"SIMCTL_CACHE_DIR": str(tmp_path / "second")})
        part = shutil.copy(compiled, folder / "part")
        Path(part).replace(folder / compiled.name)
        answer, _ = finish(waiting)
    assert answer == {"depths": DEPTHS, "built": False}


BESIDE = """
from topologies._compile import code_cache
code_cache.start()
beside = code_cache._processes
"""
STOP = """
import os, signal
for process in beside:
    os.killpg(process.pid, signal.SIGKILL), process.wait()
"""
"""It leads a group of two processes."""


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({"SIMCTL_COMPILE": ""}, 1),
        ({"SIMCTL_COMPILE": "", "CI": "true"}, 0),
        ({"SIMCTL_COMPILE": "needed"}, 0),
        ({"SIMCTL_COMPILE": "all", "CI": "true"}, 1),
    ],
    ids=["default", "CI", "needed", "all in CI"],
)
def test_a_process_compiles_beside_the_first_command_unless_that_is_switched_off(
    environment: dict[str, str], count: int, tmp_path: Path
) -> None:
    environment = {"CI": ""} | environment
    answer, _ = run(
        f"{BESIDE}{STOP}answer = len(beside)", None, SIMCTL_CACHE_DIR=str(tmp_path), **environment
    )
    assert answer == count


def test_an_unknown_switch_is_refused_in_one_line(tmp_path: Path) -> None:
    code = "from topologies._compile import code_cache\nfrom topologies.errors import InputError\n"
    code += "try:\n    code_cache.start()\nexcept InputError as error:\n    answer = str(error)"
    answer, _ = run(code, SIMCTL_COMPILE="off", SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == "SIMCTL_COMPILE is 'off': it is all or needed"


@pytest.mark.exhaustive
def test_after_a_killed_compilation_what_is_needed_is_compiled(tmp_path: Path, tree: Path) -> None:
    code = f"{BESIDE}{STOP}{COMPILE_ONE}"
    answer, _ = run(code, tree, SIMCTL_CACHE_DIR=str(tmp_path), SIMCTL_COMPILE="all")
    assert answer == {"depths": DEPTHS, "built": True}


def test_two_processes_start_one_compilation(tmp_path: Path) -> None:
    """The lock stays with the process beside the first."""
    script = (
        f"{BESIDE}\nimport subprocess, sys\nother = subprocess.run([sys.executable, '-P', '-c', "
    )
    script += f"{BESIDE!r} + 'print(len(beside))'], capture_output=True, text=True)\n"
    script += f"{STOP}answer = [len(beside), other.stdout.strip()]"
    answer, _ = run(script, SIMCTL_CACHE_DIR=str(tmp_path), SIMCTL_COMPILE="all")
    assert answer == [1, "0"]


def test_if_one_of_two_processes_dies_the_other_compiles_all() -> None:
    code = """
import contextlib, io, os
from simulator.kernels import dependencies
from topologies._compile import together
parent, kept = os.getpid(), []
def keep(function):
    if os.getpid() != parent:
        os._exit(1)
    kept.append(function.__name__)
together.keep, together.holds, together.clear = keep, lambda function: False, lambda: None
with contextlib.redirect_stdout(io.StringIO()):
    together.compile_all((dependencies.derive, dependencies.chain, dependencies.invert))
answer = sorted(set(kept))
"""
    assert run(code)[0] == ["chain", "derive", "invert"]


FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
"""On a full disk files can be made and not written: so they can where none may be large."""


@pytest.mark.parametrize(
    ("code", "name", "problem"),
    [(FULL, "", "File too large"), ("", "lock", "/lock'"), ("", "log", "/log'")],
    ids=["full disk", "lock of another user", "log of another user"],
)
def test_nothing_is_compiled_beside_where_it_cannot_be_kept(
    code: str, name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMCTL_CACHE_DIR", str(tmp_path))
    if name:  # nobody can write a file where a folder is
        (tmp_path / code_cache.folder.__wrapped__().name / name).mkdir(parents=True)
    code = f"{code}\n{BESIDE}answer = [len(beside), code_cache._problem(code_cache.folder())]"
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path), SIMCTL_COMPILE="all")
    assert answer[0] == 0
    assert problem in answer[1]
    assert not [*tmp_path.rglob("part-*")]


@pytest.mark.exhaustive
def test_all_kernels_are_compiled_beside(tmp_path: Path) -> None:
    code = f"{BESIDE}\nbeside[0].wait()\n"
    code += "answer = all(map(code_cache.holds, code_cache._all()))"
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path), SIMCTL_COMPILE="all")
    assert answer is True
