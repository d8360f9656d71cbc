"""Which machine a curve was measured on."""

import pytest

from experiments.calibration.measured_machines import check, gpu
from experiments.measurements import Curve
from topologies.errors import InputError


def curve(device: str) -> Curve:
    return Curve("all_reduce", 8, 1, (), (), f"{device.replace(' ', '_')}.log", device=device)


@pytest.mark.parametrize(
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
