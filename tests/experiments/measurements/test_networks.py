"""The network is known by what a file says, and so are the variables that it sets."""

from pathlib import Path

import pytest

from experiments.measurements import read
from experiments.measurements.formats.osu_reader import parse_osu
from experiments.measurements.networks import network_of
from grouped_cases import each_case
from nccl_logs import log, only, parse

INFO = "node1:42:50 [0] NCCL INFO "


@each_case(
    ("line", "network"),
    [
        (f"{INFO}NET/OFI Selected Provider is cxi (found 4 nics)", "Slingshot"),
        (f"{INFO}NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)", "EFA"),
        ("+ export FI_CXI_RX_MATCH_MODE=software", "Slingshot"),
        ("FI_PROVIDER=cxi", "Slingshot"),
        ("MPICH Slingshot Network Summary: 0 network timeouts", "Slingshot"),
        (
            f"{INFO}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "InfiniBand",
        ),
        (f"{INFO}NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", "RoCE"),
        (f"{INFO}NCCL_IB_HCA set by environment to mlx5", "InfiniBand"),
        (f"{INFO}Using network Socket", "TCP"),
        (f"{INFO}NCCL_IB_DISABLE set by environment to 1", ""),
        (f"{INFO}NET/IB : No device found.", ""),
        (f"NCCL_IB_HCA=mlx5\n{INFO}NET/OFI Selected Provider is cxi (found 4 nics)", "Slingshot"),
        ("cd /home/me/slingshot/profile/aws-ofi-nccl", ""),
    ],
)
def test_a_line_of_a_log_names_the_network(line: str, network: str) -> None:
    assert network_of(line) == network
    assert only(f"{line}\n{log()}").network == network
    assert only(f"{log()}{line}\n").network == network


@pytest.mark.parametrize(
    ("column", "network"),
    [("2x Slingshot-11", "Slingshot"), ("4x NDR200 InfiniBand", "InfiniBand"), ("NVLink", "")],
)
def test_a_csv_names_it_under_topology(tmp_path: Path, column: str, network: str) -> None:
    path = tmp_path / "slingshot_cxi_ofi.csv"
    path.write_text(f"size_bytes,time_us,topology\n8,1,{column}\n")
    assert read(path).curves[0].network == network


@each_case(
    ("line", "names"),
    [
        ("+ export FI_CXI_RX_MATCH_MODE=software", ("FI_CXI_RX_MATCH_MODE",)),
        (
            "mpirun -x NCCL_IB_HCA=mlx5_0 -x UCX_TLS=rc,cuda ./all_reduce_perf",
            ("NCCL_IB_HCA", "UCX_TLS"),
        ),
        (f"{INFO}NCCL_NET_GDR_LEVEL set by environment to PHB", ("NCCL_NET_GDR_LEVEL",)),
        ("export NCCL_TOPO_FILE=/etc/topo.xml", ("NCCL_TOPO_FILE",)),
        ("export NCCL_DEBUG=INFO\nunset NCCL_DEBUG", ()),
        ("export NCCL_DEBUG=$LEVEL", ()),
        ("please set FI_CXI_RX_MATCH_MODE=hybrid", ()),
        ("libfabric: FI_CXI_RX_MATCH_MODE=[hybrid|software] is required", ()),
    ],
)
def test_a_log_names_the_variables_that_are_set(line: str, names: tuple[str, ...]) -> None:
    assert only(f"{line}\n{log()}").variables == names


def test_variables_of_one_test_are_not_those_of_the_next() -> None:
    first, second = parse(f"NCCL_PROTO=LL srun\n{log()}{log()}").curves
    assert (first.variables, second.variables) == (("NCCL_PROTO",), ())


def test_osu_names_both_too() -> None:
    text = (
        "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4                  "
        "     1.73\n"
    )
    (curve,) = parse_osu(f"export FI_CXI_RDZV_THRESHOLD=16384\n{text}", "x.out").curves
    assert (curve.network, curve.variables) == ("Slingshot", ("FI_CXI_RDZV_THRESHOLD",))
