"""Locations in a document, and how messages spell them."""

from __future__ import annotations

import re
from collections.abc import Callable

from topologies.errors import shown

Location = tuple[int | str, ...]
"""Where in a document: ("links", 3, "bandwidth")."""
Place = Callable[[Location], str]
"""A location in words, with the name of the file first."""

_DEEPEST = 16


def spelling(location: Location) -> str:
    """A location in words.

    >>> spelling(("links", 3, "bandwidth")), spelling(("a key",))
    ('links[3].bandwidth', "'a key'")
    """
    first = location[:_DEEPEST]
    keys = (f"[{key}]" if isinstance(key, int) else f".{_bare(key)}" for key in first)
    return "".join(keys).removeprefix(".") + "..." * (len(location) > _DEEPEST)


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_]{1,40}", key) else shown(key)
