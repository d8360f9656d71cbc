"""A note says for which sizes a file is not made."""

from dataclasses import replace

from experiments.algorithm_files.msccl_lowering import algorithm_of
from experiments.algorithm_files.msccl_program import read_program
from experiments.simulations.algorithm_remarks import unmeant_sizes
from msccl_texts import SHAPES
from simulator.collectives import find


def notes(least: int, most: int, *sizes: float) -> list[str]:
    """Those for a file of these bytes."""
    text = SHAPES["ring"].replace("<algo", f'<algo minBytes="{least}" maxBytes="{most}"', 1)
    ring = replace(algorithm_of(read_program(text, "a.xml")), origin="a.xml")
    return [*unmeant_sizes([find("ring"), ring], sizes)]


def test_sizes_outside_of_the_range_of_a_file_are_named() -> None:
    assert notes(0, 4096, 1.0, 4096.0) == []
    assert notes(1024, 4096, 1.0, 2048.0) == ["a.xml: small is made for 1024 to 4096 B, not for 1B"]
    assert notes(1024, 0, 1024.0, 1.0) == ["a.xml: small is made for 1024 B or more, not for 1B"]
    assert notes(0, 10, 8192.0, 16384.0, 32768.0)[0].endswith("not for 8KiB, ..., 32KiB")
