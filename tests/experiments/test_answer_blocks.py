"""Blocks of answers in a terminal, and records that are printed as they come."""

from pathlib import Path

import pytest

from experiments.answer_blocks import Block, Facts, Remarks, StreamedTable, table, to_text
from experiments.templates import fill
from simctl_process import Simctl

LOG = Path(__file__).parents[2] / "examples" / "alps_gh200_p16_aws-ofi-1.9.2.log"
COLUMNS = {"name": "name", "time": "time_s"}


def test_blocks_are_printed_one_below_the_other_and_their_terms_once() -> None:
    rows = [{"name": f"link {k}", "time_s": 1e-3 * k} for k in range(4)]
    blocks: list[Block] = [
        Facts("Figures", [["p", "8", ""], ["step", "2s", "mean of 3"]], ["redundant"]),
        table("Waits", rows, COLUMNS, ["V"], "from small to large", first=2),
        table("All", rows, COLUMNS, ["busbw"], page_only=True),
        Remarks("Try", ["this", "that", "more"], first=2),
        table("Again", rows[:1], COLUMNS, ["V"]),
    ]
    figures, waits, tries, again, terms = to_text("", blocks).split("\n\n")
    assert figures == "Figures\n  p      8\n  step  2s  mean of 3"
    lines = ["name    time", "link 0    0s", "link 1   1ms"]
    lines += ["2 more rows: --format json has all", "from small to large"]
    assert waits.split("\n") == ["Waits", *(f"  {line}" for line in lines)]
    assert (tries, again) == (
        "Try\n  this\n  that\n  1 more: --format json has all",
        "Again\n  name    time\n  link 0    0s",
    )
    assert [line.split()[0] for line in terms.splitlines()] == ["redundant", "V"]


def test_rare_columns_are_left_out_where_lines_are_too_long() -> None:
    row = {"a": "x" * 60, "b": "y" * 50, "c": "z" * 40}
    columns = {name: name for name in row}
    text = to_text("", [table("", [row], columns, rare=["c", "b"])])
    assert text.split("\n")[1] == f"  {row['a']}  {row['b']}"
    assert text.endswith("or --report: c")


def test_a_column_is_explained_where_it_is_shown() -> None:
    row = {"a": "x" * 60, "b": "y" * 70}
    columns = {name: name for name in row}
    about = {"a": "a is long", "b": "b is longer"}
    wide = table("", [row], columns, rare=["b"], about=about)
    lines = to_text("", [wide]).split("\n")
    assert "  a is long" in lines
    assert "  b is longer" not in lines
    assert wide.note == "a is long\nb is longer"


def test_a_row_stands_for_all_that_are_not_shown() -> None:
    rows = [{"name": f"link {k}", "time_s": 1e-3} for k in range(5)]
    text = to_text("", [table("", rows, COLUMNS, first=2, rest={"name": "3 more", "time": "3ms"})])
    assert text.split("\n")[-1] == "  3 more   3ms"
    assert "rows" not in text


def test_a_streamed_table_has_its_widths_before_its_rows() -> None:
    """A wider cell widens the rows to come."""
    lines: list[str] = []
    show = StreamedTable({"name": "name", "n": "n"}, {"n": 3}, lines.append)
    for name, n in (("a", 1), ("b", 12345), ("c", 1)):
        show({"name": name, "n": n})
    assert lines == ["name    n", "a       1", "b     12345", "c         1"]


def test_templates_take_values_in_their_units() -> None:
    record = {"held": 2e9, "ranks": 4, "part": 0.125}
    assert fill("{held:B} in {ranks}, {part:share}", record) == "2GB in 4, 12.5%"


@pytest.mark.parametrize(
    "command",
    [
        f"diagnose {LOG}",
        "recommend --topology hgx_h100:nodes=4 --size 16KiB",
        "list machines",
        "topo show hgx_h100",
        "train --model resnet50 --p 2",
        "report {folder}/sweep.csv --out {folder}/sweep.md",
    ],
)
def test_no_line_is_wider_than_120_characters(command: str, simctl: Simctl, tmp_path: Path) -> None:
    if command.startswith("report"):
        simctl("sweep", "--topology", "hgx_h100", "--out", tmp_path / "sweep.csv")
    done = simctl(*command.format(folder=tmp_path).split())
    assert done.stdout, done.stderr
    assert [line for line in done.stdout.splitlines() if len(line) > 120] == []
