"""Advice fits the network that the file names, and no variable that is set already is named."""

from dataclasses import replace
from pathlib import Path

import pytest

import nccl_logs
from experiments.diagnosis import diagnose
from experiments.diagnosis.advice import advice
from experiments.diagnosis.findings import Finding, FindingKind
from experiments.measurements import Curve, read
from grouped_cases import each_case

LOG = Path(__file__).parents[3] / "examples" / "alps_gh200_p16_aws-ofi-1.9.2.log"
BUMP = (Finding(FindingKind.BUMP, (3,), 3.0, ""),)
WIDE = (Finding(FindingKind.BUMP, (3, 4, 5, 6), 3.0, ""),)
SWITCH = (Finding(FindingKind.COSTLY_SWITCH, (3, 4), 3.0, ""),)
FREE = ("repeat without the algorithm and the protocol that are forced here",)
FAR = (Finding(FindingKind.FAR_BELOW, (3,), 3.0, ""),)


@pytest.mark.parametrize("name", ["my.log", "slingshot.log", "profile/ofi.log"])
def test_a_log_has_its_advice_by_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(LOG.read_text())
    (curve,) = read(path).curves
    assert curve.network == "Slingshot"
    assert diagnose(curve).advice[-1] == (
        "on Slingshot the eager and rendezvous limits of libfabric decide here: "
        "FI_CXI_RDZV_THRESHOLD, "
        "FI_CXI_RDZV_EAGER_SIZE; try a newer aws-ofi-nccl"
    )


@pytest.mark.parametrize("name", ["slingshot/x.log", "profile/aws-ofi-cxi.log"])
def test_a_path_names_no_network(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    lines = LOG.read_text().splitlines()
    path.write_text(
        "\n".join(
            line for line in lines if not any(word in line for word in ("FI_", "CXI", "Slingshot"))
        )
    )
    (curve,) = read(path).curves
    assert curve.network == ""
    assert not any("Slingshot" in line for line in diagnose(curve).advice)


def test_what_is_set_is_not_named(healthy: Curve) -> None:
    plain = advice(healthy, (*BUMP, *FAR))
    assert all(
        any(name in line for line in plain)
        for name in ("NCCL_PROTO", "NCCL_ALGO", "NCCL_IB_HCA", "NCCL_DEBUG")
    )
    names = (
        "NCCL_PROTO",
        "NCCL_ALGO",
        "NCCL_IB_HCA",
        "NCCL_DEBUG",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_MIN_NCHANNELS",
    )
    lines = advice(replace(healthy, variables=names), (*BUMP, *FAR))
    assert lines == (
        "a single size that is slow only once is noise: more iterations (-n 100)",
        "see in NCCL's lines that every NIC is used (NET/IB), over GPUDirect RDMA, with enough "
        "channels, each rank on "
        "the cores near its GPU",
    )


def test_a_forced_algorithm_is_set(healthy: Curve) -> None:
    (line,) = advice(replace(healthy, algorithm="ring", protocol="LL"), BUMP)
    assert line.startswith("a single size")


def test_one_size_may_be_noise_and_four_are_none(healthy: Curve) -> None:
    assert any("noise" in line for line in advice(healthy, BUMP))
    assert any("noise" in line for line in advice(healthy, (*WIDE, *BUMP)))
    assert not any("noise" in line for line in advice(healthy, WIDE))


def test_what_is_left_of_a_line_is_whole(healthy: Curve) -> None:
    assert advice(replace(healthy, protocol="LL"), WIDE) == (
        "repeat these sizes with NCCL_ALGO=Ring and Tree",
    )
    assert advice(replace(healthy, protocol="LL"), SWITCH) == (
        "force what ran at the smaller size (NCCL_ALGO) to see whether it is faster here",
    )


@pytest.mark.parametrize("findings", [WIDE, SWITCH])
def test_where_all_choices_are_forced_they_may_be_at_fault(
    healthy: Curve, findings: tuple[Finding, ...]
) -> None:
    assert advice(replace(healthy, algorithm="ring", protocol="LL"), findings) == FREE


@each_case(
    ("value", "advised"), [("WARN", True), ("VERSION", True), ("INFO", False), ("TRACE", False)]
)
def test_only_some_values_of_nccl_debug_print_its_lines(value: str, advised: bool) -> None:
    curve = nccl_logs.only(f"export NCCL_DEBUG={value}\n{nccl_logs.log()}")
    assert any("NCCL_DEBUG=INFO" in line for line in advice(curve, FAR)) == advised


def test_networks_over_libfabric_have_no_lines_of_infiniband(healthy: Curve) -> None:
    (line,) = advice(replace(healthy, network="EFA"), FAR)
    assert "(NET/OFI)" in line
    assert "NET/IB" not in line


def test_where_all_is_set_a_newer_plugin_is_left(healthy: Curve) -> None:
    names = (
        "FI_CXI_RDZV_THRESHOLD",
        "FI_CXI_RDZV_EAGER_SIZE",
        "FI_CXI_RX_MATCH_MODE",
        "FI_MR_CACHE_MONITOR",
    )
    curve = replace(
        healthy, network="Slingshot", variables=(*names, "FI_CXI_DISABLE_HOST_REGISTER")
    )
    assert advice(curve, BUMP)[-1] == "on Slingshot try a newer aws-ofi-nccl"
    assert len(advice(replace(curve, library="Cray MPICH"), BUMP)) == 1


@pytest.mark.parametrize(
    ("ranks", "nodes", "advised"), [(4, 1, False), (16, 4, True), (16, None, True)]
)
def test_slingshot_is_no_cause_inside_a_node(
    healthy: Curve, ranks: int, nodes: int | None, advised: bool
) -> None:
    curve = replace(healthy, ranks=ranks, nodes=nodes, network="Slingshot")
    assert any("on Slingshot" in line for line in advice(curve, BUMP)) == advised


def test_a_note_needs_no_advice(healthy: Curve) -> None:
    assert advice(healthy, [BUMP[0]._replace(alarm=False)]) == ()
