"""`simctl animate` writes pages that play in a browser, GIFs and folders of pictures."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageSequence

from browser import Open

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
WRONG = """
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

@algorithm("all_reduce")
def half(ranks, nbytes):
    pair = ScheduleBuilder(ranks, nbytes, phase="<b>reduce</b>")
    pair.reduce(1, 0, slot=0)
    return pair.build()
"""


def test_a_page_plays(simctl: Simctl, open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "ring.html"
    done = simctl("animate", "--algo", "ring", "--p", 4, "--out", file)
    assert done.returncode == 0, done.stderr
    assert "6 steps" in done.stdout
    page = open_page(file)
    title, drawing = page.locator("h3.step"), page.locator(".drawing")
    assert title.text_content() == "before the first step"
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".drawing[data-playing=false]")
    assert title.text_content() == "reduce-scatter, step 1 of 3"
    assert "2 of 4 contributions" in (page.locator("p.sentence").text_content() or "")
    assert page.locator("ul.sentences li").count() == 4
    assert "64 MiB of 384 MiB" in (page.locator(".readouts").text_content() or "")
    page.keyboard.press("End")
    assert title.text_content() == "all-gather, step 3 of 3"
    page.keyboard.press("ArrowLeft")
    assert title.text_content() == "all-gather, step 2 of 3"
    page.get_by_label("clock").select_option("equal steps")
    assert title.text_content() == "all-gather, step 2 of 3"
    page.keyboard.press("Home")
    page.get_by_label("speed").select_option("4×")
    page.keyboard.press(" ")
    assert drawing.get_attribute("data-playing") == "true"
    page.keyboard.press(" ")
    assert drawing.get_attribute("data-playing") == "false"
    page.get_by_label("moment").fill("500")
    assert title.text_content() == "reduce-scatter, step 3 of 3"
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector(".drawing[data-playing=false]")
    assert title.text_content() == "all-gather, step 3 of 3"


def test_a_phone_shows_where_a_wrong_algorithm_stops(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    source, file = tmp_path / "half.py", tmp_path / "half.html"
    source.write_text(WRONG)
    done = simctl("animate", "--algo-file", source, "--p", 3, "--out", file)
    assert done.returncode == 1
    assert "half is wrong. The first wrong value is in rank 0, slot 0" in done.stderr
    page = open_page(file, width=390, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("p.wrong").is_hidden()
    page.keyboard.press("End")
    assert "rank 2, slot 0 is missing" in (page.locator("p.wrong").text_content() or "")
    assert page.locator("h3.step").text_content() == "<b>reduce</b>"


def test_a_gif_has_as_many_frames_as_it_says(simctl: Simctl, tmp_path: Path) -> None:
    file = tmp_path / "tree.gif"
    done = simctl("animate", "--algo", "tree_reduce", "--p", 2, "--out", file)
    assert done.returncode == 0, done.stderr
    with Image.open(file) as picture:
        frames = len(list(ImageSequence.Iterator(picture)))
    assert f"{frames} frames" in done.stdout
    assert file.stat().st_size < 5_000_000


def test_a_folder_has_a_picture_of_each_step(simctl: Simctl, tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    done = simctl("animate", "--algo", "tree", "--p", 2, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{k}.svg" for k in range(4)]
    assert "4 pictures" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--p", "33", "--out", "a.html"), "--p 33: an animation shows 2 to 32 ranks"),
        (("--out", "a.svg"), "an animation is several SVGs, name a folder for them"),
        (("--out", "a.mp4"), "its name ends in .html, .gif"),
        (("--out", "/proc/a.html"), "name a file in a folder that can be written"),
    ],
)
def test_mistakes_are_one_line(simctl: Simctl, arguments: tuple[str, ...], message: str) -> None:
    done = simctl("animate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
