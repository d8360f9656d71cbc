"""Kernels compiled on first use: when, where they are cached, and what happens where they cannot
be.

Each story runs in processes of its own, most of them on a copy of the packages, so that nothing is
left beside ours.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import simulator
import topologies
from topologies._compile import CROSSOVER

CHAIN = """
import numpy as np
from simulator.kernels import dependencies, first_come
from topologies._compile import compiled, is_loaded, kernel
ones, line = np.ones(4, np.int8), np.array([0, 0, 1, 2, 3], np.int32)
before = np.array([0, 1, 2], np.int32)
"""
"""Four operations in a row: their depths are 1, 2, 3, 4."""
DEPTHS = [1, 2, 3, 4]

COMPILE_ONE = f"""{CHAIN}
chain = compiled(dependencies.chain)
answer = dict(
    depths=chain(ones, line, before).tolist(),
    hits=sum(chain.stats.cache_hits.values()),
    misses=sum(chain.stats.cache_misses.values()),
    where=chain.stats.cache_path,
)
"""

SIMULATE = """
from simulator.kernels import dependencies, first_come
from topologies._compile import compiled
from simulator.collectives import find
from simulator.engines import simulate
from topologies import shapes
schedule, topology = find("ring").build(4, 4.0), shapes.ring(4, bandwidth=1.0, latency=0.5)
fast, slow = (simulate(schedule, topology, engine) for engine in ("compiled", "reference"))
# Six steps of 1 s and half a second of latency.
answer = dict(
    makespan=fast.makespan,
    same=fast.finish.tolist() == slow.finish.tolist(),
    hits=sum(compiled(first_come.simulate).stats.cache_hits.values()),
)
"""


Answer = tuple[dict[str, Any], str]
"""What a process answered, and what it wrote to stderr."""
OURS = Path(str(simulator.__file__)).parent.parent


def start(code: str, tree: Path | None, environment: dict[str, str]) -> "subprocess.Popen[str]":
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("SIMCTL_", "NUMBA_", "PYTHON"))
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"{code}\nimport json, sys\nprint(json.dumps(answer))"],
        env=inherited | environment | {"PYTHONPATH": str(tree or OURS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Answer:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    answer: dict[str, Any] = json.loads(out)
    return answer, error


def run(code: str, tree: Path | None = None, **environment: str) -> Answer:
    """Run code that sets `answer` in a process of its own, on our packages or on the copy in
    `tree`."""
    return finish(start(code, tree, environment))


def copied(folder: Path) -> Path:
    """A copy of the packages in a folder."""
    for package in (simulator, topologies):
        origin = Path(str(package.__file__)).parent
        shutil.copytree(
            origin, folder / "tree" / origin.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder / "tree"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copied(tmp_path)


def cached(folder: Path) -> list[Path]:
    """The indices of Numba's cache below a folder."""
    return sorted(folder.rglob("*.nbi"))


def warnings_in(error: str) -> int:
    return error.count("Warning: ")


class Cache(NamedTuple):
    """Three processes one after the other, the last with another kernel of the same name; indices
    after the first."""

    tree: Path
    folder: Path
    indices: list[Path]
    first: Answer
    second: Answer
    changed: Answer


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    tree, folder = copied(tmp_path_factory.mktemp("packages")), tmp_path_factory.mktemp("cache")
    first = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    indices = cached(folder)
    second = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    source = tree / "simulator" / "kernels" / "dependencies.py"
    text = source.read_text()
    assert text.count("depth[i] = deepest + weight[i]") == 1
    source.write_text(
        text.replace("depth[i] = deepest + weight[i]", "depth[i] = deepest - weight[i]")
    )
    changed = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    return Cache(tree, folder, indices, first, second, changed)


# Where.


