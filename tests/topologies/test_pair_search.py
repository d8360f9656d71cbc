"""Routes of few pairs are looked for from both ends at once, and are the same."""

from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
import pytest

from topologies._pair_kernels import follow
from topologies.routing import find_routes
from topologies.shapes import SHAPES
from topologies.topology import Paths


@pytest.mark.parametrize(("name", "ranks"), [("dragonfly", 40), ("fat_tree", 54), ("torus", 60)])
@pytest.mark.parametrize("paths", get_args(Paths))
def test_ways_are_chosen_alike_from_one_end_or_both(name: str, ranks: int, paths: Paths) -> None:
    topology = replace(SHAPES[name](ranks, bandwidth=1e9, latency=1e-6), paths=paths)
    pair = np.arange(ranks**2, dtype=np.int32)
    columns = pair // ranks, pair % ranks, pair % 5
    results = []
    for few in (0, ranks):
        with patch("topologies.routing.FEW", few):
            indptr, links = find_routes(topology, *columns)
            results.append((indptr.tolist(), links.tolist()))
    assert results[0] == results[1]


def test_both_ends_meet_before_a_switch_of_many_links_is_searched() -> None:
    """A route across 1024 nodes, uncompiled, follows fewer links than there are nodes."""
    topology = SHAPES["nodes"](8192, bandwidth=1e9, latency=1e-6)
    followed = []

    def counted(*arguments: Any) -> None:
        followed.append(arguments[-1])
        follow(*arguments)

    plain = patch("topologies.routing.kernel", lambda function, _: function)
    with plain, patch("topologies._pair_kernels.follow", counted):
        assert len(topology.route(7, 8)) == 4
    assert len(followed) < 64
