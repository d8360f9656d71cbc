"""A page opens in a browser, shows any text as text, and asks for no address."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure as Drawing

from browser import Open
from experiments.answer_blocks import Cell, Facts, Heading, Table
from experiments.pages.page import TYPES, Figure, Page, embedded, pack, to_html
from experiments.pictures.figures import to_image

HOSTILE = "<script>alert(1)</script>\"'&\0</script><!--<img src=x onerror=alert(2)>"


def drawing(label: str) -> Drawing:
    figure = Drawing(figsize=(4, 3))
    axes = figure.add_subplot()
    axes.plot([1, 2, 3], [2, 1, 3], label=label)
    axes.legend()
    return figure


def page_of(text: str) -> Page:
    rows = [[Cell(f"{text} {k}"), Cell(f"{10 - k} ms", (10.0 - k) / 1e3)] for k in range(8)]
    image = to_image(drawing("curve <b>"))
    return Page(
        text,
        [text, "A second sentence."],
        [
            Table(text, lambda: ([Heading("name"), Heading("time", number=True)], rows), [text]),
            Figure("A figure", image, text),
            Figure("Another", image),
            Facts(text, [[text, text]]),
        ],
        {"data.json": {text: text}},
    )


def test_a_page_shows_hostile_text_as_text(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(to_html(page_of(HOSTILE)), encoding="utf-8")
    page = open_page(file)
    assert page.locator("section").count() == 4
    assert page.locator("img").count() == page.locator("img.figure").count() == 2
    assert page.evaluate("document.querySelector('img.figure').naturalWidth") > 0
    shown = page.locator("h1").text_content()
    assert shown == HOSTILE.replace("\0", "")


def test_a_table_sorts_and_filters(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(to_html(page_of("a name")), encoding="utf-8")
    page = open_page(file)
    times = page.locator("tbody td.number")
    page.get_by_role("button", name="time").click()
    assert times.all_text_contents() == [f"{k} ms" for k in range(3, 11)]
    page.get_by_role("button", name="time").press("Enter")
    assert times.first.text_content() == "10 ms"
    page.get_by_role("searchbox").fill("NAME 10")
    assert page.locator("tbody tr:visible").count() == 1
    with page.expect_download() as download:
        page.get_by_role("link", name="data.json").click()
    assert download.value.path().read_text() == '{"a name":"a name"}'


@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_is_no_wider_than_the_window(open_page: Open, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(to_html(page_of("name" * 40)), encoding="utf-8")
    page = open_page(file, width=width, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@given(st.text())
def test_embedded_text_cannot_end_its_element(text: str) -> None:
    assert not set("<>&") & set(embedded({text: [text]}))


@given(
    st.lists(st.integers(-(2**31), 2**32 - 1), max_size=9),
    st.lists(st.floats(width=32, allow_nan=False), max_size=9),
)
def test_packed_columns_keep_their_types(integers: list[int], floats: list[float]) -> None:
    packed = pack({"a": np.array(integers, dtype=np.int64), "b": np.array(floats)})
    columns = packed["columns"]
    assert isinstance(columns, list)
    assert [column["length"] for column in columns] == [len(integers), len(floats)]
    assert columns[0]["type"] in TYPES.values()
    assert columns[1]["type"] == "Float64Array"


def test_words_are_no_column() -> None:
    with pytest.raises(TypeError, match="numbers alone"):
        pack({"names": np.array(["a"])})


@pytest.mark.exhaustive
def test_a_browser_reads_packed_columns(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(to_html(page_of("name")), encoding="utf-8")
    columns = {
        "small": np.arange(5),
        "signed": np.array([-1, 70000]),
        "single": np.array([0.5, -2], dtype=np.float32),
        "double": np.array([1e300]),
    }
    page = open_page(file)
    script = """async (packed) => {
        const columns = await unpacked(packed);
        return Object.fromEntries(Object.entries(columns).map(([k, v]) => [k, [...v]]));
    }"""
    read = page.evaluate(script, pack(columns))
    assert read == {name: column.tolist() for name, column in columns.items()}
