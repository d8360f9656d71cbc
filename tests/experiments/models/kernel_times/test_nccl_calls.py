"""Times of collectives under NCCL: laws, and measured ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS
from experiments.models.kernel_times.nccl_calls import collective_seconds, laws
from grouped_cases import each_case
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import find

DEVICES, CALLS = st.sampled_from([*ACCELERATORS]), st.sampled_from([*laws("h100")])
RANKS, NBYTES = st.integers(1, 2**12), st.floats(1.0, 2.0**40)


@given(DEVICES, CALLS, RANKS, NBYTES, st.floats(0.0, 100.0))
def test_software_takes_no_less_than_links(
    device: str, call: str, ranks: int, nbytes: float, links: float
) -> None:
    seconds = collective_seconds(device, call, ranks, nbytes, links)
    assert seconds > 0
    assert links <= seconds


@given(DEVICES, CALLS, RANKS, NBYTES, st.floats(1e-9, 10.0), st.floats(1.0, 8.0))
def test_slower_links_are_not_faster(
    device: str, call: str, ranks: int, nbytes: float, links: float, factor: float
) -> None:
    fast = collective_seconds(device, call, ranks, nbytes, links)
    assert fast <= collective_seconds(device, call, ranks, nbytes, factor * links)


@each_case(
    ("device", "machine", "collective", "ranks", "nbytes", "seconds"),
    [
        ("h100", "hgx_h100", "all_gather", 2, 2**26, 158e-6),
        ("h100", "hgx_h100", "all_reduce", 4, 2**26, 334e-6),
        ("a100", "dgx_a100", "reduce_scatter", 4, 2**26, 309e-6),
        ("b200", "b200", "all_to_all", 8, 2**26, 139e-6),
        ("h200", "hgx_h200", "all_gather", 8, 2**29, 1.408e-3),
    ],
)
def test_measured_collectives(
    device: str, machine: str, collective: str, ranks: int, nbytes: float, seconds: float
) -> None:
    # nccl-tests in AIConfigurator, tables nccl_perf.
    plan = Degrees(dp=8 // ranks, tp=ranks)
    times = GroupTimes(find(machine).build(8), plan, laws=laws(device))
    assert times.seconds("tp", collective, nbytes) == pytest.approx(seconds, rel=0.05)
