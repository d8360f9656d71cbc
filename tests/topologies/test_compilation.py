"""Compiled kernels: when, and the folder in which they are kept."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import simulator
from refusals import refusal
from simulator.kernels import dependencies
from topologies import compilation
from topologies.jit import CROSSOVER, PATIENCE, compiled

CHAIN = """
import numpy as np
from simulator.kernels import dependencies
from topologies.jit import compiled, is_loaded, kernel, pays
ones, line = np.ones(4, np.int8), np.array([0, 0, 1, 2, 3], np.int32)
before = np.array([0, 1, 2], np.int32)
"""
"""Four operations in a row: their depths are 1, 2, 3, 4."""
COMPILE_ONE = f"""{CHAIN}
chain = compiled(dependencies.chain)
answer = chain(ones, line, before).tolist(), len(chain.stats.cache_hits)
"""
"""The depths, and whether Numba had the code."""
DEPTHS = [1, 2, 3, 4]
PACKAGES = Path(str(simulator.__file__)).parent.parent


def run(code: str, tree: Path = PACKAGES, **environment: str) -> tuple[Any, str]:
    """Run code that sets `answer` in a process of its own, on the packages in a folder: the answer,
    and what it wrote to stderr."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SIMCTL_", "NUMBA_", "PYTHON"))
    }
    chosen = {"SIMCTL_COMPILE": "needed", "PYTHONPATH": str(tree)} | environment
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}\nimport json\nprint(json.dumps(answer))"],
        env=inherited | chosen,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


pytestmark = pytest.mark.skipif(os.name != "posix", reason="files without owners and modes")
FOLDER = "from topologies import compilation\nplace = compilation.folder()\n"


def test_numba_has_the_private_parts_that_are_used() -> None:
    """Without these, drop `load` in `compiled` (half a second more for each process), or find how a
    function counts no references (`_nrt`)."""
    code = numba.njit(cache=False, _nrt=False, forceinline=True, no_cpython_wrapper=True)(
        dependencies.sort
    )
    assert hasattr(numba.core.caching.FunctionCache, "_load_overload")
    assert hasattr(code, "_cache")
    assert callable(numba.core.runtime.rtsys.initialize)


def test_a_call_with_other_types_is_refused() -> None:
    with pytest.raises(TypeError, match="No matching definition"):
        compiled(dependencies.chain)(np.ones(1), np.zeros(2, np.int32), np.zeros(0, np.int32))


def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    for hits in (0, 1):
        assert run(COMPILE_ONE, SIMCTL_CACHE_DIR=str(tmp_path)) == ([DEPTHS, hits], "")
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.exhaustive
def test_a_kernel_is_compiled_again_when_a_function_of_another_file_changes(tmp_path: Path) -> None:
    """Numba by itself would take the old code. The new text is longer: Python's own bytecode counts
    as fresh if a file has the size and the second of before."""
    for package in ("simulator", "topologies"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGES / package, tmp_path / package, ignore=ignored)
    kernels = tmp_path / "simulator" / "kernels"
    head = "from simulator.kernels.records import Floats\n"
    (kernels / "caller.py").write_text(
        f"{head}from simulator.kernels.firsts import first\n"
        "def call(column: Floats) -> float:\n    return first(column)\n"
    )
    code = f"{CHAIN}\nfrom simulator.kernels.caller import call\n"
    code += "answer = compiled(call)(np.ones(1)), len(compiled(call).stats.cache_hits)"
    for added, hits in ((0, 0), (0, 1), (20, 0)):
        text = f"{head}def first(column: Floats) -> float:\n    return column[0] + {added}.0\n"
        if not hits:
            (kernels / "firsts.py").write_text(text)
        answer, _ = run(code, tmp_path, SIMCTL_CACHE_DIR=str(tmp_path / "cache"))
        assert answer == [1.0 + added, hits]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_in_a_folder_of_others_a_process_compiles_in_memory_and_says_so_once(
    mode: int, tmp_path: Path
) -> None:
    code = f"{FOLDER}place.mkdir(parents=True)\nplace.chmod({mode})\n{COMPILE_ONE}"
    code += "compiled(dependencies.invert)"
    (depths, _), error = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert depths == DEPTHS
    assert error.count("compiled code is not cached: another user can write ") == 1
    assert [*tmp_path.glob("*/*")] == []


def test_code_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    code = f"import os\nuser = os.geteuid()\nos.geteuid = lambda: user + 1\n{COMPILE_ONE}"
    (depths, _), error = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert depths == DEPTHS
    assert error.count("another user can write") == 1


