"""Slow links."""

import numpy as np
import pytest

from grouped_cases import each_case
from topologies.catalogue import find
from topologies.degraded import slowed
from topologies.errors import InputError
from topologies.topology_builder import TopologyBuilder

STAR = find("star").with_links(bandwidth=8.0).build(4)


def changed(link: str | int) -> list[str]:
    topology = slowed(STAR, link, 0.25)
    names = list(STAR.medium_names)
    assert set(topology.medium_bandwidth.tolist()) == {8.0, 2.0}
    return sorted(names[m] for m in np.flatnonzero(topology.medium_bandwidth == 2.0))


def test_a_link_has_a_share_of_its_bandwidth() -> None:
    assert changed("gpu1->switch") == ["gpu1->switch"]


def test_all_links_of_a_rank_have() -> None:
    assert changed(2) == ["gpu2->switch", "switch->gpu2"]


def test_the_machine_itself_is_left_as_it_was() -> None:
    slowed(STAR, 2, 0.5)
    assert set(STAR.medium_bandwidth.tolist()) == {8.0}


def test_a_machine_without_links_has_none_to_slow() -> None:
    builder = TopologyBuilder("single")
    builder.device("gpu0")
    with pytest.raises(InputError, match="no such link: name a link like 'gpu0->switch'"):
        slowed(builder.build(["gpu0"]), "x", 0.5)


@each_case(
    ("link", "factor", "message"),
    [
        (4, 0.5, "no such rank, they run from 0 to 3"),
        (-1, 0.5, "no such rank"),
        ("gpu1->swich", 0.5, r"no such link: did you mean 'gpu1->switch'\? \(name a link"),
        ("", 0.5, "no such link: name a link like 'gpu0->switch', or a rank like 3$"),
        (1, 0.0, "a factor above 0"),
        (1, float("inf"), "a factor above 0"),
    ],
)
def test_what_is_not_there_is_refused(link: str | int, factor: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        slowed(STAR, link, factor)