def test_the_cache_is_where_the_environment_says_under_a_name_with_both_versions(
    cache: Cache,
) -> None:
    answer, error = cache.first
    assert answer["depths"] == DEPTHS
    assert answer["misses"] == 1
    assert warnings_in(error) == 0
    name = f"simctl-{metadata.version('simctl-collectives')}-numba-{metadata.version('numba')}"
    assert [path.name for path in cache.folder.iterdir()] == [name]
    assert Path(answer["where"]).is_relative_to(cache.folder / name)
    assert len(cache.indices) == 1
    assert not cached(cache.tree)


def test_without_a_word_the_cache_is_the_users(tree: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / "cache")}
    answer, _ = run(COMPILE_ONE, tree, **home)
    assert answer["depths"] == DEPTHS
    assert Path(answer["where"]).is_relative_to(tmp_path / "home")
    assert not cached(tree)


def test_a_second_process_finds_what_the_first_compiled(cache: Cache) -> None:
    (first, _), (second, error) = cache.first, cache.second
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
    assert second["depths"] == DEPTHS
    assert error == ""


def test_numbas_own_setting_is_left_as_it_was(tree: Path, tmp_path: Path) -> None:
    code = f"{CHAIN}\nimport numba\nbefore = numba.config.CACHE_DIR\ncompiled(dependencies.chain)\n"
    code += "answer = dict(same=numba.config.CACHE_DIR == before)"
    answer, _ = run(
        code,
        tree,
        SIMCTL_CACHE_DIR=str(tmp_path / "cache"),
        NUMBA_CACHE_DIR=str(tmp_path / "theirs"),
    )
    assert answer["same"]


# Where it cannot be.


def test_without_any_writable_folder_it_works_uncached_with_one_warning(tree: Path) -> None:
    for package in ("simulator", "topologies"):
        (tree / package / "__pycache__").write_text("a file, so that no folder can be made here")
    nowhere = {
        "HOME": "/dev/null/x",
        "XDG_CACHE_HOME": "/dev/null/x",
        "SIMCTL_CACHE_DIR": "/dev/null/x",
    }
    code = f"{CHAIN}\ncompiled(dependencies.invert)(line, before)\n"
    code += "answer = dict(depths=compiled(dependencies.chain)(ones, line, before).tolist())"
    answer, error = run(code, tree, **nowhere)
    assert answer["depths"] == DEPTHS
    assert "compiled code is not cached" in error
    assert "SIMCTL_CACHE_DIR" in error
    assert warnings_in(error) == 1, "one for the process, not one for each kernel"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"{CHAIN}\nanswer = compiled(dependencies.chain)(ones, line, before).tolist()", DEPTHS),
        pytest.param(
            SIMULATE, {"same": True, "makespan": 9.0, "hits": 0}, marks=pytest.mark.exhaustive
        ),
    ],
    ids=["a kernel", "a simulation"],
)
def test_an_unwritable_cache_is_told_and_the_source_left_alone(
    code: str, expected: object, tree: Path
) -> None:
    answer, error = run(code, tree, SIMCTL_CACHE_DIR="/dev/null/x")
    assert answer == expected
    assert not cached(tree), "the folder of the source is nobody's cache"
    assert warnings_in(error) == 1


# Together, and again.


def test_two_processes_that_start_cold_together_agree(tree: Path, tmp_path: Path) -> None:
    cache = {"SIMCTL_CACHE_DIR": str(tmp_path / "cache")}
    together = [start(COMPILE_ONE, tree, cache) for _ in range(2)]
    for answer, error in [finish(process) for process in together]:
        assert answer["depths"] == DEPTHS
        assert warnings_in(error) == 0
    answer, _ = run(COMPILE_ONE, tree, **cache)
    assert (answer["depths"], answer["hits"]) == (DEPTHS, 1), "and a third finds a sound cache"


@pytest.mark.exhaustive
def test_two_cold_simulations_agree(tree: Path, tmp_path: Path) -> None:
    cache = {"SIMCTL_CACHE_DIR": str(tmp_path / "cache")}
    together = [start(SIMULATE, tree, cache) for _ in range(2)]
    for answer, error in [finish(process) for process in together]:
        assert answer["same"]
        assert answer["makespan"] == 9
        assert warnings_in(error) == 0
    answer, _ = run(SIMULATE, tree, **cache)
    assert (answer["makespan"], answer["hits"]) == (9.0, 1), "and a third finds a sound cache"


