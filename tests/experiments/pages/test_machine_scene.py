"""The machine and the memory over time in a browser."""

from pathlib import Path

from browser import Open
from experiments.pages.drawings import machine_scene, memory_scene
from experiments.pages.machine_use import use_of
from experiments.pages.memory_curves import curves_of
from experiments.pages.page import Page, to_html
from simulator.analysis import memory
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import star


def test_links_and_memory_are_told_over_time(open_page: Open, tmp_path: Path) -> None:
    timeline = simulate(find("ring").build(4, 4e6), star(4, bandwidth=1e9))
    held = memory.trace(timeline.schedule, timeline)
    names = ["rank 0", "<b>rank 1</b>", "rank 2", "rank 3"]
    scenes = [
        machine_scene(use_of(timeline)),
        memory_scene(curves_of(held, names, timeline.makespan)),
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
