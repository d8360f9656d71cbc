"""DDP: the memory that each rank holds."""

from dataclasses import replace

import pytest

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, quiet, ran
from simulator.training.footprint import footprint
from simulator.training.model import Layer


def test_compressed_gradients_are_held_besides_the_whole_ones() -> None:
    plan, timeline, _ = ran(quiet(bucket=ONE_BUCKET), 1)
    halved, halved_timeline, _ = ran(quiet(bucket=ONE_BUCKET, compress=True), 1)
    assert footprint(halved, halved_timeline).peak - footprint(plan, timeline).peak == GRADIENTS / 2


@pytest.mark.parametrize("compress", [False, True])
def test_every_rank_holds_parameters_state_and_buffers_and_all_but_the_first_needlessly(
    compress: bool,
) -> None:
    plain, more = (
        footprint(*ran(quiet(compress=compress), 3, model=model)[:2])
        for model in (replace(MODEL, layers=bare(), state=0.0), replace(MODEL, state=2.0))
    )
    extra = 4 * 16.0 + 2 * GRADIENTS
    assert more.resident[0] - plain.resident[0] == pytest.approx(3 * extra)
    assert more.redundant[0] - plain.redundant[0] == pytest.approx(2 * extra)


def bare() -> tuple[Layer, ...]:
    """The layers without running statistics."""
    return tuple(replace(layer, buffers=0.0) for layer in MODEL.layers)


def test_gradients_that_are_compressed_differ_on_every_rank() -> None:
    halved = footprint(*ran(quiet(bucket=ONE_BUCKET, compress=True), 3)[:2])
    whole = footprint(*ran(quiet(bucket=ONE_BUCKET), 3)[:2])
    assert whole.redundant[-1] - halved.redundant[-1] == pytest.approx(2 * GRADIENTS / 2)
