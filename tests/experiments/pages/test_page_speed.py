"""A page of 100,000 spans is written, opened and zoomed within the goals of the page on speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from browser import Open
from experiments.studies.speed import SIMCTL, environment, usage

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

ZOOMS = 25


def written(file: Path, ranks: int) -> float:
    """CPU seconds of a command that writes the report of a ring on links of different speeds: spans
    do not repeat, and pages are as large as they become."""
    devices = [f"gpu{rank}" for rank in range(ranks)]
    random = np.random.default_rng(1)
    links = [
        f"- {{from: {start}, to: {end}, bandwidth: {random.uniform(25, 50):.3f}GB/s, latency: 1us}}"
        for k, start in enumerate(devices)
        for end in (devices[k - 1], devices[(k + 1) % ranks])
    ]
    lines = ["simctl_topology: 1", "name: uneven ring", f"ranks: [{', '.join(devices)}]"]
    lines += ["devices:", *(f"- {{name: {name}, kind: gpu}}" for name in devices), "links:", *links]
    machine = file.with_suffix(".yaml")
    machine.write_text("\n".join(lines))
    words = f"run --algo ring --p {ranks} --topology {machine} --report {file}"
    return usage((*SIMCTL, *words.split()), environment()).cpu


def drawings(tab: Tab) -> list[dict[str, Any]]:
    """The times of all drawings of a timeline, in milliseconds."""
    entries: list[dict[str, Any]] = tab.evaluate(
        "performance.getEntriesByName('timeline drawn').map((entry) => entry.toJSON())"
    )
    return entries


@pytest.mark.exhaustive
def test_a_page_of_100_000_spans_is_small_and_quick(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    written(file, 130)
    assert file.stat().st_size < 3e6
    tab = open_page(file, height=900)
    tab.locator(".count", has_text=" of ").first.wait_for()
    assert tab.evaluate("timelines[0].model.count") == 98371
    first = drawings(tab)[0]
    assert first["startTime"] + first["duration"] < 2000
    before = len(drawings(tab))
    for step in range(ZOOMS):
        tab.evaluate(f"timelines[0].zoom({0.7 if step % 5 else 2.5})")
        tab.wait_for_timeout(50)
    assert max(entry["duration"] for entry in drawings(tab)[before:]) < 100


@pytest.mark.exhaustive
def test_a_page_of_six_million_spans_is_written_within_a_minute(tmp_path: Path) -> None:
    assert written(tmp_path / "page.html", 1024) < 60
