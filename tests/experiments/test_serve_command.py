"""`simctl serve`."""

import json
from pathlib import Path

import pytest

import simctl as door
from csv_texts import rows_of
from grouped_cases import each_case
from simctl_process import Simctl, mistake

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


@each_case(
    ("words", "message"),
    [
        (("--plan", "tp=3"), "64 heads"),
        (("--plan", "cp=2"), "a deployment has no 'cp'"),
        (("--precision", "fp4"), "h200 has no nvfp4"),
        (("--engine", "tgi"), "'tgi' is not one of 'sglang', 'trtllm', 'vllm'"),
        (("--precision", "fp12"), "'fp12' is not one of"),
        (("--isl", "0"), "--isl 0: 1 to 1048576 tokens"),
        (("--osl", "many"), "--osl: 'many' is not a whole number"),
        (("--osl", "1"), "--osl 1: 2 to 1048576 tokens"),
        (("--concurrency", "0"), "0"),
        (("--gpus", "0"), "--gpus 0: 1 or more"),
        (("--plan", ""), "--plan '': write it like tp=8"),
        (("--topology", "hgx_h200:nodes=2", "--gpus", "800"), "hgx_h200:nodes=2 has 16 GPUs"),
        (("--topology", "mi300x", "--engine", "trtllm"), "engine trtllm does not run on mi300x"),
        (("--topology", "mi355x", "--precision", "fp4"), "precision fp4: mi355x has no nvfp4"),
        (("--device", "cpu"), "engine vllm does not run on cpu"),
        (("--gpus", "6"), "--gpus 6: instances have 4 GPUs each"),
        (("--isl", "131072"), "132096 tokens of a prompt and its answer: llama3_70b has 131072"),
        (("--plan", "2:tp=4"), "--plan 2:tp=4: several workers go with --prefill"),
        (("--prefill", "0:tp=4"), "--prefill 0:tp=4: 1 to 1024 workers"),
        (("--prefill", "2"), "--prefill '2': write it like tp=8, or 2:tp=8"),
        (("--prefill", ""), "--prefill '': write it like tp=8"),
        (("--chunk", ""), "--chunk: '' is not a whole number"),
        (("--topology", "hgx_h200:nodes=2", "--prefill", "3:tp=8"), "hgx_h200:nodes=2 has 16 GPUs"),
        (("--prefill", "x:tp=4"), "--prefill x:tp=4: 'x' is not a whole number"),
        (("--prefill", "tp=8", "--gpus", "8"), "--gpus 8: instances have 12 GPUs each"),
        (("--prefill", "tp=1", "--precision", "bf16"), "GB more than each of 1 h200 has"),
        (("--plan", "auto", "--prefill", "tp=8"), "--prefill tp=8 goes with a plan"),
        (("--chunk", "0"), "--chunk 0: 64 to 1048576 tokens"),
        (("--timeline", "a.txt"), "a.txt"),
        (("--ttft", "1s"), "--ttft 1s goes with --plan auto"),
        (("--topology", "star"), "give its GPU as --device"),
        (("--device", "abacus"), "'abacus' is no device"),
        (("--measured", "no.csv"), "no.csv"),
        (("--plan", "auto", "--concurrency", "4"), "--concurrency 4 goes with a plan"),
        (("--plan", "auto", "--measured", "x.csv"), "--measured x.csv goes with a plan"),
        (("--plan", "auto", "--tpot", "soon"), "--tpot: 'soon'"),
        (("--plan", "auto", "--tpot", "0s"), "--tpot 0s: more than 0s"),
        (("--plan", "auto", "--tpot", "1us"), "no way to serve llama3_70b"),
        (("--model", "resnet50"), "resnet50"),
    ],
)
def test_mistakes_get_one_line(simctl: Simctl, words: tuple[str, ...], message: str) -> None:
    assert message in mistake(simctl("serve", *CASE, *words))
