"""Every curve of the shared measurements, judged: healthy ones raise no alarm, sick ones are found
and named."""

from functools import cache
from pathlib import Path

import pytest

from experiments.diagnosis import Diagnosis, compare, diagnose
from experiments.measurements import Measurements, read, read_all
from grouped_cases import each_case

SHARED = Path(__file__).parents[4] / "shared" / "measured"
HEALTHY = (Path(__file__).parent / "healthy.txt").read_text().split()
SICK = {
    "mn5acc_nccl_nvls_ar_p64": (
        "16 KiB takes 140 us, 128 KiB 110 us; the tree that NCCL fell back to takes 53 us there"
    ),
    "abci_v100_nccl_bc_p16": (
        "16 and 32 MiB lose 3.6 times the bandwidth that 2 MiB has; 8 and 32 ranks do not"
    ),
    "abci_v100_osugpu_bc_p4": "copies through the host up to 1 MiB: 21 times as long as 2 MiB",
    "abci_v100_osugpu_bc_p8": "10 to 17 ms from 256 KiB to 2 MiB, 1.2 ms at 4 MiB",
    "abci_v100_osugpu_bc_p16": "11 ms at 256 KiB, 1.2 ms at 512 KiB",
    "abci_v100_osugpu_bc_p32": "11 ms at 256 KiB, 1.4 ms at 512 KiB",
    "abci_v100_osugpu_bc_p64": "11 ms at 256 KiB, 1.8 ms at 512 KiB",
    "abci_v100_osugpu_bc_p128": "12 ms at 256 KiB, 2.6 ms at 512 KiB",
    "abci_v100_p2p_gpu_bandwidth_1pair": (
        "the eager limit of GPU buffers: 16 KiB takes three times as long as 32 KiB"
    ),
    "abci_v100_p2p_gpu_bandwidth_4pair": "the same",
    "abci_v100_p2p_gpu_latency_1pair": "128 KiB takes 117 us, 256 KiB 62 us",
    "alps_gh200_ofi192_ar_p8": "the bump: 64 KiB to 1 MiB",
    "alps_gh200_ofi192_ar_p16": "the bump: 4 KiB to 1 MiB, and 16 MiB",
    "alps_gh200_ofi192_ar_p32": "the bump: 4 KiB to 512 KiB",
    "alps_gh200_ofi192_ar_p64": (
        "32 KiB in place and out of place, and 128 MiB; the bump is milder here"
    ),
    "polaris_a100_221_set4_a2a_p8": (
        "messages under 256 B to a rank take twice as long as larger ones"
    ),
    "polaris_a100_221_set4_a2a_p32": "the same, four times",
    "polaris_a100_221_set4_ag_p8": "1 KiB: 22 us out of place and 66 us in place",
    "polaris_a100_221_set4_ag_p32": (
        "erratic: 262, 60, 153, 65 us from 512 B to 4 KiB, others in place"
    ),
    "polaris_a100_221_set4_ar_p8": "128 and 256 KiB: 345 us, and 213 us at 512 KiB",
    "polaris_a100_221_set5_a2a_p32": (
        "messages under 256 B to a rank take twice as long as larger ones"
    ),
    "polaris_a100_221_set5_ag_p8": "32 KiB: 131 us, and 114 us at 64 KiB; 75 us in place",
    "polaris_a100_221_set5_ar_p32": "256 KiB to 4 MiB: up to 2 ms, and 1.4 ms at 8 MiB",
    "rtx2080ti_10g_auto_ar_p16": (
        "single sizes up to five times slower: others on the same 10 Gbit/s network"
    ),
    "rtx2080ti_10g_tree_ar_p16": "the same",
    "ompi_cpu16_10g_run4_ar_p16": (
        "128 B takes 187 us between 113 and 129 us: one outlier on TCP, not in other runs"
    ),
    "h200_2n_ar_p16_bf16": "a very noisy run, with outliers of several ms",
    "v100_2n_roce25_ar_p2": "128 KiB takes 406 us, 256 KiB 186 us",
}
"""The curves that are judged sick, and why."""

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared measurements are not here")


@cache
def measured() -> Measurements:
    return read_all([SHARED])


@cache
def judged() -> dict[str, Diagnosis]:
    return {Path(curve.source).stem: diagnose(curve) for curve in measured().curves}


def test_every_curve_is_judged_once() -> None:
    assert sorted([*HEALTHY, *SICK]) == sorted(judged())


def test_healthy_curves_raise_no_alarm() -> None:
    assert {
        name: judged()[name].findings[0].text for name in HEALTHY if judged()[name].abnormal
    } == {}


def test_sick_curves_are_found() -> None:
    assert [name for name in SICK if not judged()[name].abnormal] == []


@each_case(
    ("name", "low", "high"),
    [
        ("p8", 64 << 10, 1 << 20),
        ("p16", 4 << 10, 1 << 20),
        ("p32", 4 << 10, 512 << 10),
        ("p64", 32 << 10, 32 << 10),
    ],
)
def test_the_bump_of_alps_is_named_with_its_sizes(name: str, low: int, high: int) -> None:
    diagnosis = judged()[f"alps_gh200_ofi192_ar_{name}"]
    spans = [
        (diagnosis.columns.size[f.places[0]], diagnosis.columns.size[f.places[-1]])
        for f in diagnosis.findings
        if f.alarm
    ]
    assert (low, high) in spans


def test_the_slower_set_up_of_polaris_is_named() -> None:
    differences = compare([curve for curve in measured().curves if curve.family.startswith("F09 ")])
    assert len(differences) == 6
    assert all("set5 is slower than set4" in difference.text for difference in differences)


def test_nothing_else_is_slower_than_its_like() -> None:
    differences = compare(
        [curve for curve in measured().curves if not curve.family.startswith("F09 ")]
    )
    assert [difference.text for difference in differences] == []


@pytest.mark.parametrize(
    ("log", "sick"),
    [
        ("h100_one_node", []),
        ("h100_pair_alltoall_then_sendrecv", []),
        ("abci_v100_p32", []),
        (
            "alps_gh200_p16_aws-ofi-1.9.2",
            ["wrong result", "bump", "bump", "costly switch", "in place differs"],
        ),
    ],
)
def test_raw_logs(log: str, sick: list[str]) -> None:
    """The first was cut short by the benchmark itself, which is no fault."""
    curves = read(SHARED / "logs" / f"{log}.log").curves
    assert [
        finding.kind for curve in curves for finding in diagnose(curve).findings if finding.alarm
    ] == sick
