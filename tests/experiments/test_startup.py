"""What a command does not need, it does not import: asserted on modules, not on seconds."""

import subprocess
import sys

import pytest

HEAVY = {
    "numpy",
    "networkx",
    "simpy",
    "pandas",
    "matplotlib",
    "numba",
    "scipy",
    "quantiphy",
    "yaml",
    "defusedxml",
}
"""Not pydantic: typer imports it where it is installed."""


def imported(*arguments: str) -> set[str]:
    script = (
        "import sys, atexit\n"
        "from experiments.cli import main\n"
        "atexit.register(lambda: print('MODULES', *{m.partition('.')[0] for m in sys.modules}, "
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
        (("--version",), set[str]()),
        (("sweep", "--help"), set[str]()),
        (("run", "--p", "8"), {"numpy", "simpy", "quantiphy"}),
        (("sweep", "--p", "2..4"), {"numpy", "simpy", "quantiphy"}),
        (("algos",), {"numpy"}),
        (("topo", "list"), {"numpy"}),
        (("strategies",), {"numpy"}),
        (
            ("train", "--p", "2", "--model", "examples/two_layer_model.yaml"),
            {"numpy", "simpy", "quantiphy", "yaml"},
        ),
        (
            ("run", "--p", "8", "--algo", "rings", "--topology", "dgx1"),
            {"numpy", "simpy", "scipy", "quantiphy"},
        ),
    ],
)
def test_only_what_is_needed_is_imported(arguments: tuple[str, ...], needed: set[str]) -> None:
    assert imported(*arguments) & HEAVY == needed


def test_much_work_loads_the_compiler() -> None:
    assert "numba" in imported("run", "--p", "96")
