"""NCCL's own model on measured curves, and `judge --compare nccl`."""

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.nccl_comparison import asked, generations, of_profile, predict
from experiments.calibration.observations import FitCurve
from experiments.cli import main
from experiments.commands import judged_runs
from experiments.commands.validate import Validate
from experiments.measurements import Curve
from experiments.profiles import find
from grouped_cases import each_case
from simulator.cost_models.nccl import NcclJob, channels, choice, seconds
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.ring_search import find_rings

SIZES = np.array([256.0, 2.0**20, 2.0**24, 2.0**28])
RATE = 90e9
HEADER = "collective,algorithm,protocol,ranks,nodes,size_bytes,time_us,library,device\n"


def measured(ranks: int = 16, nodes: int = 4, rate: float = RATE, **fields: object) -> FitCurve:
    """A curve that is as NCCL's own model says."""
    empty = FitCurve(
        f"p{ranks}", "all_reduce", ("ring", "double_tree"), ranks, nodes, SIZES, np.ones_like(SIZES)
    )
    curve = FitCurve(**(vars(empty) | fields))
    return FitCurve(**(vars(curve) | {"seconds": predict(curve, "hopper", rate)}))


def test_an_algorithm_or_protocol_that_was_forced_is_taken_else_the_choice() -> None:
    job = NcclJob("all_reduce", 16, 4, channels("hopper", RATE))
    assert measured().seconds.tolist() == [choice(job, size).seconds for size in SIZES]
    tree = measured(algorithms=("double_tree",), protocols=("short", "LL"))
    assert tree.seconds.tolist() == [seconds(job, "tree", "LL", size) for size in SIZES]
    assert np.isnan(measured(algorithms=("nvls",)).seconds).all()
    assert np.isnan(measured(collective="send_recv", algorithms=("shift",)).seconds).all()


@each_case(
    ("device", "machine", "generation"),
    [
        ("Tesla V100-SXM2-16GB", "", "volta"),
        ("", "A100 (DGX A100); NVLink", "ampere"),
        ("NVIDIA GH200 120GB", "", "hopper"),
        ("gb200", "", "blackwell"),
        ("AMD Instinct MI300X", "", None),
        ("", "", None),
    ],
)
def test_the_generation_is_what_a_curve_says_of_its_gpus(
    device: str, machine: str, generation: str | None
) -> None:
    curve = Curve("all_reduce", 4, 1, (), (), "x", device=device, machine=machine)
    assert generations([curve]).get("x") == generation
    assert generations([curve], "volta") == {"x": "volta"}


def test_what_can_be_asked_for() -> None:
    assert [asked(text) for text in ("nccl", "nccl:hopper")] == ["", "hopper"]
    for text in ("", "nccl:", "nccl:kepler", "mpi", "nccl:hopper:x", "\n" * 9):
        with pytest.raises(InputError, match="expected nccl, or nccl: and one of volta") as error:
            asked(text)
        assert "\n" not in str(error.value)


def test_a_profile_gives_the_bandwidth_of_simple_in_a_job_of_that_size() -> None:
    """With the network as crowded, and its ports as shared, as they are there; but no faster than
    inside a node."""
    profile, machine = find("mn5_acc"), find_machine("nodes:per_node=4")
    network, node = (profile.protocols["Simple"][kind].bandwidth for kind in ("network", "node"))
    crowd = profile.crowding["network"].model_copy(
        update={"nodes": 2.0, "bandwidth": 0.5, "apart": [], "most": 8.0}
    )
    shared = crowd.model_copy(update={"per_node": 1.0, "shared": -1.0, "bandwidth": 0.0})
    jobs = [
        (crowd, 1, node),
        (crowd, 2, network),
        (crowd, 4, network / 2**0.5),
        (crowd, 16, network / 2),
    ]
    jobs += [
        (shared, 16, network),
        (shared, 8, min(2 * network, node)),
        (shared, 2, min(8 * network, node)),
    ]
    for crowding, nodes, rate in jobs:
        changed = profile.model_copy(update={"crowding": {"network": crowding}})
        curve = measured(16, nodes)
        expected = predict(curve, "hopper", rate)
        assert of_profile(changed, machine, curve, "hopper") == pytest.approx(expected, rel=1e-9)
    without_simple = profile.model_copy(update={"protocols": {"LL": profile.protocols["LL"]}})
    with pytest.raises(InputError, match="mn5_acc has no Simple of links of kind network"):
        of_profile(without_simple, machine, measured(), "hopper")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_profile_on_a_machine_of_the_catalogue_gives_the_bandwidth_of_all_rings(
    nodes: int,
) -> None:
    """A node of MareNostrum 5 has four NICs, so rings are faster than one NIC of Simple."""
    shipped, machine = find("mn5_acc"), find_machine("mn5_acc:nodes=2")
    slow, fast = (shipped.protocols["Simple"][kind] for kind in ("network", "node"))
    kinds = set(machine.whole().link_kinds)
    profile = shipped.model_copy(
        update={
            "machine": "mn5_acc:nodes=2",
            "protocols": {"Simple": {kind: slow if kind == "ib" else fast for kind in kinds}},
            "factors": {},
            "crowding": {},
            "uncertainty": None,
        }
    )
    topology = machine.for_job(4 * nodes, nodes).build(4 * nodes)
    simple = next(each for each in profile.simulated().protocols if each.name == "Simple")
    rings = find_rings(profile.simulated().apply(topology, simple, "ring"), 4 * nodes)
    curve = measured(4 * nodes, nodes)
    assert of_profile(profile, machine, curve, "hopper") == pytest.approx(
        predict(curve, "hopper", rings.bandwidth), rel=1e-9
    )
    assert nodes == 1 or rings.bandwidth > 1.5 * slow.bandwidth


