"""The options of a machine, from text to values."""

import json
from dataclasses import replace

import pytest

from experiments.options.machine_options import MachineOptions
from grouped_cases import each_case
from refusals import refusal
from simctl_process import Simctl
from topologies.catalogue import find


def test_options_are_parsed_to_one_value() -> None:
    options = MachineOptions("star", "3GB/s", "4us", "5us", "2GB/s", "1,0")
    linked = find("star").with_links(bandwidth=3e9, latency=4e-6, gap=5e-6)
    assert options.blueprint == replace(linked, reduction=5e-10, placement=(1, 0))


@pytest.mark.parametrize("option", ["bandwidth=3GB/s", "latency=4us", "gap=5us"])
def test_a_figure_is_not_given_twice(option: str) -> None:
    options = MachineOptions(f"star:{option}", bandwidth="1GB/s", latency="1us", gap="1us")
    assert refusal(lambda: options.blueprint) == (
        f"{option.partition('=')[0]} is given twice: as an option of star, and as "
        f"--{option.partition('=')[0]}"
    )


@each_case("name", ["bandwidth", "latency", "gap", "reduction", "placement"])
def test_without_a_machine_its_options_are_refused(name: str) -> None:
    options = MachineOptions(**{name: "1GB/s"})
    message = f"--{name} 1GB/s: give --topology as well, or leave it out"
    assert refusal(lambda: options.optional_blueprint) == message
    assert MachineOptions().optional_blueprint is None


@each_case(
    ("options", "message"),
    [
        (MachineOptions("dgx1", bandwidth="1GB/s"), "dgx1 has links of its own"),
        (MachineOptions("star", latency="fast"), "fast"),
        (MachineOptions("star", placement="cyclic"), "'cyclic' is no placement"),
        (MachineOptions("stra"), "no topology or file 'stra'"),
    ],
)
def test_text_that_means_nothing_is_refused(options: MachineOptions, message: str) -> None:
    assert message in refusal(lambda: options.blueprint)


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_the_busiest_links_are_the_same_with_and_without_symmetry(
    command: Simctl, sharing: str
) -> None:
    run = "run --algo ring --p 48 --topology nodes:per_node=3 --reduction 100GB/s --format json"
    reports = [
        json.loads(command(*run.split(), "--sharing", sharing, "--symmetry", symmetry).stdout)
        for symmetry in ("auto", "off")
    ]
    assert [report["ranks_simulated"] for report in reports] == [3, 48]
    for part in ("busiest", "critical_path_s"):
        columns = [rounded(report[part]) for report in reports]
        assert columns[0] == columns[1]


def rounded(part: object) -> object:
    """Numbers of a report up to rounding."""
    if isinstance(part, list):
        return [rounded(each) for each in part]
    if isinstance(part, dict):
        return {name: rounded(value) for name, value in part.items()}
    return f"{part:.9g}" if isinstance(part, float) else part
