"""`simctl serve`."""

import json
from pathlib import Path

import pytest

import simctl as door
from csv_texts import rows_of
from simctl_process import Simctl

POINTS = Path(__file__).parents[2] / "examples" / "serving_points.csv"
CASE = ("--model", "llama3_70b", "--plan", "tp=4", "--topology", "hgx_h200", "--engine", "vllm")


def test_points_are_shown_with_parts_and_memory(simctl: Simctl) -> None:
    done = simctl("serve", *CASE, "--concurrency", "4,64")
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "Serving llama3_70b in fp8 by vllm on hgx_h200, 1024 tokens in and 1024 out",
        "Where the time of a token goes: tp=4 with 64 sequences",
        "Where the time of a prefill's kernels goes",
        "Memory of a GPU",
    ):
        assert text in done.stdout


def test_rows_are_the_same_everywhere(simctl: Simctl, tmp_path: Path) -> None:
    options = "--concurrency", "4,64"
    [few, many] = rows_of(simctl("serve", *CASE, *options, "--format", "csv").stdout)
    report = json.loads(simctl("serve", *CASE, *options, "--format", "json").stdout)
    rows = door.serve("llama3_70b", "hgx_h200", "tp=4", engine="vllm", concurrency="4,64")
    for text, row, known in zip((few, many), report["points"], rows, strict=True):
        assert row == json.loads(json.dumps(known))
        assert float(text["tpot_s"]) == pytest.approx(row["tpot_s"])
    assert float(few["tpot_s"]) < float(many["tpot_s"])
    page = tmp_path / "page.html"
    assert simctl("serve", *CASE, *options, "--report", str(page)).returncode == 0
    assert "how fast is llama3_70b" in page.read_text().lower()


def test_measured_points_correct_times(simctl: Simctl) -> None:
    """The published points of this machine are near what is predicted, and nearer with them."""
    options = "--concurrency", "64", "--format", "csv"
    done = simctl("serve", *CASE, *options, "--measured", str(POINTS))
    assert "times what simctl predicts" in done.stderr
    [with_points] = rows_of(done.stdout)
    [without] = rows_of(simctl("serve", *CASE, *options).stdout)
    off = [abs(float(row["tpot_s"]) - 0.0160692) for row in (with_points, without)]
    assert off[0] < off[1] < 0.2 * 0.0160692


def test_auto_finds_ways_within_limits(simctl: Simctl, tmp_path: Path) -> None:
    case = "--model", "gpt_oss_120b", "--plan", "auto", "--gpus", "8", "--topology", "hgx_h200"
    picture = tmp_path / "serve.png"
    limits = "--precision", "fp4", "--tpot", "10ms", "--plot", str(picture)
    done = simctl("serve", *case, *limits, "--format", "csv")
    assert done.returncode == 0
    rows = rows_of(done.stdout)
    assert len(rows) > 3
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert all(float(row["tpot_s"]) <= 0.01 and row["gpus"] == "8" for row in rows)


def test_a_decode_is_drawn(simctl: Simctl, tmp_path: Path) -> None:
    picture, trace = tmp_path / "decode.png", tmp_path / "decode.json"
    for file in (picture, trace):
        assert simctl("serve", *CASE, "--timeline", str(file)).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"MLPs and experts 0", "attention 0", "tp all_reduce", "launch 0"} <= names


def test_chakra_has_each_rank_with_its_groups(simctl: Simctl, tmp_path: Path) -> None:
    """Two stages of two GPUs, which reduce, and send to those behind."""
    folder, case = tmp_path / "decode.chakra", ("--model", "llama3_8b", "--plan", "tp=2,pp=2")
    done = simctl("serve", *case, "--concurrency", "8", "--timeline", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    groups = json.loads((folder / "groups.json").read_text())
    assert sorted(groups.values()) == [[0, 1], [2, 3]]
    assert all(file.stat().st_size > 1000 for file in folder.glob("*.et"))
    assert len([*folder.glob("*.et")]) == 4


def test_prefills_have_workers_of_their_own(simctl: Simctl) -> None:
    """One that prefills for two is busy with many sequences, and none of a token is a prefill."""
    case = "--model", "llama3_70b", "--prefill", "tp=4", "--plan", "2:tp=4", "--isl", "8192"
    done = simctl("serve", *case, "--concurrency", "4,128", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    few, many = rows_of(done.stdout)
    assert (few["plan"], few["prefill"], few["gpus"]) == ("2:tp=4", "tp=4", "12")
    assert float(few["busy"]) < 0.5 < 0.9 < float(many["busy"]) < 1
    assert (few["prefilling"], many["prefilling"]) == ("False", "True")
    assert float(few["token_prefills_s"]) == 0 < float(few["kv_cache_sent_s"])
    shown = simctl("serve", *case).stdout
    assert "2:tp=4 behind tp=4 with 256 sequences" in shown
    assert "The first token waits in a queue" in shown


def test_the_machine_is_a_node_unless_a_device_is_given(simctl: Simctl) -> None:
    for words, where in (((), "hgx_h100"), (("--device", "l40s"), "star of l40s")):
        done = simctl("serve", "--model", "llama3_8b", *words)
        assert f"by trtllm on {where}, " in done.stdout


def test_machines_of_ones_own_say_their_device(simctl: Simctl) -> None:
    case = "--model", "llama3_8b", "--plan", "tp=2", "--topology", "nodes:per_node=4"
    assert simctl("serve", "--model", "llama3_8b", "--device", "l40s").returncode == 0
    done = simctl("serve", *case, "--device", "l40s", "--concurrency", "8", "--format", "csv")
    assert "on nodes:per_node=4 of l40s" in simctl("serve", *case, "--device", "l40s").stdout
    [row] = rows_of(done.stdout)
    assert float(row["weights_B"]) == pytest.approx(4.54e9, rel=0.02)
