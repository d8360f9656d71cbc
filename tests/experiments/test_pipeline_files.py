"""Pipelines from a file."""

from pathlib import Path

from experiments.pipeline_files import find_order
from refusals import refusal
from simulator.parallel.pipelines import find
from simulator.parallel.pipelines.pipeline import pipeline_csv


def test_an_order_is_a_name_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(pipeline_csv(find("1f1b").build(2, 4)))
    order = find_order(str(path))
    assert (order.name, order.summary) == ("mine.csv", "2 stages from a file")
    assert len(order.build(2, 4)) == 16
    assert find_order("gpipe") is find("gpipe")
    assert "plan so many, and not 4 and 8" in refusal(order.build, 4, 8)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    assert "no such file" in refusal(find_order, str(path))
    path.write_bytes(b"\xff\xfe0F0")
    assert "byte 0 is not UTF-8 text" in refusal(find_order, str(path))
    path.write_text("0F0,0Q0")
    assert "mine.csv: line 1: '0Q0' is no action" in refusal(find_order, str(path))
