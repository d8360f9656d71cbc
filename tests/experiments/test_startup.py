"""What a command does not need, it does not import: asserted on modules, not on seconds."""

import math
import subprocess
import sys

import pytest

HEAVY = {
    *("numpy", "numpy.ma", "networkx", "simpy", "pandas", "matplotlib", "numba", "llvmlite"),
    *("pydantic", "scipy", "yaml", "defusedxml", "jinja2"),
}


def imported(*arguments: str, crossover: float = math.inf) -> set[str]:
    script = (
        "import sys, atexit\n"
        "from experiments.cli import main\n"
        f"from topologies import jit\njit.CROSSOVER = float({str(crossover)!r})\n"
        "atexit.register(lambda: print('MODULES', *sys.modules, "
        "file=sys.stderr))\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.rpartition("MODULES")[2].split())


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("--help",), set[str]()),
        pytest.param(("--version",), set[str](), marks=pytest.mark.exhaustive),
        pytest.param(("sweep", "--help"), set[str](), marks=pytest.mark.exhaustive),
        pytest.param(("report", "--help"), set[str](), marks=pytest.mark.exhaustive),
        (("run", "--p", "8"), {"numpy", "simpy"}),
        pytest.param(("sweep", "--p", "2..4"), {"numpy", "simpy"}, marks=pytest.mark.exhaustive),
        (("list", "algos"), {"numpy"}),
        pytest.param(("list", "machines"), {"numpy"}, marks=pytest.mark.exhaustive),
        pytest.param(("list", "strategies"), {"numpy"}, marks=pytest.mark.exhaustive),
        (
            ("train", "--p", "2", "--model", "examples/two_layer_model.yaml"),
            {"numpy", "numpy.ma", "simpy", "yaml", "pydantic"},
        ),
        (
            ("run", "--p", "8", "--algo", "rings", "--topology", "dgx1"),
            {"numpy", "numpy.ma", "simpy"},
        ),
    ],
)
def test_only_what_is_needed_is_imported(arguments: tuple[str, ...], needed: set[str]) -> None:
    assert imported(*arguments) & HEAVY == needed


def test_much_work_loads_compiled_code_without_the_compiler() -> None:
    subprocess.run([sys.executable, "-m", "simulator.kernels"], check=True, capture_output=True)
    modules = imported("run", "--p", "96", crossover=0)
    assert modules & {"numba", "numba.np.arraymath"} == {"numba"}


def test_an_algorithm_is_found_without_the_files_of_others() -> None:
    families = {name for name in imported("run", "--p", "4") if "simulator.collectives." in name}
    assert "simulator.collectives.ring" in families
    assert "simulator.collectives.double_tree" not in families
