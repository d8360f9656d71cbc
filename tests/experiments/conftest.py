"""Fixtures of tests that open pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from browser import Open, chromium, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser of a module: a longer life would leave its event loop to other tests."""
    with chromium() as program:
        yield program


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Opens files in the browser; none may ask for an address or complain."""
    with opened(browser) as open_file:
        yield open_file
