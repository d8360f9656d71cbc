"""Compiled kernels on disk: where they are, and what happens where they cannot be.

Each story runs in processes of its own.
"""

import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from compiling_processes import (
    CHAIN,
    COMPILE_ONE,
    DEPTHS,
    SIMULATE,
    Answer,
    cached,
    copied,
    run,
    warnings_in,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copied(tmp_path)


class Cache(NamedTuple):
    """Three processes one after the other, the last with another kernel of the same name; files
    after the first."""

    tree: Path
    folder: Path
    files: list[Path]
    first: Answer
    second: Answer
    changed: Answer


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    tree, folder = copied(tmp_path_factory.mktemp("packages")), tmp_path_factory.mktemp("cache")
    first = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    files = cached(folder)
    second = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    source = tree / "simulator" / "kernels" / "dependencies.py"
    text = source.read_text()
    assert text.count("depth[i] = deepest + weight[i]") == 1
    source.write_text(
        text.replace("depth[i] = deepest + weight[i]", "depth[i] = deepest - weight[i]")
    )
    changed = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(folder))
    return Cache(tree, folder, files, first, second, changed)


# Where.


def test_the_cache_is_where_the_environment_says_under_a_name_with_the_versions(
    cache: Cache,
) -> None:
    answer, error = cache.first
    assert answer == {"depths": DEPTHS, "built": True}
    assert warnings_in(error) == 0
    (folder,) = cache.folder.iterdir()
    versions = (f"{package}-{metadata.version(package)}" for package in ("numba", "llvmlite"))
    assert folder.name.startswith("-".join((*versions, str(sys.implementation.cache_tag))))
    assert [file.parent for file in cache.files] == [folder]


@pytest.mark.exhaustive
def test_without_a_word_the_cache_is_the_users(tree: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / "cache")}
    answer, _ = run(COMPILE_ONE, tree, **home)
    assert answer["depths"] == DEPTHS
    assert len(cached(tmp_path / "home")) == 1


def test_a_second_process_finds_what_the_first_compiled(cache: Cache) -> None:
    (first, _), (second, error) = cache.first, cache.second
    assert (first["built"], second["built"]) == (True, False)
    assert second["depths"] == DEPTHS
    assert error == ""


def test_another_installation_of_the_same_kernels_finds_them_too(cache: Cache, tree: Path) -> None:
    """Neither the folder of the installation nor the age of its files matters."""
    answer, _ = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(cache.folder))
    assert answer == {"depths": DEPTHS, "built": False}


EMPTY, LACKING = (pytest.param(size, marks=pytest.mark.exhaustive) for size in (0, -1))


@pytest.mark.parametrize("size", [EMPTY, 100, LACKING])
def test_a_damaged_file_is_compiled_again(
    cache: Cache, tmp_path: Path, size: int, tree: Path
) -> None:
    folder = tmp_path / "cache" / cache.files[0].parent.name
    folder.mkdir(parents=True)
    content = cache.files[0].read_bytes()
    (folder / cache.files[0].name).write_bytes(content[:size])
    answer, _ = run(COMPILE_ONE, tree, SIMCTL_CACHE_DIR=str(tmp_path / "cache"))
    assert answer == {"depths": DEPTHS, "built": True}
    assert len((folder / cache.files[0].name).read_bytes()) == len(content)


# Where it cannot be.


@pytest.mark.exhaustive
def test_without_any_writable_folder_it_works_uncached_with_one_warning(tree: Path) -> None:
    for package in ("simulator", "topologies"):
        (tree / package / "__pycache__").write_text("a file, so that no folder can be made here")
    nowhere = {
        "HOME": "/dev/null/x",
        "XDG_CACHE_HOME": "/dev/null/x",
        "SIMCTL_CACHE_DIR": "/dev/null/x",
    }
    code = f"{CHAIN}\nout = np.zeros(6, np.int32), np.zeros(3, np.int32)\n"
    code += "compiled(dependencies.invert)(line, before, *out)\n"
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
            SIMULATE, {"same": True, "makespan": 9.0, "built": True}, marks=pytest.mark.exhaustive
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


def test_a_changed_kernel_is_compiled_again(cache: Cache) -> None:
    assert cache.first[0]["depths"] == DEPTHS
    answer, _ = cache.changed
    assert answer == {"depths": [-1] * 4, "built": True}


RECORDS = """
import numpy as np
from simulator.kernels.records import Ranks
from simulator.kernels.sizes import copy_of
from topologies._compile import compiled
import sys
answer = dict(
    copy=compiled(copy_of)(Ranks(reduction=np.full(2, 3.0), copy=np.full(2, 5.0), lanes=1)),
    built="numba" in sys.modules,
)
"""
KERNEL = """
from simulator.kernels.records import Floats, Ranks
def copy_of(ranks: Ranks) -> float:
    return first(ranks.copy)
def first(column: Floats) -> float:
    return column[0]
"""


@pytest.mark.exhaustive
def test_a_kernel_is_compiled_again_when_fields_of_a_record_change_places(
    tree: Path, tmp_path: Path
) -> None:
    """Numba takes both for the same type: the class has the same name, the fields the same
    dtypes."""
    folder = tmp_path / "cache"
    (tree / "simulator" / "kernels" / "sizes.py").write_text(KERNEL)
    answers = [run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))[0] for _ in range(2)]
    assert answers == [{"copy": 5.0, "built": True}, {"copy": 5.0, "built": False}]
    records = tree / "simulator" / "kernels" / "records.py"
    text = records.read_text()
    assert text.count("    reduction: Floats\n") == text.count("    copy: Floats\n") == 1
    swapped = text.replace("    copy: Floats\n", "    swapped: Floats\n")
    swapped = swapped.replace("    reduction: Floats\n", "    copy: Floats\n")
    records.write_text(swapped.replace("    swapped: Floats\n", "    reduction: Floats\n"))
    answer, _ = run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))
    assert answer == {"copy": 5.0, "built": True}


CALLER = """
from simulator.kernels.firsts import first
from simulator.kernels.records import Ranks
def copy_of(ranks: Ranks) -> float:
    return first(ranks.copy)
"""
FUNCTION = """
from simulator.kernels.records import Floats
def first(column: Floats) -> float:
    return column[0]
"""


@pytest.mark.exhaustive
def test_a_kernel_is_compiled_again_when_a_function_of_another_file_changes(
    tree: Path, tmp_path: Path
) -> None:
    folder, kernels = tmp_path / "cache", tree / "simulator" / "kernels"
    (kernels / "firsts.py").write_text(FUNCTION)
    (kernels / "sizes.py").write_text(CALLER)
    answers = [run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))[0] for _ in range(2)]
    assert answers == [{"copy": 5.0, "built": True}, {"copy": 5.0, "built": False}]
    (kernels / "firsts.py").write_text(FUNCTION.replace("column[0]", "column[0] + 2"))
    answer, _ = run(RECORDS, tree, SIMCTL_CACHE_DIR=str(folder))
    assert answer == {"copy": 7.0, "built": True}
