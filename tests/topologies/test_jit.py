"""Kernels as they are or compiled: when."""

from pathlib import Path

import pytest

from compiling_processes import CHAIN, COMPILE_ONE, DEPTHS, run
from topologies.jit import CROSSOVER, PATIENCE

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
from simulator.kernels.registry import KERNELS
from topologies import compilation
hits = [len(compiled(function).stats.cache_hits) for function in KERNELS]
answer = hits, compilation.is_complete(), "scipy.linalg" in sys.modules
"""
    (hits, complete, linked), _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert set(hits) == {1}
    assert complete
    assert not linked, "Numba's compiler is not imported"
