"""Settings of all tests: a busy machine, or code that is compiled on first use, is no failure.

Tensors are small: one thread, as more would mostly wait for each other. A law that names no number
of examples is tried on a few, and with `-m exhaustive` on many.
"""

import gc
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

import experiments

settings.register_profile("few", deadline=None, max_examples=7)
settings.register_profile("many", deadline=None, max_examples=100)
settings.load_profile("few")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SIMCTL_COMPILE", "needed")
# The wheel, which these tests test, has no studies: they come from the tree.
experiments.__path__.append(str(Path(__file__).parents[1] / "experiments"))


def is_exhaustive(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "exhaustive")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fuzzers", "tests/fuzz, with -m exhaustive")
    group.addoption(
        "--fuzz-count", type=int, help="cases of each fuzzer, with limits of time and memory"
    )
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of the fuzzers")


def pytest_configure(config: pytest.Config) -> None:
    if is_exhaustive(config):
        settings.load_profile("many")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All laws are among the exhaustive tests, before those are picked."""
    for item in items if is_exhaustive(config) else ():
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("exhaustive")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that cannot be imported is an error, unless it needs torch and torch is missing.

    pytest would skip it with all its tests: doctests of files that import torch need
    `--doctest-ignore-import-errors`.
    """
    report = yield
    if report.skipped and "unable to import module" in str(report.longrepr):
        source = collector.path.read_text()
        needs_torch = re.search(r"^\s*(import|from) torch", source, re.MULTILINE) is not None
        if not needs_torch or find_spec("torch") is not None:
            report.outcome = "failed"
            shown = "pytest -o addopts=--import-mode=importlib"
            report.longrepr = f"{collector.path} cannot be imported: {shown} says why"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """The tests themselves, thousands, are no garbage: not looked at while they are collected, nor
    again. Later garbage is looked for after as many objects as a test makes, not after 700."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000)
        gc.enable()


@pytest.fixture
def simctl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., "subprocess.CompletedProcess[str]"]]:
    """The command line in this process, where all is imported already."""
    from experiments.cli import main

    def here(*arguments: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        if cwd:
            monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["simctl", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        assert isinstance(stop.value.code, int | None)
        return subprocess.CompletedProcess(sys.argv, stop.value.code or 0, *capsys.readouterr())

    logger = logging.getLogger("simctl")
    level = logger.level
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    yield here
    logger.setLevel(level)


@pytest.fixture
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many bytes of memory be free."""
    from topologies import resources

    def let(nbytes: float) -> None:
        file = tmp_path / "proc" / "meminfo"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"MemAvailable: {nbytes // 1024:.0f} kB\n")
        monkeypatch.setattr(resources, "SYSTEM", tmp_path)

    return let
