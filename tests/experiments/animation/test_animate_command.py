"""`simctl animate` writes pages that play in a browser, GIFs and folders of pictures."""

from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageSequence

from browser import Open
from simctl_process import Simctl

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLAN = "--model", "gpt3_1_7b:layers=4", "--topology", "hgx_h100"
WRONG = r"""
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

@algorithm("all_reduce")
def half(ranks, nbytes):
    pair = ScheduleBuilder(ranks, nbytes, phase=r"<b>$\frac{</b>$")
    pair.reduce(1, 0, slot=0)
    return pair.build()
"""


def opened(open_page: Open, file: Path, width: int = 1280, dark: bool = False) -> "Page":
    """The page of a file, once its animation is there."""
    page = open_page(file, width=width, dark=dark)
    page.wait_for_selector(".drawing[data-playing]")
    return page


def test_a_page_plays(simctl: Simctl, open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "ring.html"
    done = simctl("animate", "--algo", "ring", "--p", 4, "--out", file)
    assert done.returncode == 0, done.stderr
    assert "6 steps" in done.stdout
    page = opened(open_page, file)
    title, drawing = page.locator("h3.step"), page.locator(".drawing")
    assert title.text_content() == "before the first step"
    page.get_by_label("speed").select_option("4×")
    page.locator("h1").click()
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
    page.locator("h1").click()
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    assert drawing.get_attribute("data-playing") == "true"
    page.keyboard.press(" ")
    assert drawing.get_attribute("data-playing") == "false"
    page.get_by_label("moment").fill("800")
    assert title.text_content() == "all-gather, step 2 of 3"
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector(".drawing[data-playing=false]")
    assert title.text_content() == "all-gather, step 3 of 3"
    page.get_by_label("clock").select_option("simulated time")
    page.evaluate(
        "() => { const press = (name) => [...document.querySelectorAll('button')].find((each) => "
        "each.textContent === name).click(); press('Start'); for (let k = 0; k < 5; k++) "
        "press('Step'); }"
    )
    page.wait_for_selector(".drawing[data-playing=false]")
    assert title.text_content() == "all-gather, step 2 of 3", "quick presses all count"


def test_a_page_shows_the_trees_of_double_tree(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    file = tmp_path / "trees.html"
    simctl("animate", "--algo", "double_tree:segments=2", "--p", 8, "--out", file)
    page = opened(open_page, file)
    picture = page.locator("img.figure")
    box = picture.bounding_box()
    assert box is not None
    assert box["width"] > 600
    assert picture.get_attribute("alt") == "2 trees"
    image = b64decode((picture.get_attribute("src") or "").partition(",")[2]).decode()
    assert image.count("<use") + image.count("<path") >= 2 * (8 + 7)
    simctl("animate", "--algo", "ring", "--p", 4, "--out", file)
    assert opened(open_page, file).locator("img.figure").count() == 0


def test_a_phone_shows_where_a_wrong_algorithm_stops(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    source, file = tmp_path / "half.py", tmp_path / "half.html"
    source.write_text(WRONG)
    done = simctl("animate", "--algo-file", source, "--p", 3, "--out", file)
    assert done.returncode == 1
    assert "half is wrong. The first wrong value is in rank 0, slot 0" in done.stderr
    page = opened(open_page, file, width=390, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("p.wrong").is_hidden()
    page.keyboard.press("End")
    assert "rank 2, slot 0 is missing" in (page.locator("p.wrong").text_content() or "")
    assert page.locator("h3.step").text_content() == r"<b>$\frac{</b>$"
    folder = tmp_path / "half"
    done = simctl("animate", "--algo-file", source, "--p", 2, "--size", "8B", "--out", folder)
    assert done.returncode == 1, done.stderr
    assert len(list(folder.iterdir())) == 3, "a name is no formula"


def test_pictures_are_as_many_as_it_says(simctl: Simctl, tmp_path: Path) -> None:
    file, folder = tmp_path / "tree.gif", tmp_path / "steps"
    done = simctl("animate", "--algo", "tree_reduce", "--p", 2, "--out", file)
    assert done.returncode == 0, done.stderr
    with Image.open(file) as picture:
        frames = len(list(ImageSequence.Iterator(picture)))
    assert f"{frames} frames" in done.stdout
    assert file.stat().st_size < 5_000_000
    done = simctl("animate", "--algo", "tree", "--p", 2, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{k}.svg" for k in range(4)]
    assert "4 pictures" in done.stdout


def test_buckets_travel_while_the_backward_goes_on(
    simctl: Simctl, open_page: Open, tmp_path: Path
) -> None:
    file = tmp_path / "ddp.html"
    network = "--bandwidth", "10GB/s"
    done = simctl("animate", "--model", "resnet50", "--p", 2, *network, "--out", file)
    assert done.returncode == 0, done.stderr
    page = opened(open_page, file, width=390, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    seen = []
    page.get_by_label("speed").select_option("4×")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".drawing[data-playing=false]")
        seen.append(page.locator("h3.step").text_content())
        if seen[-1] == "optimizer":
            break
    assert seen[0] == "forward"
    assert "backward and all-reduce" in seen
    assert seen[-1] == "optimizer"
    assert "backward" in (page.locator(".legend").text_content() or "")


def test_a_pipeline_is_animated(simctl: Simctl, open_page: Open, tmp_path: Path) -> None:
    sizes = "--p", 2, "--batch", 2
    done = simctl("animate", "--pipeline", "1f1b", *sizes, "--out", tmp_path / "pipe.html")
    assert done.stdout == "1f1b, 2 devices, 2 micro-batches: 9ms a step\n"
    page = opened(open_page, tmp_path / "pipe.html")
    page.keyboard.press("End")
    assert "micro-batches done2" in (page.locator(".readouts").text_content() or "")
    done = simctl("animate", "--pipeline", "1f1b", *sizes, "--out", tmp_path / "steps")
    assert done.stdout.endswith("pictures\n")
    assert len(list((tmp_path / "steps").glob("step-*.svg"))) > 4


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "resnet50", "--strategy", "local_sgd:every=2", "--p", "2", "--steps", "2"),
        ("--model", "resnet50", "--strategy", "asgd", "--p", "2", "--steps", "2"),
        ("--model", "resnet50", "--p", "2", "--straggler", "1:2"),
        ("--model", "gpt2:layers=2", "dp=2,batch=2"),
        (*PLAN, "dp=2,tp=2,pp=2,batch=8", "--straggler", "3:2", "--slow-link", "1:0.5"),
        (*PLAN, "dp=8,zero=3", "--steps", "2", "--fail", "rank=1,step=1,restart=5ms"),
    ],
)
def test_strategies_and_plans_are_films(
    simctl: Simctl, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = simctl("animate", *options, "--out", tmp_path / "film.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "film.html").read_text()
    assert "Keys: space plays" in page
    assert ("rank 3" in page) == ("3:2" in options)
