"""What a library should give: the numbers of run --library, and machines that files name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.diagnosis.library_expectation import (
    LibraryExpectation,
    guessed,
    library_name,
    measured_on,
)
from experiments.measurements import Curve
from grouped_cases import each_case
from topologies.catalogue import find
from topologies.errors import InputError

H100 = Curve("all_reduce", 8, 1, (), (), "a.log", device="NVIDIA H100 80GB HBM3")


@each_case(
    ("changes", "machine"),
    [
        ({}, "hgx_h100"),
        ({"ranks": 16, "nodes": 2}, "hgx_h100:nodes=2"),
        ({"ranks": 16, "nodes": None}, "hgx_h100:nodes=2"),
        ({"device": "NVIDIA A100-SXM4-80GB"}, "dgx_a100"),
        ({"device": "NVIDIA B200"}, "b200"),
        ({"device": "AMD Instinct MI300X"}, "mi300x"),
        ({"device": "NVIDIA H100 PCIe"}, None),
        ({"device": "NVIDIA A100-PCIE-40GB"}, None),
        ({"device": "NVIDIA A100 80GB PCIe"}, None),
        ({"device": "NVIDIA L40S"}, None),
        ({"device": "host memory"}, None),
        ({"device": ""}, None),
        ({"ranks": None}, None),
        ({"ranks": 16, "nodes": 1}, None),
        ({"ranks": 24, "nodes": 2}, None),
        ({"ranks": 16, "nodes": 2, "network": "EFA"}, "hgx_h100:nodes=2,port=efa400"),
        ({"network": "EFA"}, "hgx_h100"),
    ],
)
def test_a_machine_is_guessed_by_the_gpus(changes: dict[str, object], machine: str | None) -> None:
    guess = guessed(replace(H100, **changes))  # type: ignore[arg-type]
    assert (guess and guess.text) == machine


@each_case(
    ("changes", "machine", "name"),
    [
        ({}, "hgx_h100", "nccl"),
        ({"library": "NCCL 2.20"}, "mi300x", "rccl"),
        ({"library": "Open MPI 4.1"}, "nodes", "openmpi"),
        ({"library": "MPICH 8.1"}, "nodes", "mpich"),
        ({"backend": "gloo"}, "nodes", "gloo"),
    ],
)
def test_the_library_is_that_of_the_file(
    changes: dict[str, object], machine: str, name: str
) -> None:
    assert library_name(replace(H100, **changes), find(machine)) == name  # type: ignore[arg-type]


def test_a_guess_says_so_and_a_named_machine_does_not() -> None:
    sizes = np.array([2.0**30])
    guess, named = LibraryExpectation(None)(H100, sizes), LibraryExpectation(find("hgx_h100"))
    known = named(H100, sizes)
    assert guess is not None
    assert known is not None
    assert (guess.guess, known.guess) == (True, False)
    assert guess.seconds.tolist() == known.seconds.tolist()


def test_without_a_machine_nothing_is_expected() -> None:
    assert LibraryExpectation(None)(replace(H100, device=""), np.array([8.0])) is None


def test_many_sizes_have_the_times_of_single_ones() -> None:
    """Of many sizes, critical paths of some tell the others."""
    sizes = np.floor(2.0 ** np.linspace(10, 33, 90))
    expectation = LibraryExpectation(find("hgx_h100:nodes=2"))
    curve = measured_on(find("hgx_h100:nodes=2"), "all_reduce", 16)
    many = expectation(curve, sizes)
    assert many is not None
    for k in range(0, len(sizes), 11):
        one = expectation(curve, sizes[k : k + 1])
        assert one is not None
        assert many.seconds[k] == pytest.approx(one.seconds[0], rel=1e-3)
        assert many.alarm[k] == pytest.approx(one.alarm[0], rel=1e-3)


@each_case(
    ("collective", "ranks", "words"),
    [("all_sum", 8, "--collective 'all_sum': expected all_reduce"), ("all_reduce", 99, "99")],
)
def test_what_cannot_be_measured_is_one_line(collective: str, ranks: int, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        measured_on(find("hgx_h100:nodes=2"), collective, ranks)
    assert "\n" not in str(error.value)
