"""Which machine a curve was measured on."""

import pytest

from experiments.calibration.measured_machines import check, gpu, may_multicast, multicasts
from experiments.measurements import Curve
from grouped_cases import each_case
from topologies.errors import InputError


def curve(device: str) -> Curve:
    return Curve("all_reduce", 8, 1, (), (), f"{device.replace(' ', '_')}.log", device=device)


@each_case(
    ("device", "model"),
    [
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA GeForce RTX 2080 Ti", "2080 Ti"),
        ("AMD gfx942", "gfx942"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("", ""),
    ],
)
def test_a_device_says_its_model(device: str, model: str) -> None:
    assert gpu(curve(device)) == model


def test_runs_on_gpus_of_two_models_are_no_one_machine() -> None:
    with pytest.raises(InputError, match="runs of 2 machines"):
        check([curve("NVIDIA A10G"), curve("NVIDIA H100 80GB HBM3")])
    check([curve("NVIDIA A10G"), curve("NVIDIA A10G")])


@each_case(
    ("device", "ranks", "nodes", "library", "may", "does"),
    [
        ("NVIDIA H100 80GB HBM3", 8, 1, "", True, True),
        ("NVIDIA H200", 8, 1, "NCCL 2.21.5+cuda12.4", True, True),
        ("NVIDIA B200", 6, 1, "NCCL 2.27", True, True),
        ("NVIDIA H100 80GB HBM3 NVLink4/NVSwitch", 4, 1, "", True, True),
        ("NVIDIA GH200 120GB NVLink4", 4, 1, "", True, False),
        ("NVIDIA H100 PCIe", 8, 1, "", True, False),
        ("NVIDIA H100 NVL", 8, 1, "", True, False),
        ("", 8, 1, "", True, False),
        ("NVIDIA A100-SXM4-80GB NVSwitch", 8, 1, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 2, 1, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 8, 2, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 8, 1, "NCCL 2.16.2", False, False),
    ],
)
def test_where_nccl_may_reduce_in_switches(
    device: str, ranks: int, nodes: int, library: str, may: bool, does: bool
) -> None:
    """GPUs from Hopper on, three or more on one node, NCCL from 2.17 on; and NVSwitches."""
    measured = Curve("all_reduce", ranks, nodes, (), (), "x.log", device=device, library=library)
    assert (may_multicast(measured), multicasts(measured)) == (may, does)
