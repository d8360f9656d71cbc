"""Batches are dealt as torch's DistributedSampler deals them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.learning.sampler import Sampler, deal
from extras import needs


def test_rank_r_takes_each_sample_from_number_r_on() -> None:
    assert deal(np.arange(10), 4).tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]


def test_few_samples_are_repeated() -> None:
    assert deal(np.array([7, 8]), 5).tolist() == [[7], [8], [7], [8], [7]]


@needs("torch", "torch")
@pytest.mark.parametrize(("samples", "ranks"), [(10, 4), (12, 4), (1437, 8), (2, 5), (5, 1)])
def test_ranks_have_the_samples_of_torch(samples: int, ranks: int) -> None:
    import torch
    from torch.utils.data import DistributedSampler

    order = torch.randperm(samples, generator=torch.Generator().manual_seed(3)).numpy()
    for rank, rows in enumerate(deal(order, ranks)):
        sampler = DistributedSampler(range(samples), ranks, rank, seed=3)
        assert list(sampler) == rows.tolist()


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 7), st.integers(0, 3))
def test_an_epoch_has_every_sample(samples: int, ranks: int, batch: int, epoch: int) -> None:
    sampler = Sampler(samples, ranks, batch, seed=1)
    numbers = range(epoch * sampler.batches, (epoch + 1) * sampler.batches)
    rows = np.concatenate([sampler.rows(number) for number in numbers], axis=1)
    assert set(rows.ravel().tolist()) == set(range(samples))
    assert rows.size - samples < ranks


def test_epochs_and_seeds_have_their_orders() -> None:
    sampler, other = Sampler(40, 2, 20, seed=1), Sampler(40, 2, 20, seed=2)
    assert sampler.rows(0).tolist() == Sampler(40, 2, 20, seed=1).rows(0).tolist()
    assert sampler.rows(0).tolist() != sampler.rows(1).tolist()
    assert sampler.rows(0).tolist() != other.rows(0).tolist()
