"""Pages in a real browser: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

Open = Callable[..., "Page"]
LOCAL = ("file:", "data:", "blob:", "about:")


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A browser; skips the test where there is none, unless SIMCTL_REQUIRE names it."""
    program = shutil.which("chromium")
    if "browser" not in os.environ.get("SIMCTL_REQUIRE", "").split(","):
        if find_spec("playwright") is None:
            pytest.skip("playwright is not installed")
        if program is None:
            pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: "Browser") -> Iterator[Open]:
    """Opens files in tabs. At the end no tab may have asked for an address or have complained."""
    contexts, complaints, requests = list["BrowserContext"](), list[str](), list[str]()

    def open_page(path: Path, width: int = 1280, height: int = 800, dark: bool = False) -> "Page":
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.resolve().as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints + [url for url in requests if not url.startswith(LOCAL)] == []