def test_where_no_folder_can_be_made_a_process_compiles_in_memory(tmp_path: Path) -> None:
    (depths, _), error = run(COMPILE_ONE, SIMCTL_CACHE_DIR="/dev/null/x")
    assert depths == DEPTHS
    assert "(set SIMCTL_CACHE_DIR)" in error


def test_an_unknown_switch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "folder", lambda: tmp_path)
    monkeypatch.setattr(compilation, "_is_usable", lambda: True)
    monkeypatch.setenv("SIMCTL_COMPILE", "off")
    assert "SIMCTL_COMPILE is 'off': it is all or needed" in refusal(compilation.is_complete)


def test_code_that_was_not_used_for_a_month_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "folder", lambda: tmp_path / "compiled-1")
    for number, days in ((1, 0), (2, 31), (3, 29)):
        used = tmp_path / f"compiled-{number}" / "writable"
        used.parent.mkdir()
        used.touch()
        os.utime(used, times=(time.time() - days * 86400,) * 2)
    compilation.compile_all([])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiled-1", "compiled-3"]


def test_one_of_many_that_ask_at_once_compiles(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        firsts = list(threads.map(compilation._is_first, [tmp_path / "lock"] * 64))
    assert sum(firsts) == 1


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
def test_one_process_compiles_beside_the_first_command_unless_that_is_switched_off(
    environment: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[object]()
    monkeypatch.setattr(subprocess, "Popen", lambda line, **_: started.append(line))
    monkeypatch.setattr(compilation, "folder", lambda: tmp_path)
    monkeypatch.setattr(compilation, "_is_usable", lambda: True)
    for name, value in ({"CI": ""} | environment).items():
        monkeypatch.setenv(name, value)
    assert not compilation.is_complete()
    assert not compilation.is_complete(), "and no second process while the first is at it"
    assert len(started) == count
    os.utime(tmp_path / "lock", (0, 0)) if count else None
    assert not compilation.is_complete()
    assert len(started) == 2 * count, "and another one after a killed one"
    (tmp_path / "complete").touch()
    assert compilation.is_complete()


LOOK = f"""{CHAIN}
import sys
seen = []
def look(operations):
    chosen = kernel(dependencies.chain, operations)
    depths = chosen(ones, line, before).tolist()
    assert depths == {DEPTHS}
    seen.append((chosen is not dependencies.chain, "numba" in sys.modules))
"""


def test_small_work_loads_no_compiler() -> None:
    code = """
import sys
from simulator.schedules import semantics
from simulator.analysis.bubbles import bubbles
from simulator.collectives import find
from simulator.analysis.critical_path import critical_path
from simulator.engines import simulate
from simulator.analysis.memory import trace
from topologies import shapes
algorithm = find("ring")
schedule = algorithm.build(8, 64.0)
timeline = simulate(schedule, shapes.ring(8, bandwidth=1.0))
semantics.check(schedule, algorithm.collective)
trace(schedule, timeline), bubbles(timeline), critical_path(timeline), schedule.steps
answer = timeline.makespan, "numba" in sys.modules
"""
    # 14 steps of 8 bytes.
    assert run(code) == ([112.0, False], "")


def test_work_beyond_the_crossover_loads_compiled_code_and_keeps_it(tmp_path: Path) -> None:
    code = f"""{LOOK}
from topologies import compilation
(compilation.folder() / "complete").parent.mkdir(mode=0o700)
(compilation.folder() / "complete").touch()
del sys.modules["numba"]
look({CROSSOVER}), look(1), look(1)
answer = seen, pays(0), is_loaded()
"""
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert [chosen for chosen, _ in answer[0]] == [False, True, True]
    assert answer[1:] == [True, True]


def test_a_little_work_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    code = f"{LOOK}\nlook({CROSSOVER})\nlook({PATIENCE - CROSSOVER})\nlook(1)\nanswer = seen"
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == [[False, False], [False, True], [True, True]]


def test_a_compiler_asked_for_by_name_is_used_for_everything_after(tmp_path: Path) -> None:
    code = f"""{COMPILE_ONE}
answer = is_loaded(), kernel(dependencies.chain, 1) is chain, pays(0)
"""
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == [True, False, False], "what is not compiled is not waited for"


@pytest.mark.exhaustive
def test_all_kernels_are_compiled_ahead(tmp_path: Path) -> None:
    code = f"""{CHAIN}
import subprocess, sys
subprocess.run([sys.executable, "-P", "-m", "simulator.kernels"], check=True)
from simulator.kernels.__main__ import KERNELS
from topologies import compilation
hits = [len(compiled(function).stats.cache_hits) for function in KERNELS]
answer = hits, compilation.is_complete(), "scipy.linalg" in sys.modules
"""
    (hits, complete, linked), _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert set(hits) == {1}
    assert complete
    assert not linked, "Numba's compiler is not imported"
