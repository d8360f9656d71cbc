"""What makes ranks differ."""

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.training.conditions import Attempt, Conditions, Failure
from topologies.errors import InputError


def test_by_default_all_ranks_are_alike() -> None:
    assert Conditions().factors(2, 3).tolist() == [[1.0] * 3] * 2


def test_a_straggler_is_slower_in_every_step() -> None:
    assert Conditions({1: 1.5}).factors(2, 3).tolist() == [[1.0, 1.5, 1.0]] * 2


def test_the_same_seed_draws_the_same_noise() -> None:
    noise = Conditions(sigma=0.2, seed=7)
    assert np.array_equal(noise.factors(5, 4), Conditions(sigma=0.2, seed=7).factors(5, 4))
    assert not np.array_equal(noise.factors(5, 4), Conditions(sigma=0.2, seed=8).factors(5, 4))


def test_noise_has_mean_one() -> None:
    factors = Conditions(sigma=0.5, seed=1).factors(1000, 100)
    assert factors.mean() == pytest.approx(1, abs=0.01)
    assert np.log(factors).std() == pytest.approx(0.5, abs=0.01)


def test_observed_times_are_drawn_as_shares_of_their_mean() -> None:
    factors = Conditions(observed=(1.0, 3.0), seed=1).factors(200, 10)
    assert set(factors.ravel().tolist()) == {0.5, 1.5}


def test_after_a_failure_the_steps_since_the_checkpoint_come_again() -> None:
    attempts = Conditions(failure=Failure(0, 4, 1.0, checkpoint=3)).attempts(6)
    assert attempts == [
        *(Attempt(step) for step in (0, 1, 2)),
        Attempt(3, lost=True),
        Attempt(4, lost=True, fails=True),
        *(Attempt(step) for step in (3, 4, 5)),
    ]


def test_a_rank_runs_out_of_input() -> None:
    assert [Conditions(batches={1: 2}).has_input(step, 3).tolist() for step in (1, 2)] == [
        [True, True, True],
        [True, False, True],
    ]


@each_case(
    ("make", "message"),
    [
        (lambda: Conditions({-1: 2.0}), "straggler -1"),
        (lambda: Conditions({1: 0.0}), "straggler 1:0.0"),
        (lambda: Conditions({1: float("nan")}), "straggler 1:nan"),
        (lambda: Conditions(sigma=-0.1), "sigma -0.1"),
        (lambda: Conditions(sigma=0.1, observed=(1.0,)), "not both"),
        (lambda: Conditions(observed=(0.0,)), "not all 0"),
        (lambda: Conditions(batches={0: -1}), "0 has -1 batches"),
        (lambda: Conditions({5: 2.0}).factors(1, 3), "there is no rank 5"),
        (lambda: Conditions(batches={3: 2}).factors(1, 3), "there is no rank 3"),
        (lambda: Failure(0, -1, 1.0), "in step -1"),
        (lambda: Failure(0, 0, -1.0), "restart of -1.0"),
        (lambda: Failure(0, 0, 1.0, checkpoint=0), "checkpoint every 0"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