def test_a_changed_kernel_is_compiled_again(cache: Cache) -> None:
    assert cache.first[0]["depths"] == DEPTHS
    answer, _ = cache.changed
    assert answer["depths"] == [-1] * 4
    assert answer["misses"] == 1


RECORDS = """
import numpy as np
from simulator.kernels.records import Ranks
from simulator.kernels.sizes import copy_of
from topologies._compile import compiled
kernel = compiled(copy_of)
answer = dict(
    copy=kernel(Ranks(reduction=np.full(2, 3.0), copy=np.full(2, 5.0), lanes=1)),
    misses=sum(kernel.stats.cache_misses.values()),
)
"""
KERNEL = """
from simulator.kernels.records import Work
def copy_of(ranks):
    return first(ranks.copy)
def first(column):
    return column[0]
"""


def test_a_kernel_is_compiled_again_when_fields_of_a_record_change_places(
    tree: Path, tmp_path: Path
) -> None:
    """Numba takes both for the same type: the class has the same name, the fields the same
    dtypes."""
    folder = tmp_path / "cache"
    (tree / "simulator" / "kernels" / "sizes.py").write_text(KERNEL)
    answers = [run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))[0] for _ in range(2)]
    assert answers == [{"copy": 5.0, "misses": 1}, {"copy": 5.0, "misses": 0}]
    records = tree / "simulator" / "kernels" / "records.py"
    text = records.read_text()
    assert text.count("    reduction: Floats\n") == text.count("    copy: Floats\n") == 1
    swapped = text.replace("    copy: Floats\n", "    swapped: Floats\n")
    swapped = swapped.replace("    reduction: Floats\n", "    copy: Floats\n")
    records.write_text(swapped.replace("    swapped: Floats\n", "    reduction: Floats\n"))
    answer, _ = run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))
    assert answer == {"copy": 5.0, "misses": 1}


# When.


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
answer = dict(makespan=timeline.makespan, loaded="numba" in sys.modules)
"""
    answer, error = run(code)
    # 14 steps of 8 bytes.
    assert answer == {"makespan": 112.0, "loaded": False}
    assert error == ""


def test_work_beyond_the_crossover_loads_the_compiler_and_keeps_it(tmp_path: Path) -> None:
    code = f"""{CHAIN}
import sys
from topologies._compile import pays
seen = []
def look(operations):
    chosen = kernel(dependencies.chain, operations)
    depths = chosen(ones, line, before).tolist()
    seen.append((chosen is not dependencies.chain, "numba" in sys.modules, depths))
look({CROSSOVER})
look(1)
look(1)
answer = dict(seen=seen, pays=pays(0), loaded=is_loaded())
"""
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer["seen"] == [[False, False, DEPTHS], [True, True, DEPTHS], [True, True, DEPTHS]]
    assert answer["pays"] is True
    assert answer["loaded"] is True


def test_a_compiler_asked_for_by_name_is_used_for_everything_after() -> None:
    code = f"""{CHAIN}
import sys
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.engines import simulate
from topologies import shapes
before_it = is_loaded()
schedule, topology = ScheduleBuilder(2, 1.0).build(), shapes.line(2, bandwidth=1.0)
simulate(schedule, topology, "reference")
after_reference = is_loaded()
simulate(schedule, topology, "compiled")
compiles = kernel(dependencies.chain, 1) is not dependencies.chain
answer = dict(seen=[before_it, after_reference, is_loaded()], kernel=compiles)
"""
    answer, _ = run(code, SIMCTL_CACHE_DIR=os.environ.get("SIMCTL_CACHE_DIR", ""))
    assert answer == {"seen": [False, False, True], "kernel": True}
