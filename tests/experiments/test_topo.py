"""`simctl topo`: lists, facts of machines worked out by hand, files that are read back the same,
one line a mistake."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest

from csv_texts import rows_of
from experiments.commands.list import List, _machines
from experiments.commands.topo import FILES, PATHS, SHOWN, ImportedMachine, ShownMachine
from experiments.machine_facts import BOUNDS, PAIRS, facts
from experiments.options.options import Format
from law_cases import a_third
from refusals import refusal
from topologies.catalogue import find
from topologies.clusters import MACHINES, cluster
from topologies.columns import Texts
from topologies.readers.files import read, to_yaml
from topologies.shapes import SHAPES
from topologies.topology import Paths, Topology
from topologies.topology_builder import TopologyBuilder

STAR = """\
star: 4 ranks

devices
  gpu     4
  switch  1

links (one that is full-duplex counts once)
  kind  number  bandwidth  latency  gap
  link       4     10GB/s      2us   0s

between ranks
  routes     of equal ones the first
  diameter   2 links, 4us
  bisection  20GB/s

rings
  1 channel, 10GB/s together
  ring 0: 0 1 2 3

no algorithm does 1GiB faster than
  all_reduce      161.1ms  all ports
  reduce_scatter  80.53ms  injection port
  all_gather      80.53ms  ejection port
  all_to_all      80.53ms  injection port
  broadcast       107.4ms  injection port
  reduce          107.4ms  injection port
