"""Sweeps on a Dask cluster of two workers: the same rows, whoever is killed; and what is wrong with
a cluster, in one line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from experiments import output
from experiments.execution import dask_cluster, executor
from experiments.execution.dask_cluster import DaskCluster
from experiments.execution.journal import Journal, journal_of
from experiments.simulations.grid import Grid, sweep
from extras import needs
from refusals import refusal
from simctl_process import Simctl, mistake
from simulator.collectives import find
from topologies.catalogue import find as find_machine

SCRIPT = """
import json, sys
from distributed import LocalCluster
settings = json.loads(sys.argv[1])
with LocalCluster(
    n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, **settings
) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


class Cluster(NamedTuple):
    """A running cluster."""

    address: str
    """The address of its scheduler."""
    process: "subprocess.Popen[str]"
    """The process of its scheduler, whose end is that of the workers."""


@contextmanager
def two_workers(**settings: object) -> Iterator[Cluster]:
    """A cluster, with further settings of a `distributed.LocalCluster`. It is there until the
    pipe to its process is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield Cluster(process.stdout.readline().strip(), process)
        finally:
            process.communicate()


pytestmark = needs("distributed", "dask")
NAMES, RANKS, SIZES = ("ring", "nvls", "tree"), range(2, 9), (2.0**10, 2.0**30)
SWEEP = ("sweep", "--algo", ",".join(NAMES), "--p", "2..8", "--size", "1KiB,1GiB")
TRAIN = ("train", "--model", "resnet50:batch=2", "--p", "1..3", "--sweep", "overlap=yes,no")
GRID = Grid([find(name) for name in NAMES], RANKS, SIZES, find_machine("star").build)
PACKAGE = "simctl-collectives"
STORY = """
import json, os, signal, sys
from experiments.cli import main
from experiments.execution import executor
from experiments.execution.journal import Journal

executor.SHORTEST_CHUNK, moment, add = 1e-6, int(sys.argv.pop()), Journal.add

def deadly(journal, number, result):
    global moment
    moment -= 1
    if moment < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    add(journal, number, result)

Journal.add = deadly
main()
"""
"""Runs simctl until it stores the result of a number that is the last argument."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_workers() as running:
        yield running


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHORTEST_CHUNK", 1e-6)


def rows(**options: Any) -> str:
    """The csv of the grid."""
    missing: list[object] = []
    records = [row.record() for row in sweep(GRID, missing=missing.append, **options)]
    assert len(records) + len(missing) == len(GRID.costs)
    return output.to_csv(records)


def test_rows_are_those_of_one_process(cluster: Cluster, simctl: Simctl, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster.address}))
    serial = simctl(*SWEEP, "--format", "csv")
    for place in (cluster.address, file):
        done = simctl(*SWEEP, "--format", "csv", "--out", tmp_path / "x.csv", "--jobs", place)
        assert (done.returncode, done.stdout) == (0, serial.stdout)
        assert done.stderr.endswith(serial.stderr)
        assert (tmp_path / "x.csv").read_text() == serial.stdout


