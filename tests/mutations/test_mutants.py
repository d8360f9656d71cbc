"""The tool that mutates: what it changes, what it runs, and what it says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.__main__ import ROOT, equivalents
from tests.mutations.mutants import core_files, draw, mutants
from tests.mutations.nearest import nearest

FILES = core_files(ROOT)


def test_a_mutant_differs_in_one_line() -> None:
    source = (ROOT / "simulator/analysis/memory.py").read_text()
    mutations = mutants("simulator/analysis/memory.py", source)
    assert len({mutant.text for mutant in mutations}) == len(mutations) > 50
    for mutant in mutations:
        pairs = zip(source.splitlines(), mutant.text.splitlines(), strict=True)
        changed = [(line.strip(), mutated.strip()) for line, mutated in pairs if line != mutated]
        assert changed == [(mutant.before, mutant.after)]


def test_messages_annotations_and_the_programs_own_checks_are_left_alone() -> None:
    source = (
        'def f(a: "0") -> "1":\n    raise ValueError(f"{a - 1}")\nzip(b, c, strict=True)\n'
        '"""2"""\nd = 4096\n'
    )
    assert [(mutant.line, mutant.operator) for mutant in mutants("x.py", source)] == [
        (2, "delete"),
        (3, "delete"),
    ]


def test_every_mutant_is_python() -> None:
    """What is none would be killed by any test."""
    source = (
        "a = (b > 0).any()\nif c:\n    d = not -1 ** 2\nelif (b + c).min() in d:\n    raise e\n"
    )
    mutations = mutants("x.py", source)
    assert len(mutations) > 10
    for mutant in mutations:
        compile(mutant.text, "x.py", "exec")


def test_a_mutant_is_the_same_in_another_layout() -> None:
    narrow = "if f(\n    a < b,\n    c,\n):\n    pass\n"
    wide = "\n\nif f(a < b, c):\n    pass\n"
    assert {m.change for m in mutants("x.py", narrow)} < {m.change for m in mutants("x.py", wide)}


def test_a_seed_draws_the_same_lines_every_time_and_each_once() -> None:
    mutations = [
        mutant for file in FILES[:9] for mutant in mutants(file, (ROOT / file).read_text())
    ]
    drawn = draw(mutations, 50, 7)
    assert drawn == draw(mutations, 50, 7) != draw(mutations, 50, 8)
    assert len({(mutant.path, mutant.line) for mutant in drawn}) == 50


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("simulator/analysis/memory.py", "tests/simulator/analysis/test_memory.py"),
        ("simulator/engines/fair.py", "tests/simulator/engines/test_fair.py"),
        ("simulator/collectives/gloo.py", "tests/simulator/collectives/test_gloo.py"),
        ("topologies/routing.py", "tests/topologies/test_routing.py"),
        ("topologies/compilation.py", "tests/topologies/test_compilation.py"),
    ],
)
def test_doctests_come_first_then_the_tests_of_the_file_and_the_laws_last(
    path: str, first: str
) -> None:
    files = nearest(ROOT, path)
    assert files[:2] == [path, first]
    assert {Path(file).parent.name for file in files[-6:]} == {"laws"}
    assert len(set(files)) == len(files)


@pytest.mark.exhaustive
def test_who_imports_a_file_by_way_of_its_package_is_near() -> None:
    """Tests find the algorithms by their names."""
    assert "tests/simulator/analysis/test_memory.py" in nearest(
        ROOT, "simulator/collectives/ring.py"
    )
    assert "tests/topologies/test_units.py" not in nearest(ROOT, "simulator/collectives/ring.py")


def test_who_imports_a_file_by_way_of_another_is_near(tmp_path: Path) -> None:
    files = {
        "simulator/part.py": "",
        "simulator/whole.py": "from simulator import part\n",
        "tests/simulator/test_whole.py": "from simulator.whole import part\n",
        "tests/simulator/test_other.py": "import simulator.other\n",
        "tests/laws/test_law.py": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert nearest(tmp_path, "simulator/part.py") == [
        "simulator/part.py",
        "tests/simulator/test_whole.py",
        "tests/laws/test_law.py",
    ]


@pytest.mark.exhaustive
def test_who_imports_a_part_of_a_strategy_by_way_of_the_strategy_is_near() -> None:
    assert "tests/simulator/training/test_ddp.py" in nearest(
        ROOT, "simulator/training/communicator.py"
    )


def test_every_equivalent_mutant_is_still_there_and_has_a_reason() -> None:
    known = equivalents()
    paths = {path for path, _, _ in known}
    changes = {
        mutant.change for path in paths for mutant in mutants(path, (ROOT / path).read_text())
    }
    assert set(known) <= changes
    assert all(len(reason) > 10 for reason in known.values())


@pytest.mark.exhaustive
def test_survivors_are_printed_and_counted(tmp_path: Path) -> None:
    for folder in ("simulator", "topologies", "experiments", "tests/simulator", "tests/laws"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "tests/mutations", tmp_path / "tests/mutations")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "README.md").write_text("")
    (tmp_path / "simulator/__init__.py").write_text("")
    (tmp_path / "simulator/adding.py").write_text("def total(a, b):\n    return max(a + b, 0)\n")
    (tmp_path / "tests/simulator/test_adding.py").write_text(
        "from simulator.adding import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n"
    )
    (tmp_path / "tests/mutations/equivalent.toml").write_text(
        '[[mutant]]\npath = "simulator/adding.py"\nbefore = "return max(a + b, 0)"\n'
        'after = "return max(a + b, -1)"\nreason = "for this test"\n'
    )
    command = [
        sys.executable,
        "-m",
        "tests.mutations",
        "--file",
        "simulator/adding.py",
        "--workers",
        "1",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    survivor = (
        "simulator/adding.py:2: +1\n    - return max(a + b, 0)\n    + return max(a + b, (1))\n"
    )
    assert run.stdout.startswith(f"{survivor}3 of 4 mutants killed (75.0%)"), run.stderr
    assert run.stderr == "2 test files to time, 4 mutants to try\n4 of 4 tried, 1 survive\n"
    assert run.returncode == 1
