"""The collectives of a group of workers."""

import pytest

from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules import semantics
from simulator.training.communicator import Communicator
from simulator.training.plan import Setting
from topologies.errors import InputError
from topologies.shapes import full_mesh


def mesh(ranks: int) -> Setting:
    """Workers on a machine of four devices."""
    return Setting(full_mesh(4, bandwidth=1.0), ranks)


@pytest.mark.parametrize("small", ["rings", "nvls", "parameter_server_apart"])
def test_small_messages_need_neither_a_machine_nor_a_server(small: str) -> None:
    with pytest.raises(
        InputError, match=f"^small is '{small}': a plain all-reduce among the workers, like tree or"
    ):
        Communicator(mesh(4), small=small)


def test_only_all_reduces_average_gradients() -> None:
    with pytest.raises(InputError, match=r"^ring_all_gather is of all_gather: take an all_reduce"):
        Communicator(mesh(4), "ring_all_gather")


def test_training_searches_no_options() -> None:
    with pytest.raises(InputError, match=r"^ring:segments=best: best is found for a lone coll"):
        Communicator(mesh(4), "ring:segments=best")


def test_large_and_small_messages_have_their_algorithms() -> None:
    communicator = Communicator(mesh(4), "recursive_doubling", "naive")
    for schedule, name in (
        (communicator.large(64.0), "recursive_doubling"),
        (communicator.small(8.0), "naive"),
    ):
        semantics.check(schedule, ALL_REDUCE)
        assert schedule.volume == find(name).build(4, schedule.nbytes_total).volume
    assert (communicator.unit.ranks, communicator.words) == (4, ())


def test_a_server_is_counted_and_a_lone_worker_sends_nothing() -> None:
    unit = Communicator(mesh(3), "parameter_server_apart").unit
    assert (unit.workers, unit.ranks) == (3, 4)
    assert Communicator(mesh(1), "rings").large(64.0).volume == 0
