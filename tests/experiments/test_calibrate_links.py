"""`calibrate` as a user calls it: `--links` and `--gap`, few points, and runs on a machine whose
NICs are known, which `--topology` names."""

import subprocess
from pathlib import Path

import pytest

from csv_texts import rows_of
from experiments.commands.calibrate import Calibrate
from experiments.profiles import read
from simctl_process import Simctl

HEADER = "collective,algorithm,ranks,nodes,size_bytes,time_us,library\n"
PAIRS = """\
srun -N 2 -n 8 ./osu_mbw_mr
# OSU MPI Multiple Bandwidth / Message Rate Test v5.7
# [ pairs: 4 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1048576             20000.00          19073.49
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two points of NCCL's ring on four nodes."""
    path = tmp_path / "two.csv"
    path.write_text(
        HEADER
        + "".join(f"all_reduce,ring,16,4,{4**k},{60 + 4**k / 1e4},NCCL 2.30\n" for k in (9, 13))
    )
    return path


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "p2p.txt"
    path.write_text(PAIRS)
    return path


def refused(answer: "subprocess.CompletedProcess[str]") -> str:
    assert (answer.returncode, answer.stdout) == (2, "")
    (line,) = [
        line for line in answer.stderr.splitlines() if not line.startswith(("note:", "steps:"))
    ]
    return line


def test_two_points_do_where_links_were_measured(
    simctl: Simctl, two: Path, links: Path, tmp_path: Path
) -> None:
    assert simctl("calibrate", two).returncode == 0
    answer = simctl("calibrate", two, "--links", links, "--out", tmp_path / "mine.yaml")
    assert answer.returncode == 0, answer.stderr
    assert "note: links: 20GB/s out of a node" in answer.stderr
    profile = read(tmp_path / "mine.yaml")
    assert {"sha256 of two.csv", "sha256 of p2p.txt"} <= profile.made.keys()
    assert profile.sources == ["two.csv: all_reduce, 16 ranks"]
    start = profile.protocols["LL128"]["network"].bandwidth
    assert start == pytest.approx(0.92 * 20e9, rel=0.3)


def test_bandwidths_of_many_messages_in_flight_are_not_fitted_as_times(
    simctl: Simctl, links: Path
) -> None:
    line = refused(simctl("calibrate", links, "--library", "mpi"))
    assert "0 points to fit: expected at least 2: " in line
    assert line.endswith("of many messages in flight, not the time of one: it is for --links")


def test_links_are_between_nodes_with_a_port_each(
    simctl: Simctl, two: Path, links: Path, tmp_path: Path
) -> None:
    assert "no point-to-point run between two nodes" in refused(
        simctl("calibrate", two, "--links", two)
    )
    line = refused(simctl("calibrate", two, "--links", links, "--topology", "hgx_h100"))
    assert line.endswith("--links are of nodes with a port each: leave out --topology hgx_h100")
    inside = tmp_path / "inside.csv"
    inside.write_text(two.read_text().replace(",16,4,", ",4,1,"))
    assert "all runs are on one node" in refused(simctl("calibrate", inside, "--links", links))


def test_impossible_links_are_doubted(simctl: Simctl, two: Path, tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    path.write_text("collective,ranks,nodes,size_bytes,time_us\nsend_recv,2,2,1073741824,0.05\n")
    answer = simctl("calibrate", two, "--links", path)
    assert (
        "note: seconds.csv, row of 1GiB: it moves 21.47PB/s, which is impossible" in answer.stderr
    )


@pytest.mark.exhaustive
def test_no_gap_is_found_where_nothing_tells_it(simctl: Simctl, tmp_path: Path) -> None:
    path, out = tmp_path / "runs.csv", tmp_path / "mine.yaml"
    rows = (
        f"all_reduce,ring,{p},{p},{4**k},{5 + 2 * (p - 1) * (3 + 4**k / p / 2000)},Open MPI\n"
        for p in (4, 8)
        for k in range(4, 14)
    )
    path.write_text(HEADER + "".join(rows))
    assert simctl("calibrate", path, "--gap", "--out", out).returncode == 0
    assert not [name for name in read(out).estimates if name.endswith(" g")]


@pytest.mark.exhaustive
def test_a_curve_in_another_unit_is_named(simctl: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    rows = (
        f"all_reduce,recursive_doubling,{n},{n},{size},{(1 + size / 1e5) * unit:.5f},Open MPI\n"
        for n, unit in ((4, 1.0), (8, 1e9), (16, 1.0))
        for size in (1024, 65536, 1 << 20, 1 << 24)
    )
    path.write_text(HEADER + "".join(rows))
    answer = simctl("calibrate", path)
    assert answer.returncode == 0
    (line,) = (line for line in answer.stderr.splitlines() if "all_reduce on 8 ranks is" in line)
    assert float(line.partition(" ranks is ")[2].partition(" times slower")[0]) > 1e6


def test_a_profile_is_judged_by_few_points_as_it_is(simctl: Simctl, two: Path) -> None:
    answer = simctl("validate", two, "--profile", "mn5_acc", "--held-out")
    assert answer.returncode == 0
    assert "of 2 points: mean" in answer.stdout
    assert "note: 2 points: too few to fit without some of them" in answer.stderr
    assert "unseen" not in answer.stdout


MACHINE = "mn5_acc:nodes=4"
NIC = 20e9
"""Bytes a second of each of the four NICs of a node."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ring that takes all four NICs of each of four nodes."""
    path = tmp_path_factory.mktemp("machine") / "runs.csv"
    sizes = [4**k for k in range(5, 16, 2)]
    times = [40 + size * 2 * 15 / 16 / (4 * NIC) * 1e6 for size in sizes]
    rows = zip(sizes, times, strict=True)
    lines = [f"all_reduce,ring,16,4,{size},{time},NCCL 2.20" for size, time in rows]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def profile(runs: str) -> str:
    path = Path(runs).with_name("mine.yaml")
    request = Calibrate(files=[Path(runs)], topology=MACHINE, out=path, format="csv")
    assert request.run() == 0
    return str(path)


def rows(answer: "subprocess.CompletedProcess[str]") -> list[dict[str, str]]:
    assert answer.returncode == 0, answer.stderr
    return rows_of(answer.stdout)


def test_a_nic_is_as_fast_as_its_share_of_the_ring(profile: str) -> None:
    estimate = read(Path(profile)).estimates["Simple ib 1/β"]
    assert 1 / estimate.value == pytest.approx(NIC, rel=0.1)


def test_judge_and_diagnose_expect_rings_over_all_nics(
    simctl: Simctl, profile: str, runs: str
) -> None:
    judged = rows(simctl("validate", runs, "--profile", profile, "--held-out", "--format", "csv"))
    assert {row["algorithm"] for row in judged} == {"rings"}
    assert abs(float(judged[-1]["error"])) < 0.1
    largest = rows(simctl("diagnose", runs, "--profile", profile, "--format", "csv"))[-1]
    assert float(largest["expected_s"]) == pytest.approx(float(largest["time_s"]), rel=0.1)


def test_rings_are_what_was_measured(simctl: Simctl, profile: str) -> None:
    words = "--p", "16", "--size", "1MiB", "--profile", profile, "--format", "csv"
    (row,) = rows(simctl("sweep", "--algo", "rings", *words))
    assert row["unsure"] == ""


def test_a_log_is_compared_with_rings(simctl: Simctl, runs: str) -> None:
    words = "--library", "nccl", "--topology", MACHINE, "--format", "csv"
    names = {row["algorithm"] for row in rows(simctl("validate", runs, *words))}
    assert names == {"rings"}
