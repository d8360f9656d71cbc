"""Kernels as they are or compiled: when."""

import os
from pathlib import Path

from compiling_processes import CHAIN, COMPILE_ONE, DEPTHS, run
from topologies._compile import CROSSOVER, PATIENCE


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


LOOK = f"""{CHAIN}
import sys
from topologies._compile import pays
seen = []
def look(operations):
    chosen = kernel(dependencies.chain, operations)
    depths = chosen(ones, line, before).tolist()
    seen.append((chosen is not dependencies.chain, "numba" in sys.modules, depths))
"""


def test_work_beyond_the_crossover_loads_compiled_code_and_keeps_it(
    tmp_path: Path,
) -> None:
    run(COMPILE_ONE, SIMCTL_CACHE_DIR=str(tmp_path))
    code = f"{LOOK}\nlook({CROSSOVER})\nlook(1)\nlook(1)\n"
    code += "answer = dict(seen=seen, pays=pays(0), loaded=is_loaded())"
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    loaded = [True, False, DEPTHS]
    assert answer["seen"] == [[False, False, DEPTHS], loaded, loaded]
    assert answer["pays"] is True
    assert answer["loaded"] is True


def test_a_little_work_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    code = (
        f"{LOOK}\nlook({CROSSOVER + 1})\nlook({PATIENCE - CROSSOVER - 1})\nlook(1)\nanswer = seen"
    )
    answer, _ = run(code, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == [[False, False, DEPTHS], [False, False, DEPTHS], [True, True, DEPTHS]]


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
compiles = kernel(first_come.simulate, 1) is not first_come.simulate
answer = dict(seen=[before_it, after_reference, is_loaded()], kernel=compiles)
"""
    answer, _ = run(code, SIMCTL_CACHE_DIR=os.environ.get("SIMCTL_CACHE_DIR", ""))
    assert answer == {"seen": [False, False, True], "kernel": True}
