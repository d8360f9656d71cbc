"""Names of algorithms in files."""

from __future__ import annotations

import re

from simulator.collectives import algorithms

_UNNAMED = re.compile(r"[^\w.+-]", re.ASCII)


def free_name(name: str, ending: str) -> str:
    """A name that no algorithm of simctl has, and that may stand in a list.

    >>> free_name("ring", "xml"), free_name("my ring: 2", "xml")
    ('ring.xml', 'my_ring__2')
    """
    plain = _UNNAMED.sub("_", name)[:63] or ending
    return f"{plain}.{ending}" if plain in algorithms() else plain