def runs(path: Path, device: str, name: str = "NCCL 2.30") -> Path:
    """A ring as NCCL's own model says, twice as slow at the largest size; and sends to the next
    rank."""
    profile = find("mn5_acc").simulated()
    simple = next(protocol for protocol in profile.protocols if protocol.name == "Simple")
    ring = profile.apply(as_nodes(4, 2), simple, "ring")
    rate = float(ring.medium_bandwidth[ring.link_kinds.are("network")].min())
    times = measured(4, 2, rate, algorithms=("ring",)).seconds * [1, 1, 1, 2] * 1e6
    rows = [
        f"all_reduce,ring,,4,2,{size:.0f},{time},{name},{device}"
        for size, time in zip(SIZES, times, strict=True)
    ]
    rows += [f"send_recv,,,4,2,{size:.0f},{10 + size / 1e4},{name},{device}" for size in SIZES]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_a_profile_is_validated_beside_the_own_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_runs, "calibrate", lambda *_: SimpleNamespace(held_out=()))
    files = [runs(tmp_path / "runs.csv", "NVIDIA H100 80GB HBM3")]
    request = Validate(logs=files, profile="mn5_acc", held_out=True, compare="nccl")
    assert request.run() == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert [line.split()[-1] for line in lines[3:5]] == ["model", "12.5%"]
    sentence = " ".join(" ".join(lines[5:7]).split())
    assert "; NCCL's own model: mean 12.5%; " in sentence
    assert "are inside their 80% intervals" in sentence
    assert "β of Simple by mn5_acc, all else is NCCL's: GPUs are hopper" in shown.err
    assert replace(request, compare="nccl:hopper", format="csv").run() == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [round(float(row["nccl_error"]), 9) for row in rows[:4]] == [0, 0, 0, -0.5]
    assert {row["nccl_s"] for row in rows[4:]} == {""}
    assert replace(request, format="json").run() == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [float(row["nccl_s"]) for row in rows[:4]] == [point["nccl_s"] for point in points[:4]]
    assert points[-1]["nccl_error"] is None


def test_without_what_it_needs_it_says_so(tmp_path: Path) -> None:
    unsaid, asks = (
        runs(tmp_path / "runs.csv", ""),
        dict.fromkeys(("mn5_acc", "mn5_cpu"), "nccl") | {"": "nccl:x"},
    )
    messages = (
        r"runs\.csv does not say which GPUs",
        "mn5_cpu is of MPI, expected a profile of NCCL",
        "expected nccl",
    )
    for (profile, compare), expected in zip(asks.items(), messages, strict=True):
        with pytest.raises(InputError, match=expected):
            Validate(
                logs=[unsaid], profile=profile or "mn5_acc", held_out=True, compare=compare
            ).run()


def test_the_command_line_refuses_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, says in (
        (
            (runs(tmp_path / "runs.csv", ""), "--profile", "mn5_acc", "--compare", "openmpi"),
            "--compare 'openmpi': expected nccl",
        ),
        (
            ("--compare", "nccl"),
            "Missing argument 'LOG'",
        ),
    ):
        monkeypatch.setattr(sys, "argv", ["simctl", "validate", "--held-out", *map(str, arguments)])
        with pytest.raises(SystemExit) as error:
            main()
        shown = capsys.readouterr()
        assert (error.value.code, shown.out) == (2, "")
        assert says in shown.err
        assert shown.err.count("\n") == 1
