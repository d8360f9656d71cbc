"""`simctl recommend`: the best algorithm by size, and a map by ranks."""

import json
from pathlib import Path
from typing import Any

import pytest

from csv_texts import rows_of
from experiments.commands.recommend import Recommend
from experiments.options.options import Format
from experiments.simulations.winners import LAST
from simctl_process import Simctl
from tuner_files import read_tuner

STAR = ("recommend", "--topology", "star", "--p", "4", "--size", "1KiB,1MiB")


def test_records(simctl: Simctl) -> None:
    rows = rows_of(simctl(*STAR, "--format", "csv").stdout)
    report = json.loads(simctl(*STAR, "--format", "json").stdout)
    assert [row["algorithm"] for row in rows] == [row["algorithm"] for row in report["advice"]]
    assert report["crossovers"][0]["after"] == rows[1]["algorithm"]
    assert all(float(row["time_s"]) >= float(row["bound_s"]) for row in rows)
    assert {left["name"] for left in report["not_tried"]} >= {"sharp", "nvls"}


@pytest.mark.parametrize("ranks", ["8", "4,8"])
def test_advice_without_a_library_names_the_option(simctl: Simctl, ranks: str) -> None:
    """NCCL runs neither the naive algorithm nor a parameter server."""
    words = ("recommend", "--topology", "hgx_h100", "--p", ranks, "--size", "1KiB")
    line = "Any software may run: --library nccl advises only what NCCL can run on the machine"
    assert line in simctl(*words).stdout
    assert "Any software" not in simctl(*words, "--library", "nccl").stdout


@pytest.mark.exhaustive
def test_one_size_is_explained(simctl: Simctl) -> None:
    line = (*STAR[:5], "--explain", "64KiB")
    done = simctl(*line)
    assert "Algorithms compared: all_reduce, 4 ranks, 64KiB on star" in done.stdout
    assert "where the time goes" in done.stdout
    rows = json.loads(simctl(*line, "--format", "json").stdout)
    assert rows[0]["over_best"] == 1.0


def test_files(simctl: Simctl, tmp_path: Path) -> None:
    """The ranges of the tuner's file join, and the choices are those of the simulation."""
    tuner, plot = tmp_path / "tuner.csv", tmp_path / "times.svg"
    sizes = ("--size", "1KiB,1MiB,256MiB")
    done = simctl(
        *("recommend", "--topology", "hgx_h100", "--collective", "all_gather", *sizes),
        *("--nccl-tuner", str(tuner), "--plot", str(plot)),
    )
    assert done.returncode == 0, done.stderr
    lines = read_tuner(tuner)
    assert [line.least for line in lines] == [0, *(line.most + 1 for line in lines[:-1])]
    assert lines[-1].most == LAST
    assert {line.collective for line in lines} == {"allgather"}
    assert {(line.nodes, line.ranks) for line in lines} == {(1, 8)}
    assert plot.read_text().startswith("<?xml")


SIZES = [2.0**10, 2.0**26]


def printed(capsys: pytest.CaptureFixture[str], how: Format, **files: Any) -> str:
    request = Recommend(p="2,3", size="1KiB,64MiB", topology="star", format=how, **files)
    assert request.run() == 0
    return capsys.readouterr().out


def test_rows_have_the_second_and_its_margin(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(printed(capsys, "csv"))
    assert [(row["ranks"], float(row["size_B"])) for row in rows] == [
        (ranks, size) for ranks in ("2", "3") for size in SIZES
    ]
    for row in rows:
        assert row["second"].partition(":")[0] != row["algorithm"].partition(":")[0]
        margin = float(row["second_time_s"]) / float(row["time_s"])
        assert float(row["margin"]) == pytest.approx(margin)
        assert margin > 1 - 1e-6


def test_files_and_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot, tuner, report = (tmp_path / name for name in ("map.svg", "tuner.csv", "a.html"))
    text = printed(capsys, "table", plot=plot, nccl_tuner=tuner, report=report)
    machine, title, _, head, *_ = [line for line in text.split("\n") if line]
    assert machine.startswith("machine: star")
    assert title == "Best algorithms: all_reduce on star"
    assert head.split() == ["size", "p", "=", "2", "p", "=", "3"]
    assert plot.read_text().startswith("<?xml")
    assert {line.ranks for line in read_tuner(tuner)} == {2, 3}
    assert "Who wins where" in report.read_text()
    document = json.loads(printed(capsys, "json"))
    assert {left["name"] for left in document["not_tried"]} >= {"sharp", "nvls"}


LEAVES = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\n"


def placed(folder: Path, hosts: str, *more: str) -> tuple[str, ...]:
    path = folder / "topology.conf"
    path.write_text(LEAVES, encoding="utf-8")
    machine = "--topology", "hgx_h100:network=leaf_spine,nics=1"
    return "recommend", *machine, "--placement", f"{path}:{hosts}", *more


def test_a_placement_says_what_it_costs(simctl: Simctl, tmp_path: Path) -> None:
    """Hosts in turn over two leaves: dp of each stage crosses the spines, which costs nothing with
    one NIC and full uplinks, but latency."""
    call = placed(tmp_path, "n[1,3,2,4]", "--plan", "tp=8,dp=2,pp=2", "--size", "1KiB,1GiB")
    done = simctl(*call, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["hosts"], report["groups"], report["fewest"]) == (4, 2, 2)
    assert report["order"] == ["n1", "n2", "n3", "n4"]
    rows = {(row["group"], row["size_B"]): row for row in report["collectives"]}
    assert {group for group, _ in rows} == {"tp", "dp", "pp"}
    assert rows["dp", 1024]["cost"] > 1.05 > rows["dp", 2**30]["cost"]
    assert rows["dp", 1024]["in_order_s"] == rows["dp", 1024]["packed_s"]
    page = tmp_path / "page.html"
    done = simctl(*call, "--report", str(page))
    assert "What the placement costs" in done.stdout
    assert "n1,n2,n3,n4" in done.stdout
    assert "The hosts, one leaf after the other" in page.read_text(encoding="utf-8")


def test_a_placement_goes_with_every_command(simctl: Simctl, tmp_path: Path) -> None:
    done = simctl("sweep", *placed(tmp_path, "n[3,1]")[1:], "--algo", "ring", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [row["ranks"] for row in rows_of(done.stdout)] == ["16"]


def test_new_weights_are_sent_over_all_nics(simctl: Simctl) -> None:
    """A broadcast of NCCL uses a chain for each NIC: it is near what the NICs of a node carry."""
    call = "recommend", "--collective", "broadcast", "--topology", "hgx_h100:nodes=2"
    report = json.loads(simctl(*call, "--explain", "16GB", "--format", "json").stdout)
    times = {row["algorithm"]: row["time_s"] for row in report}
    one_nic = 16e9 / 50e9
    assert times["chain_broadcast"] > one_nic
    assert one_nic / 8 < times["chains_broadcast"] < one_nic / 4
