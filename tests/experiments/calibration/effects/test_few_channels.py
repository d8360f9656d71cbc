"""A message to one peer in a node has few channels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.effects.few_channels import CHANNEL
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import predict
from experiments.profiles.profile_document import of
from grouped_cases import each_case
from made_up_curves import curve
from simulator.effects.channels import PeerChannels
from simulator.effects.jobs import jobs


def model(*places: tuple[int, int]) -> Model:
    shown = [curve("send_recv", ("shift",), ranks, nodes) for ranks, nodes in places]
    return Model(FitPoints([*shown, curve("all_gather", ("ring_all_gather",), 8, 1)]), NCCL)


@each_case(
    ("places", "seen"),
    [([(8, 1)], True), ([(8, 2)], False), ([(8, 2), (4, 1)], True), ([], False)],
)
def test_sends_on_one_node_show_the_rate_of_a_channel(
    places: list[tuple[int, int]], seen: bool
) -> None:
    made = model(*places)
    assert (CHANNEL in made.index) == seen
    assert bool(made.profile(made.start).channels) == seen


def test_few_channels_are_simulated_as_they_are_predicted() -> None:
    made = model((8, 1), (4, 1), (8, 2))
    inner = made.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(made.start))
    made.explore(inner)
    assert made.explore(inner) < 1e-9
    predicted, profile = made.predict(inner), made.profile(inner, "made up", "nodes")
    for k, series in enumerate(made.points.curves):
        rows = predict(profile, NCCL, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[made.points.curve == k], rel=1e-9
        )


@pytest.mark.parametrize(("ranks", "busbw"), [(8, 4 * 20.4e9), (4, 8 * 20.4e9)])
def test_a_message_of_64_mib_has_the_channels_of_its_share(ranks: int, busbw: float) -> None:
    """Of 32 channels each of 8 ranks has 4 for a peer, and each of 4 ranks has 8."""
    made, sizes = model((8, 1)), np.array([2.0**26])
    sends = FitCurve("x", "send_recv", ("shift",), ranks, 1, sizes, sizes)
    (row,) = predict(made.profile(made.start), NCCL, sends, as_nodes(ranks, ranks))
    assert sizes[0] / row.seconds == pytest.approx(busbw, rel=0.03)


@given(st.integers(2, 64), st.floats(1, 1e12), st.floats(1, 4), st.integers(1, 2))
def test_more_bytes_never_have_fewer_channels(
    ranks: int, nbytes: float, factor: float, nodes: int
) -> None:
    """All channels at most; and no message is faster than all channels together."""
    few = PeerChannels("node", 1 / 20e9)
    some, more = (float(few.of(ranks, size)) for size in (nbytes, nbytes * factor))
    assert 1 <= some <= more <= few.total
    job = jobs(["shift"], [ranks], [nodes], [ranks], [0.0])
    (excess,) = few.excess(job, nbytes, 1 / 370e9)
    assert excess == 0.0 if nodes > 1 else 0 <= excess <= nbytes / 20e9


def test_a_file_keeps_channels() -> None:
    made = model((8, 1))
    profile = made.profile(made.start, "made up", "nodes:per_node=8")
    assert of(profile, "NCCL").simulated().channels == profile.channels