@pytest.mark.exhaustive
def test_training_runs_are_those_of_one_process(cluster: Cluster, simctl: Simctl) -> None:
    serial = simctl(*TRAIN, "--format", "csv")
    assert simctl(*TRAIN, "--format", "csv", "--jobs", cluster.address).stdout == serial.stdout


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 5))]
)
def test_a_killed_worker_costs_no_point(seed: int, cluster: Cluster) -> None:
    from distributed import Client

    random, numbers = Random(seed), list[int]()
    moment = random.randrange(1, 20)
    with Client(cluster.address, set_as_default=False) as client:
        pids = sorted(client.run(os.getpid).values())

    def deadly(number: int) -> None:
        numbers.append(number)
        if len(numbers) == moment:
            os.kill(random.choice(pids), signal.SIGKILL)

    executor = DaskCluster(cluster.address)
    assert rows(executor=executor, finished=deadly) == rows()
    executor.close()
    assert sorted(numbers) == list(range(len(GRID.costs)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("moment", [2, 20])
def test_a_killed_sweep_goes_on(
    moment: int, cluster: Cluster, simctl: Simctl, tmp_path: Path
) -> None:
    arguments = *SWEEP, "--format", "csv", "--out", str(tmp_path / "x.csv")
    where = "--jobs", cluster.address
    done = subprocess.run(
        [sys.executable, "-c", STORY, *arguments, *where, str(moment)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert len(journal_of(tmp_path / "x.csv").read_bytes().splitlines()) == 1 + moment
    assert simctl(*arguments, *where, "--resume").stdout == rows()
    assert (tmp_path / "x.csv").read_text() == rows()
    assert not journal_of(tmp_path / "x.csv").exists()


@pytest.mark.exhaustive
def test_a_sweep_goes_on_after_its_scheduler_is_lost(tmp_path: Path) -> None:
    out, facts = tmp_path / "x.csv", output.facts({})
    with two_workers() as lost, Journal(out, facts, resume=False) as journal:
        executor = DaskCluster(lost.address)
        message = refusal(
            rows, executor=executor, journal=journal, finished=lambda number: lost.process.kill()
        )
        executor.close()
    assert message == (
        f"the scheduler at {lost.address} is gone: start it, and go on with --resume"
    )
    with Journal(out, facts, resume=True) as journal:
        assert journal.results
        assert rows(journal=journal) == rows()


def test_a_scheduler_that_does_not_answer_is_named(
    simctl: Simctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 0.2)
    assert mistake(simctl(*SWEEP, "--jobs", "tcp://127.0.0.1:1")).startswith(
        "simctl: --jobs tcp://127.0.0.1:1: no scheduler answers there ("
    )


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"address": 3}', '{"address": "x"}'])
def test_what_is_no_scheduler_is_named(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    for place in ("scheduler", "http://host:8786", "tcp://host", str(file)):
        assert refusal(DaskCluster, place) == (
            f"--jobs {place[:80]!r} is no number of processes, no address like "
            f"tcp://host:8786, and no scheduler file"
        )


def test_a_worker_that_comes_later_is_checked_too() -> None:
    message = refusal(dask_cluster._run, list, "9.9", [1])
    assert message == f"a worker has simctl {version(PACKAGE)}: install simctl 9.9 there"
    assert dask_cluster._run(list, version(PACKAGE), [1]) == [1]


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert refusal(DaskCluster, "tcp://127.0.0.1:8786") == (
        "--jobs tcp://127.0.0.1:8786 needs dask, which is not installed: pip install '.[dask]'"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheduler", [False, True])
@pytest.mark.parametrize("found", ["", "9.9"])
def test_a_worker_or_scheduler_without_this_simctl_is_named(
    scheduler: bool, found: str, tmp_path: Path, simctl: Simctl
) -> None:
    preload = tmp_path / "other_simctl.py"
    answer = f"return {found!r}" if found else "raise metadata.PackageNotFoundError(package)"
    preload.write_text(
        "from importlib import metadata\n"
        f"def version(package):\n    {answer}\n"
        "metadata.version = version\n"
    )
    settings: dict[str, object] = {"preload": [str(preload)]}
    with two_workers(**({"scheduler_kwargs": settings} if scheduler else settings)) as other:
        done = simctl(*SWEEP, "--jobs", other.address)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    where = f"the scheduler {other.address}" if scheduler else "worker tcp://127.0.0.1:"
    what = f"simctl {found}" if found else "no simctl"
    assert line.startswith(f"simctl: {where}")
    assert line.endswith(f" has {what}: install simctl {version(PACKAGE)} there")


@pytest.mark.exhaustive
def test_a_package_that_is_missing_is_named() -> None:
    missing = PackageNotFoundError(PACKAGE)
    assert refusal(dask_cluster._check_version, "worker tcp://h:1", missing, "1.0") == (
        "worker tcp://h:1 has no simctl: install simctl 1.0 there"
    )
