"""How fast a page with 100,000 spans is made, opens and zooms, in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.pages.drawings import machine_scene, memory_scene, timeline_scene
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import curves_of
from experiments.pages.page import Page, to_html
from experiments.pages.run_spans import spans_of_run
from experiments.pages.spans import MOST
from simulator.analysis import memory
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.shapes import ring
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

RANKS, MANY = 130, 1024
"""Ranks of a ring with 100,000 spans, and of one with six million."""
ZOOMS = 25
FIRST, STEP, SIZE, THINNING = 2.0, 0.1, 3e6, 60.0
"""Goals: seconds to the first drawing and of a zoom step, bytes of the page, and CPU seconds to
thin millions of spans."""
DRAWN = "performance.getEntriesByName('timeline drawn')"


def table() -> str:
    """The times of pages beside their goals."""
    timeline = _uneven(RANKS)
    begin = process_time()
    html = to_html(_page(timeline))
    made = process_time() - begin
    opened, zoom, spans = _in_browser(html)
    thinning = _cpu(partial(spans_of_run, _uneven(MANY)))
    rows = [
        ["work", "clock", "measured", "goal"],
        [f"make a page of {spans:,} spans", "cpu", format_seconds(made), ""],
        ["size of the page", "", *(format_bytes(each, binary=False) for each in (len(html), SIZE))],
        ["open it and draw it", "elapsed", format_seconds(opened), format_seconds(FIRST)],
        [f"the slowest of {ZOOMS} zoom steps", "elapsed", *map(format_seconds, (zoom, STEP))],
        [f"thin 6.3 million spans to {MOST:,}", "cpu", *map(format_seconds, (thinning, THINNING))],
    ]
    return output.align(rows)


def _cpu(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


def _uneven(ranks: int) -> Timeline:
    """A ring on links of different speeds: its times do not repeat, and pages are as large as they
    become."""
    machine = ring(ranks, bandwidth=5e10, latency=1e-6)
    share = np.random.default_rng(1).uniform(0.5, 1.0, len(machine.medium_bandwidth))
    uneven = replace(machine, medium_bandwidth=machine.medium_bandwidth * share)
    return simulate(find("ring").build(ranks, 2.0**26), uneven)


def _page(timeline: Timeline) -> Page:
    ranks = timeline.schedule.ranks
    held = memory.trace(timeline.schedule, timeline)
    names = [f"rank {rank}" for rank in range(ranks)]
    scenes = [
        timeline_scene(spans_of_run(timeline)),
        machine_scene(use_of(timeline)),
        memory_scene(curves_of(held, names, timeline.makespan)),
    ]
    return Page("A ring", ["A page to measure."], scenes)


def _in_browser(html: str) -> tuple[float, float, int]:
    """Seconds from the request of a page to its first drawing, and of the slowest zoom step; and
    the spans."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise InputError("playwright is not installed: pip install '.[browser]'") from None
    if program is None:
        raise InputError("chromium is not installed: apt install chromium")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(html, encoding="utf-8")
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
    """The drawings of the timeline so far."""
    entries: list[dict[str, Any]] = tab.evaluate(f"{DRAWN}.map((entry) => entry.toJSON())")
    return entries
