"""Reports of commands, and pages of stored results."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import chakra_files
import job_traces
from browser import Open
from experiments.pages.page import Scene
from experiments.pages.reports.comparison_story import page_of_results
from experiments.pages.reports.result import Result
from experiments.pages.reports.stored_files import read_any, read_result, sealed, to_bytes
from refusals import refusal
from simctl_process import Simctl, mistake

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"
MODEL = ROOT / "examples" / "two_layer_model.yaml"
LLAMA = ("--model", "llama3_8b", "--topology", "hgx_h100:nodes=1")
MN5 = ROOT / "examples" / "mn5_acc_all_reduce.csv"
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "sweep": ("sweep", "--algo", "ring,tree", "--p", "2..4", "--size", "1KiB,1MiB"),
    "run": ("run", "--p", "4", "--size", "1KiB"),
    "groups": ("run", "--groups", "0-1;2-3 tree 1MiB"),
    "train": ("train", "--model", MODEL, "--p", "2"),
    "runs": ("train", "--model", MODEL, "--p", "1,2"),
    "swept": ("train", "--model", MODEL, "--p", "2", "--sweep", "bucket=0,1MiB"),
    "strategies": ("train", "--model", MODEL, "--strategy", "ddp,asgd", "--p", "1,2"),
    "learn": ("train", "--learn", "softmax:epochs=1", "--p", "2"),
    "plan": ("plan", *LLAMA, "dp=4,pp=2,micro=1,batch=8,zero=1,recompute=full"),
    "plans": ("plan", *LLAMA, "auto,pp=1", "--gpus", "4", "--batch", "4"),
    "validate": ("validate", LOG, "--fit"),
    "judge": ("validate", MN5, "--profile", "mn5_acc", "--held-out"),
    "calibrate": ("calibrate", MN5),
    "diagnose": ("diagnose", LOG),
    "recommend": ("recommend", "--topology", "star", "--p", "4", "--size", "1KiB,1MiB"),
    "winners": ("recommend", "--topology", "star", "--p", "2,3", "--size", "1KiB,1MiB"),
    "explain": ("recommend", "--topology", "star", "--p", "4", "--explain", "1KiB"),
}
QUICK = ("sweep", "run", "train", "runs", "plan", "validate", "diagnose")


def kinds() -> list[object]:
    return [
        kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.exhaustive)
        for kind in COMMANDS
    ]


@pytest.mark.parametrize("kind", kinds())
def test_a_command_writes_its_report(kind: str, simctl: Simctl, tmp_path: Path) -> None:
    page, ticket = tmp_path / "page.html", tmp_path / "ticket.md"
    done = simctl(*COMMANDS[kind], "--report", page)
    assert done.returncode == 0, done.stderr
    simctl(*COMMANDS[kind], "--report", ticket)
    html, words = page.read_text(), ticket.read_text()
    assert html.startswith("<!doctype html>")
    assert "How to get this answer again" in html
    title, *sentences = re.findall(r"<(?:h1|p class=\"summary\")>(.*?)</", html)
    assert words.startswith(f"# {title}\n"), words[:200]
    assert 3 <= len(sentences) <= 4
    assert "\n| " in words
    raw = re.findall(r'download="(.*?)">.*?</a><script type="application/json">(.*?)</s', html)
    files = {name: json.loads(text) for name, text in raw}
    assert set(files) == {"result.json", "origin.json"}
    assert files["origin.json"]["command"][0] == "simctl"


def test_the_verdicts_of_a_sweep_are_in_sight(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    simctl(*COMMANDS["sweep"], "--library", "nccl", "--report", page)
    verdict = open_page(page).get_by_role("columnheader", name="verdict").bounding_box()
    assert verdict is not None
    assert verdict["x"] + verdict["width"] < 800


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("0-1;2-3", "No call slows another one down."),
        ("0-1;0-1 stream=1", "Call 1 (ring on ranks 0-1) suffers most"),
    ],
)
def test_a_report_says_which_call_others_slow_down(
    groups: str, sentence: str, simctl: Simctl, tmp_path: Path
) -> None:
    simctl("run", "--groups", groups, "--p", "4", "--report", tmp_path / "x.md")
    assert sentence in (tmp_path / "x.md").read_text()


def test_a_sweep_of_one_value_has_a_report(simctl: Simctl, tmp_path: Path) -> None:
    sweep = "--p", "1..2:x2", "--sweep", "bucket=25MiB", "--report", tmp_path / "x.md"
    simctl("train", "--strategy", "ddp", "--topology", "star", *sweep)
    assert "On 2 workers all values of bucket are as fast." in (tmp_path / "x.md").read_text()


@pytest.mark.exhaustive
def test_traces_have_reports(simctl: Simctl, tmp_path: Path) -> None:
    calls = [job_traces.all_reduce(1000.0 * k, 900.0, k) for k in range(8)]
    job_traces.kineto(tmp_path / "traces", [calls, calls])
    simctl("diagnose", "--job", tmp_path / "traces", "--report", tmp_path / "job.md")
    assert "Who was late in this job" in (tmp_path / "job.md").read_text()
    nodes = [chakra_files.compute(0, 100), chakra_files.collective(1, 0, 2**20, 0)]
    chakra_files.folder(tmp_path / "workload", [nodes] * 2)
    stored = tmp_path / "stored.json"
    done = simctl("run", "--chakra", tmp_path / "workload", "--out", stored)
    assert done.returncode == 0, done.stderr
    again = simctl("report", stored, stored, "--out", tmp_path / "page.html")
    assert "The times of 2 rows that both have are the same." in again.stdout


@pytest.mark.parametrize("name", ["page.pdf", "no folder/page.html", "."])
def test_a_report_that_cannot_be_written_is_refused_before_work(
    name: str, simctl: Simctl, tmp_path: Path
) -> None:
    line = mistake(simctl("sweep", "--p", "2", "--report", tmp_path / name))
    assert line.startswith("simctl: cannot write ")


HOSTILE = "<script>alert(1)<!--'|`@everyone"


def hostile_log(folder: Path) -> Path:
    """A log whose name, and the names in it, try to be something else than text."""
    log = folder / f"{HOSTILE}.csv"
    rows = [f'all_reduce,"{HOSTILE}",8,{size},{size / 1e3}' for size in (1024, 2048, 4096)]
    log.write_text("\n".join(["collective,source,ranks,size_bytes,time_us", *rows]) + "\n")
    return log


def test_names_of_a_log_are_text_in_its_report(
    open_page: Open, simctl: Simctl, tmp_path: Path
) -> None:
    page, ticket = tmp_path / "page.html", tmp_path / "ticket.md"
    for file in (page, ticket):
        done = simctl("diagnose", hostile_log(tmp_path), "--report", file)
        assert file.exists(), done.stderr
    shown = open_page(page)
    assert HOSTILE in str(shown.locator("h1").text_content())
    assert shown.locator("main script:not([type='application/json'])").count() == 0
    again = tmp_path / "again.html"
    simctl("report", hostile_log(tmp_path), "--out", again)
    assert HOSTILE in str(open_page(again).locator("h1").text_content())
    assert r"\<script\>alert" in ticket.read_text()
    assert "<script>" not in ticket.read_text()


@pytest.fixture
def stored(simctl: Simctl, tmp_path: Path) -> Path:
    """A stored run of three ranks."""
    path = tmp_path / "ring.json"
    assert simctl("run", "--p", "3", "--size", "1KiB", "--out", path).returncode == 0
    return path


def text_of(page: Path) -> str:
    return re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)


def test_a_stored_result_is_read_as_it_was(stored: Path) -> None:
    result = read_result(stored)
    assert to_bytes(result) == stored.read_bytes()
    assert result.spans is not None
    assert result.use is not None
    assert result.memory is not None


def test_a_stored_result_makes_the_page_of_its_command(simctl: Simctl, tmp_path: Path) -> None:
    stored, page, again = (tmp_path / name for name in ("r.json", "page.html", "again.html"))
    simctl("run", "--p", "3", "--size", "1KiB", "--out", stored, "--report", page)
    assert simctl("report", stored, "--out", again).returncode == 0
    assert again.read_text() == page.read_text(), "with the same drawings"


def test_hostile_names_of_a_result_are_text(simctl: Simctl, stored: Path, tmp_path: Path) -> None:
    hostile, page = "<script>alert(1)</script>\"'&\0", tmp_path / "page.html"
    document = json.loads(stored.read_text())
    document["report"]["summary"]["algorithm"] = hostile
    document["spans"]["rows"][0] = document["origin"]["parameters"]["topology"] = hostile
    stored.write_bytes(resealed(document))
    assert simctl("report", stored, "--out", page).returncode == 0
    assert "<script>alert" not in page.read_text()
    assert "&lt;script&gt;alert" in page.read_text()


def test_two_runs_are_before_and_after(simctl: Simctl, stored: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "tree.json", tmp_path / "page.html"
    simctl("run", "--p", "3", "--size", "1KiB", "--algo", "tree", "--out", other)
    done = simctl("report", stored, other, "--out", page)
    assert "The time rose from 8.027us to 8.082us (+0.7%)." in done.stdout
    assert "These parameters differ: algo from ring to tree." in done.stdout
    assert "What changed in the parameters" in text_of(page)
    results = [read_result(path) for path in (stored, other)]
    blocks = page_of_results(results, ["a", "b"], pictures=False).blocks
    timelines = [
        (place, block.data)
        for place, block in enumerate(blocks)
        if isinstance(block, Scene) and block.script == "timeline"
    ]
    assert [place for place, _ in timelines] == [0, 1], "one below the other"
    times = [each.spans.makespan for each in results if each.spans]
    assert [data["makespan"] for _, data in timelines] == times
    assert [data["axis"] for _, data in timelines] == [max(times)] * 2, "on one time axis"


def test_timelines_of_a_comparison_have_one_scale_and_their_own_ends(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.json" for name in ("ring", "tree")]
    for file in files:
        simctl("run", "--p", "4", "--algo", file.stem, "--out", file)
    simctl("report", *files, "--out", tmp_path / "page.html")
    tab = open_page(tmp_path / "page.html")
    for makespan in ("2.025 ms", "5.377 ms"):
        tab.get_by_text(f"0 s to {makespan} of {makespan}", exact=True).wait_for()
    ends = "timelines.map((view) => (view.x(Math.max(...view.model.end)) - view.left) / view.width)"
    assert tab.evaluate(ends) == pytest.approx([2.025 / 5.377, 1.0], rel=1e-3)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_of_sweeps_are_before_and_after(ending: str, simctl: Simctl, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    files = [tmp_path / f"{name}.{ending}" for name in ("before", "after")]
    for file, bandwidth in zip(files, ("10GB/s", "20GB/s"), strict=True):
        simctl("sweep", "--p", "2..4", "--size", "1GiB", "--bandwidth", bandwidth, "--out", file)
    done = simctl("report", *files, "--out", tmp_path / "page.html")
    assert "Over 3 rows that both have, times changed by -50% on average" in done.stdout
    assert "bandwidth from 10GB/s to 20GB/s" in done.stdout


def test_files_of_several_kinds_stand_below_each_other(
    simctl: Simctl, stored: Path, tmp_path: Path
) -> None:
    ticket = tmp_path / "ticket.md"
    done = simctl("report", stored, LOG, "--out", ticket)
    assert done.stdout.startswith("2 results\n  ring.json: ring, 3 ranks")
    assert f"## {LOG.name}: " in ticket.read_text()


def resealed(document: dict[str, Any]) -> bytes:
    """A changed result with its own digest."""
    del document["sha256"]
    return sealed(json.dumps(document, separators=(",", ":")).encode())


def damaged(stored: Path) -> dict[str, tuple[bytes, str]]:
    """Damaged files, and the words that refuse them."""
    data = stored.read_bytes()
    document = json.loads(data)
    old = {key: value for key, value in document.items() if key != "sha256"}
    refused = f"{stored} is damaged, was edited or is of an older simctl: run the command again"
    return {
        "truncated": (data[: len(data) // 2], refused),
        "empty": (b"", "is empty"),
        "no digest": (json.dumps(old, separators=(",", ":")).encode(), refused),
        "another value": (data.replace(b'"ranks":3', b'"ranks":4', 1), refused),
        "another digest": (data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], refused),
        "a byte more": (data + b"\n", refused),
        "no text": (data.replace(b"ring", b"\xff\x00\x01g", 1), refused),
        "nested": (b'{"simctl":' + b"[" * 100_000, refused),
        "other spaces": (json.dumps(document, indent=1).encode(), refused),
        "another version": (resealed({**document, "simctl": 2}), "has version 2 of the format"),
        "another kind": (resealed({**document, "kind": "x"}), "not as simctl writes it (KeyError"),
    }


RARE = "another digest", "a byte more", "no text", "nested", "other spaces", "another kind"


@pytest.mark.parametrize(
    "damage",
    [
        *("truncated", "empty", "no digest", "another value", "another version"),
        *(pytest.param(damage, marks=pytest.mark.exhaustive) for damage in RARE),
    ],
)
def test_a_damaged_result_is_refused_in_a_line(
    damage: str, simctl: Simctl, stored: Path, tmp_path: Path
) -> None:
    content, words = damaged(stored)[damage]
    stored.write_bytes(content)
    page = tmp_path / "page.html"
    assert words in mistake(simctl("report", stored, "--out", page))
    assert not page.exists()


def test_any_changed_byte_of_a_result_is_refused(stored: Path) -> None:
    data, random = stored.read_bytes(), Random(1)
    for place in (*random.sample(range(len(data)), 200), len(data) - 1):
        stored.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert "was edited" in refusal(read_result, stored)


MADE: dict[str, Any] = {"versions": {}, "parameters": {}, "files": {}, "command": []}
DAMAGED_ORIGINS = {
    "truncated": ('{"versions": {', " line 1: Expecting"),
    "empty": ("", " line 1: Expecting value"),
    "nested": ("[" * 100_000, ""),
    "a list": ("[]", ": a list is not a mapping"),
    "no command": ('{"versions": {}, "parameters": {}, "files": {}}', ": command: is missing"),
    "text for words": (
        json.dumps(MADE | {"command": "simctl sweep"}),
        ": command: 'simctl",
    ),
    "a list in it": (json.dumps(MADE | {"parameters": {"p": ["2"]}}), ": parameters.p"),
    "a mapping for a word": (json.dumps(MADE | {"command": ["simctl", {}]}), ": command[1]: "),
    "no number": (json.dumps(MADE | {"parameters": {"p": float("nan")}}), ": NaN is no number"),
}


@pytest.mark.parametrize("damage", DAMAGED_ORIGINS)
def test_a_damaged_origin_of_a_table_is_refused_in_a_line(damage: str, tmp_path: Path) -> None:
    table = tmp_path / "sweep.csv"
    table.write_bytes((ROOT / "tests" / "fuzz" / "results" / "sweep.csv").read_bytes())
    assert read_any(table).remarks, "how it was made is not known"
    meta, (text, words) = tmp_path / "sweep.csv.meta.json", DAMAGED_ORIGINS[damage]
    meta.write_text(text)
    assert refusal(read_any, table).startswith(f"{meta}{words}")


def test_numbers_and_columns_of_numpy_are_stored_as_json_has_them() -> None:
    report = {"ranks": np.int64(3), "fits": np.bool_(True), "column": np.arange(2)}
    document = json.loads(to_bytes(Result("run", report, [])))
    assert document["report"] == {"ranks": 3, "fits": True, "column": [0, 1]}


@pytest.mark.exhaustive
def test_pages_of_results_open(
    open_page: Open, simctl: Simctl, stored: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    simctl("report", stored, stored, "--out", page)
    for width, dark in ((1280, False), (390, True)):
        shown = open_page(page, width=width, dark=dark)
        assert shown.locator("canvas").count() >= 3
        assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_a_run_without_work_has_a_page(simctl: Simctl, tmp_path: Path) -> None:
    page, model = tmp_path / "page.html", ROOT / "examples" / "two_layer_model.yaml"
    done = simctl("train", "--model", model, "--p", "1", "--report", page)
    assert done.returncode == 0, done.stderr
    assert "Devices never wait" in text_of(page)
