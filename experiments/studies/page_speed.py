"""Seconds until a page of 100,000 spans is written, opened and zoomed, in headless Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.studies.process_usage import SIMCTL, environment, usage
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

ZOOMS = 25


def main() -> str:
    """The times of pages beside their goals. Links have different speeds, so that the times of the
    ring do not repeat, and pages are as large as they become."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        seconds = [_written(file, ranks) for ranks in (1024, 130)]
        opened, zoom, spans = _in_browser(file)
        nbytes = file.stat().st_size
    rows = [
        ["work", "clock", "measured", "goal"],
        [f"write a page of {spans:,} spans", "cpu", format_seconds(seconds[1]), ""],
        ["write a page of 6.3 million spans, thinned", "cpu", format_seconds(seconds[0]), "60s"],
        ["size of the page", "", format_bytes(nbytes, binary=False), "3MB"],
        ["open it and draw it", "elapsed", format_seconds(opened), "2s"],
        [f"the slowest of {ZOOMS} zoom steps", "elapsed", format_seconds(zoom), "100ms"],
    ]
    return output.align(rows)


def _written(file: Path, ranks: int) -> float:
    """CPU seconds of a command that writes the report of a ring on links of different speeds."""
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


def _in_browser(file: Path) -> tuple[float, float, int]:
    """Seconds from the request of a page to its first drawing, and of the slowest zoom step; and
    the spans."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise InputError("playwright is not installed: pip install '.[browser]'") from None
    if program is None:
        raise InputError("chromium is not installed: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(file.as_uri())
        tab.locator(".count", has_text=" of ").first.wait_for()
        first = _entries(tab)[0]
        opened = (first["startTime"] + first["duration"]) / 1e3
        before = len(_entries(tab))
        for step in range(ZOOMS):
            tab.evaluate(f"timelines[0].zoom({0.7 if step % 5 else 2.5})")
            tab.wait_for_timeout(50)
        slowest = max(entry["duration"] for entry in _entries(tab)[before:]) / 1e3
        spans = int(tab.evaluate("timelines[0].model.count"))
        browser.close()
    return opened, slowest, spans


def _entries(tab: Tab) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tab.evaluate(
        "performance.getEntriesByName('timeline drawn').map((entry) => entry.toJSON())"
    )
    return entries
