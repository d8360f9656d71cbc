"""The drawings of reports in a browser: the timeline, the machine, memory over time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser import Open
from experiments.pages.machine_use import curves_of, use_of
from experiments.pages.page import Page, to_html
from experiments.pages.reports.report_file import machine_scene, memory_scene, timeline_scene
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.spans import Columns, Spans
from experiments.pictures.timelines.step_spans import strategy_spans
from simulator.analysis import memory
from simulator.analysis.critical_path import critical_path
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find as find_machine
from topologies.shapes import star

if TYPE_CHECKING:
    from playwright.sync_api import Locator
    from playwright.sync_api import Page as Tab


def training() -> Spans:
    """Two steps of 8 ms: the second bucket is exposed from 6 ms to 7.5 ms."""
    layers = tuple(Layer(f"fc{k}", 1e-3, 2e-3, tensors=(Tensor("w", 1e6),)) for k in range(2))
    topology = star(4, bandwidth=1e9, latency=1e-6)
    setting = Setting(topology, 4, 2)
    plan = DDP(bucket=1e6).plan(Model("model", 8, layers, optimizer=5e-4), setting)
    timeline = train(plan)
    return strategy_spans(plan, timeline).spans(critical_path(timeline))


def collective(ranks: int = 16) -> Spans:
    """A ring on nodes of 8 GPUs."""
    machine = find_machine("hgx_h100").build(ranks, 0)
    return collective_spans(simulate(find("ring").on(machine, ranks, 1e8).schedule, machine))


def opened(open_page: Open, folder: Path, spans: Spans, **window: object) -> Tab:
    file = folder / "page.html"
    file.write_text(
        to_html(Page("A run", [], [timeline_scene(spans, "Timeline")])), encoding="utf-8"
    )
    tab = open_page(file, **window)
    shows(tab, "")
    return tab


def shows(tab: Tab, begin: str) -> None:
    """Wait until the window begins at a time."""
    from playwright.sync_api import expect

    expect(tab.locator(".bar .count").last).to_have_text(re.compile(rf"^{begin}.* of "))


def canvas(tab: Tab) -> Locator:
    return tab.get_by_role("application", name="timeline")


def words(tab: Tab) -> str:
    return tab.get_by_role("status").inner_text()


def at(tab: Tab, milliseconds: float) -> float:
    """Pixels from the left of the canvas to a time of a run of 16 ms that is shown in full."""
    left, width = tab.evaluate("[timelines[0].left, timelines[0].width]")
    return float(left + width * milliseconds / 16.024)


def test_hover_and_keys_tell_about_spans(open_page: Open, tmp_path: Path) -> None:
    tab = opened(open_page, tmp_path, training())
    # The main lane of rank 0 waits between 6 ms and 7.5 ms of 16 ms.
    canvas(tab).hover(position={"x": at(tab, 6.8), "y": 38})
    shown = words(tab)
    assert shown.startswith("idle: transfer\nrank 0, compute\nstarts at 6 ms, lasts 1.5")
    assert "waits until its message has arrived: all-reduce bucket 1 over switch->gpu1" in shown
    canvas(tab).hover(position={"x": at(tab, 7), "y": 60})
    assert re.search("all-reduce bucket 1\n.*\n.*\n976.6 KiB\nexposed 1.5", words(tab))
    tab.mouse.move(5, 5)
    assert tab.get_by_role("status").count() == 0
    canvas(tab).focus()
    for key, begin in (
        ("+", "4.0"),
        ("+", "6.0"),
        ("ArrowRight", "6.6"),
        ("-", "4.6"),
        ("0", "0 s"),
    ):
        tab.keyboard.press(key)
        shows(tab, begin)
    tab.keyboard.press("n")
    first = words(tab)
    assert first.startswith("forward fc0\nrank 0, compute\nstarts at 0 s, lasts 1 ms")
    tab.keyboard.press("n")
    assert words(tab).startswith("forward fc1")
    tab.keyboard.press("p")
    assert words(tab) == first
    tab.keyboard.press("Escape")
    assert tab.get_by_role("status").count() == 0


def test_wheel_drag_and_search_move_the_window(open_page: Open, tmp_path: Path) -> None:
    tab = opened(open_page, tmp_path, training(), height=400)
    canvas(tab).hover(position={"x": at(tab, 8), "y": 60})
    tab.mouse.wheel(0, 120)
    shows(tab, "0 s")
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -87)
    tab.keyboard.up("Control")
    shows(tab, "3")
    tab.get_by_role("button", name="show all").click()
    tab.get_by_role("button", name="zoom in").click()
    shows(tab, "4.0")
    canvas(tab).hover(position={"x": at(tab, 8), "y": 60})
    tab.mouse.down()
    tab.mouse.move(100, 300)
    tab.mouse.up()
    shows(tab, "[5-8]")
    field = tab.get_by_role("searchbox")
    field.fill('optimizer "rank 2"')
    assert tab.get_by_text("2 found").count() == 1
    field.press("Enter")
    assert words(tab).startswith("optimizer\nrank 2, compute")
    tab.get_by_role("button", name="next match").click()
    assert tab.get_by_text("2 of 2").count() == 1
    field.fill("nothing like this")
    assert tab.get_by_text("0 found").count() == 1
    with tab.expect_download() as download:
        tab.get_by_role("button", name="download the spans").click()
    lines = download.value.path().read_text().splitlines()
    assert len(lines) == 1 + len(training().columns.row)
    assert lines[0].startswith("rank,lane,start_s,seconds,kind,name,bytes")


def test_a_phone_keeps_the_names_of_lanes(open_page: Open, tmp_path: Path) -> None:
    tab = opened(open_page, tmp_path, collective(4), width=390)
    written = tab.evaluate(
        "() => { const view = timelines[0], { context } = view.area, names = []; "
        "const fill = context.fillText; context.fillText = function (text, x) { "
        "if (x < view.left) names.push(text); fill.apply(this, arguments); }; "
        "view.draw(); context.fillText = fill; return names; }"
    )
    assert written[:3] == ["rank 0", "sends", "receives"]
    assert tab.evaluate("timelines[0].left") < 150


@pytest.mark.exhaustive
def test_a_phone_opens_nodes_and_draws_the_critical_path(open_page: Open, tmp_path: Path) -> None:
    tab = opened(open_page, tmp_path, collective(32), width=390, dark=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    height = "Math.round(timelines[0].area.height)"
    closed = tab.evaluate(height)
    canvas(tab).click(position={"x": 30, "y": 35})
    assert tab.evaluate(height) > closed
    button = tab.get_by_role("button", name="critical path")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    canvas(tab).focus()
    for _ in range(40):
        tab.keyboard.press("n")
    box = tab.get_by_role("status").bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= 390 - box["width"]


@pytest.mark.exhaustive
def test_strange_names_and_times_are_drawn(open_page: Open, tmp_path: Path) -> None:
    strange = "<script>alert(1)</script>\"'\0"
    spans = training()
    named = replace(spans, rows=(strange,) * 4, names=(strange,) * len(spans.names))
    empty = spans.columns.take(np.zeros(0, dtype=np.int64))
    nothing = replace(spans, columns=empty, makespan=0.0)
    starts = np.array([1e-3, 1.001e-3, 1.002e-3])
    ends = np.append(starts[1:], 9e-3)
    crowd = replace(spans, columns=Columns.of(np.zeros(3, np.int32), starts, ends))
    page = Page(strange, [], [timeline_scene(each, "Timeline") for each in (named, crowd, nothing)])
    file = tmp_path / "page.html"
    file.write_text(to_html(page), encoding="utf-8")
    tab = open_page(file)
    canvas(tab).first.focus()
    tab.keyboard.press("n")
    assert words(tab).startswith("<script>")
    canvas(tab).last.focus()
    tab.keyboard.press("n")
    drawn = """(() => {
        const { area, left, width } = timelines[1], x = left + width * 5 / 16.024;
        return [...area.context.getImageData(x, 30, 1, 1).data.slice(0, 3)];
    })()"""
    assert tab.evaluate(drawn) == [0x56, 0xB4, 0xE9], "a long span behind short ones is missing"


def test_links_and_memory_are_told_over_time(open_page: Open, tmp_path: Path) -> None:
    timeline = simulate(find("ring").build(4, 4e6), star(4, bandwidth=1e9))
    traced = memory.trace(timeline.schedule, timeline)
    names = ["rank 0", "<b>rank 1</b>", "rank 2", "rank 3"]
    scenes = [
        machine_scene(use_of(timeline)),
        memory_scene(curves_of(traced, names, timeline.makespan)),
    ]
    file = tmp_path / "page.html"
    file.write_text(to_html(Page("A run", [], scenes)), encoding="utf-8")
    tab = open_page(file, width=390, dark=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.get_by_text("the whole run: the busiest link is in use 100%").count() == 1
    slider = tab.get_by_role("slider", name="time")
    slider.fill("59")
    slider.press("ArrowRight")
    assert tab.get_by_text("3 ms to 3.05 ms of 6 ms").count() == 1
    machine = tab.get_by_role("application", name="machine")
    machine.press("n")
    words = tab.get_by_role("status")
    assert words.inner_text() == (
        "gpu0 → switch\nlink, 1 GB/s, latency 0 s\nbusy 100% of this part of the run\n"
        "busy 100% of the whole run\n2.909 MiB so far, of 5.722 MiB"
    )
    box = machine.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert words.inner_text().startswith("switch\nswitch\n11.63 MiB out, 11.63 MiB in so far")
    play = tab.get_by_role("button", name="play or pause")
    play.click()
    assert play.inner_text() == "pause"
    tab.get_by_role("button", name="show the mean").click()
    assert play.inner_text() == "play"
    tab.mouse.move(1, 1)
    tab.get_by_label("rank", exact=True).select_option("<b>rank 1</b>")
    tab.get_by_role("application", name="memory").press("PageDown")
    shown = words.inner_text()
    assert "<b>rank 1</b> holds 4.768 MiB" in shown
    assert "redundant: " in shown
