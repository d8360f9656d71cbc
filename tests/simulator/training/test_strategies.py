"""Strategies by name."""

import pytest

from simulator.training import find, strategies
from topologies.errors import InputError


def test_strategies_are_those_that_files_declare() -> None:
    assert list(strategies()) == ["ddp", "dp", "ssgd", "asgd", "ssp", "fsdp", "local_sgd"]
    for name, strategy in strategies().items():
        assert find(name) is strategy


def test_an_unknown_strategy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean 'local_sgd'"):
        find("local_sdg")
    with pytest.raises(InputError, match="take fsdp, or a plan of any stage, like "):
        find("zero2")