"""
"""V/β is 107.374 ms: all ports carry 2(p-1)V/p, a port (p-1)V/p or V."""


def shown(
    text: str, capsys: pytest.CaptureFixture[str], p: str | None = None, how: str = "table"
) -> str:
    ShownMachine(name=text, p=p, format=cast(Format, how)).run()
    return capsys.readouterr().out


def record(text: str, capsys: pytest.CaptureFixture[str], p: str | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(shown(text, capsys, p, "json"))
    return document


def block(text: str, title: str) -> list[list[str]]:
    """The words of the lines of a block of the report."""
    (lines,) = (
        part.splitlines()[1:] for part in text.strip().split("\n\n") if part.startswith(title)
    )
    return [line.split() for line in lines]


def same(machine: Topology, copy: Topology) -> bool:
    """Whether two machines are equal in every column."""
    pairs = [
        (getattr(machine, field.name), getattr(copy, field.name))
        for field in fields(Topology)
        if field.init and not field.name.startswith("_")
    ]
    return all(
        a == b if isinstance(a, str | tuple | Texts) else np.array_equal(a, b) for a, b in pairs
    )


def test_a_star_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("star:bandwidth=10GB/s,latency=2us", capsys, "4") == STAR


def test_one_way_links_and_what_they_share(capsys: pytest.CaptureFixture[str]) -> None:
    report = shown("bus", capsys, "5")
    assert ["bus", "5", "50GB/s", "1us", "0s", "one", "way"] in block(report, "links")
    assert ["bus", "5", "unlimited", "0s", "0s", "one", "way"] in block(report, "links")
    assert block(report, "shared media") == [["bus", "50GB/s", "shared", "by", "5", "links"]]


def test_long_lists_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    report = shown("full_mesh_one_port", capsys, "40")
    assert len(block(report, "shared media")) == SHOWN + 1
    assert block(report, "shared media")[-1] == ["and", "72", "more", "media"]
    (ring,) = block(report, "rings")[1:]
    assert ring == ["ring", "0:", *map(str, range(16)), "...", "39"]


def test_json_has_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    document = record("dgx1", capsys)
    assert (document["name"], document["ranks"], document["nodes"], document["paths"]) == (
        "dgx1",
        8,
        1,
        "rail",
    )
    assert document["devices"] == {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 4}
    assert sum(link["number"] for link in document["links"]) * 2 == cluster("dgx1").links
    assert document["links"][0] == {
        "kind": "nvlink",
        "bandwidth_Bps": 40e9,
        "latency_s": 0.6e-6,
        "gap_s": 0.0,
        "assumed": False,
        "duplex": True,
        "number": 8,
    }
    assert (document["diameter_hops"], document["diameter_s"], document["bisection_exact"]) == (
        2,
        1.2e-6,
        True,
    )
    assert document["rings_Bps"] == 120e9
    assert all(sorted(order) == list(range(8)) for order in document["rings"])
    assert [bound["collective"] for bound in document["bounds"]] == [
        *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce")
    ]
    # 14 V through the 48 NVLinks (20 GB/s each) and 8 PCIe links (12 GB/s) that leave GPUs
    assert document["bounds"][0]["time_s"] == pytest.approx(14 * 2**30 / (48 * 20e9 + 8 * 12e9))
    assert document["skipped"] == {}


def test_csv_has_a_fact_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(shown("bus", capsys, "3", "csv"))
    facts = {(row["part"], row["item"], row["field"]): row["value"] for row in rows}
    assert len(facts) == len(rows)
    assert facts["devices", "gpu", ""] == "3"
    assert facts["links", "1", "bandwidth_Bps"] == "50000000000.0"
    assert facts["rings", "0", ""] == "0 1 2"
    assert float(facts["bounds", "0", "time_s"]) == pytest.approx(4 * 2**30 / 50e9)


@pytest.mark.parametrize("text", a_third([*SHAPES, *MACHINES], 0))
def test_everything_can_be_shown(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = shown(text, capsys)
    assert "skipped" not in report
    assert len(block(report, "no algorithm")) == 6
    (diameter,) = re.findall(r"^  diameter +(\d+) links?, ", report, re.MULTILINE)
    assert int(diameter) >= 1


def test_every_choice_of_routes_has_words() -> None:
    assert set(PATHS) == set(get_args(Paths))


def test_what_is_too_large_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    report = shown(f"hgx_h100:nodes={BOUNDS // 8 + 1}", capsys)
    for what, most in (("diameter ", PAIRS), ("bisection", None)):
        assert any(line.strip().startswith(what) for line in report.splitlines()), what
        assert most is None or f"{what}  not looked for beyond {most} ranks" in report
    assert block(report, "rings") == [f"not looked for beyond {PAIRS} ranks".split()]
    assert block(report, "no algorithm") == [f"not looked for beyond {BOUNDS} ranks".split()]


def test_one_rank_has_nothing_between_ranks() -> None:
    builder = TopologyBuilder("alone")
    summary = facts(builder.build([builder.device("gpu0")]))
    assert set(summary["skipped"].values()) == {"there are no two ranks"}
    assert (summary["links"], summary["rings"], summary["bounds"], summary["diameter_s"]) == (
        [],
        [],
        [],
        None,
    )


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    List(what="machines").run()
    listed = capsys.readouterr().out
    shapes, machines, options = (
        block(listed, title) for title in ("shapes", "machines", "options")
    )
    # Long summaries go on in lines below.
    assert [row[0] for row in shapes if row[0] in SHAPES] == [*SHAPES]
    assert [row[0] for row in machines if row[0] in MACHINES] == [*MACHINES]
    [dgx1] = (row for row in machines if row[0] == "dgx1")
    assert dgx1[1:3] == ["8", "4"]
    assert ["k", "fat_tree", "ports", "of", "a", "switch,", "like", "4"] in options
    assert "MiB" not in listed
    assert ":func:" not in listed


@pytest.mark.parametrize("how", ["csv", "json"])
def test_the_list_as_records(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    List(what="machines", format=cast(Format, how)).run()
    text = capsys.readouterr().out
    rows = json.loads(text) if how == "json" else rows_of(text)
    assert [row["name"] for row in rows] == [*SHAPES, *MACHINES]
    nvl72 = next(row for row in rows if row["name"] == "nvl72")
    assert (str(nvl72["gpus"]), str(nvl72["nics"]), nvl72["network"], nvl72["port"]) == (
        "72",
        "72",
        "rails",
        "ndr",
    )
    assert {row["kind"] for row in rows} == {"shape", "machine"}


def test_every_listed_option_is_taken() -> None:
    for row in _machines()[0]:
        for option in str(row["options"]).split():
            text = f"{row['name']}:{option}=!"
            message = refusal(lambda text=text: find(text).whole())
            assert "'!'" in message
            assert "has no option" not in message


def test_a_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ShownMachine(name="ring", p="4", plot=tmp_path / "ring.png").run()
    assert (tmp_path / "ring.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.startswith("ring: 4 ranks\n")


@pytest.mark.parametrize("suffix", FILES)
def test_a_machine_is_read_back_equal(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = tmp_path / "dgx1.yaml", tmp_path / f"again{suffix}"
    first.write_text(to_yaml(cluster("dgx1")))
    ImportedMachine(source=str(first), out=again).run()
    assert same(read(again), cluster("dgx1"))
    caught = capsys.readouterr()
    assert caught.out == ""
    line = "note: read 8 ranks, 18 devices, 33 links, all with figures of their own; wrote "
    assert caught.err == f"{line}{again}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([first.name, again.name])


def test_what_is_assumed_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n"
    (tmp_path / "topo.txt").write_text(matrix)
    ImportedMachine(source=str(tmp_path / "topo.txt"), out=tmp_path / "machine.yaml").run()
    topology = read(tmp_path / "machine.yaml")
    assert topology.assumed.all()
    links = topology.links // 2
    assert f", {links} links, the figures of {links} of them assumed;" in capsys.readouterr().err
    report = shown(str(tmp_path / "machine.yaml"), capsys)
    assert all(row[-2:] == ["figures", "assumed"] for row in block(report, "links")[1:])
