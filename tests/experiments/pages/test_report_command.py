"""`simctl report` reads results, tables and logs, and refuses damaged ones in one line."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from browser import Open
from experiments.pages.reports.result_file import read_result, to_text
from experiments.pictures.timelines.spans import joined_spans

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"


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
    assert to_text(result) == stored.read_text()
    assert result.spans is not None
    assert result.use is not None
    assert result.memory is not None


def test_a_stored_result_makes_the_page_of_its_command(simctl: Simctl, tmp_path: Path) -> None:
    stored, page, again = (tmp_path / name for name in ("r.json", "page.html", "again.html"))
    simctl("run", "--p", "3", "--size", "1KiB", "--out", stored, "--report", page)
    assert simctl("report", stored, "--out", again).returncode == 0
    assert text_of(again) == text_of(page)


def test_hostile_names_of_a_result_are_text(simctl: Simctl, stored: Path, tmp_path: Path) -> None:
    hostile, page = "<script>alert(1)</script>\"'&\0", tmp_path / "page.html"
    document = json.loads(stored.read_text())
    document["report"]["summary"]["algorithm"] = hostile
    document["spans"]["rows"][0] = document["origin"]["parameters"]["topology"] = hostile
    stored.write_text(json.dumps(document))
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
    before, after = (read_result(path).spans for path in (stored, other))
    assert before is not None
    assert after is not None
    joined = joined_spans(before, after)
    assert joined.rows[0] == "before: rank 0"
    assert len(joined.rows) == len(before.rows) + len(after.rows)
    assert len(joined.columns.row) == len(before.columns.row) + len(after.columns.row)
    last = joined.columns.take(joined.columns.row >= len(before.rows))
    names = [joined.names[place] for place in last.name.tolist()]
    assert names == [after.names[place] for place in after.columns.name.tolist()]


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


def damaged(stored: Path) -> dict[str, str]:
    text = stored.read_text()
    document = json.loads(text)
    return {
        "truncated": text[: len(text) // 2],
        "empty": "",
        "unknown key": json.dumps({**document, "more": 1}),
        "unknown kind": json.dumps({**document, "kind": "<script>"}),
        "another version": json.dumps({**document, "simctl": 2}),
        "no summary": json.dumps({**document, "report": {}}),
        "text for a number": text.replace('"ranks":3', '"ranks":"three"'),
        "nested": '{"simctl":' + "[" * 100_000,
        "bad spans": json.dumps({**document, "spans": {"rows": [1]}}),
    }


@pytest.mark.parametrize("mistake", ["truncated", "empty", "unknown key", "unknown kind"])
def test_a_damaged_result_is_refused_in_a_line(
    mistake: str, simctl: Simctl, stored: Path, tmp_path: Path
) -> None:
    check_refused(mistake, simctl, stored, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mistake", ["another version", "no summary", "text for a number", "nested", "bad spans"]
)
def test_more_damaged_results_are_refused_in_a_line(
    mistake: str, simctl: Simctl, stored: Path, tmp_path: Path
) -> None:
    check_refused(mistake, simctl, stored, tmp_path)


def check_refused(mistake: str, simctl: Simctl, stored: Path, tmp_path: Path) -> None:
    stored.write_text(damaged(stored)[mistake])
    page = tmp_path / "page.html"
    done = simctl("report", stored, "--out", page)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"simctl: [^\n]+\n", done.stderr)
    assert not page.exists()


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
