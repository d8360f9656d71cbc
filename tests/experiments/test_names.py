"""Names of ranks, and words of logs and libraries."""

import re

import pytest

from experiments.calibration.libraries import LIBRARIES as CALIBRATED
from experiments.names import rank_name, wait_records
from experiments.pictures.figures import to_bytes
from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.painter import timeline_drawing
from experiments.spellings import LIBRARIES, library_name
from simulator.analysis.critical_path import QueueWait
from simulator.collectives.in_network import fit_nvls
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find as machine
from topologies.errors import InputError


def test_workers_servers_and_switches_have_names_and_numbers() -> None:
    schedule = ScheduleBuilder(2, 1.0, servers=2, switches=2).build()
    names = [rank_name(schedule, rank) for rank in range(schedule.ranks)]
    assert names == ["rank 0", "rank 1", "server 0", "server 1", "switch 0", "switch 1"]


def test_the_only_server_has_no_number() -> None:
    assert rank_name(ScheduleBuilder(1, 1.0, servers=1).build(), 1) == "server"


def test_a_timeline_calls_a_switch_a_switch() -> None:
    fitted = fit_nvls(machine("hgx_h100").build(8), 8, 2.0**20)
    figure = timeline_drawing(collective_spans(simulate(fitted.schedule, fitted.topology)))
    picture = to_bytes(figure, "svg").decode()
    labels = re.findall(r"<!-- (.*?) -->", picture)
    assert "switch 0" in labels
    assert "server" not in labels


def test_records_of_waits_have_all_ranks() -> None:
    schedule = ScheduleBuilder(9, 1.0, servers=1).build()
    assert wait_records([QueueWait("a->b", 9, (0, 4), 0.5)], schedule) == [
        {"where": "a->b", "waits": "server", "behind": ["rank 0", "rank 4"], "seconds": 0.5}
    ]


def test_every_library_that_can_be_calibrated_has_a_name() -> None:
    assert [library.name for library in CALIBRATED.values()] == list(LIBRARIES)
    assert [library_name(name.upper()) for name in LIBRARIES] == list(LIBRARIES)


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(InputError, match="'rccl' is no library that is known: there are nccl, mpi"):
        library_name("rccl")
