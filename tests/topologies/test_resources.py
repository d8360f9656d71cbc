"""The memory that is free, and what needs more than that or hours."""

from math import inf
from pathlib import Path

import pytest

from refusals import refusal
from topologies import resources
from topologies.resources import Need, check, duration, free_memory


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the system's files are looked for."""
    monkeypatch.setattr(resources, "SYSTEM", tmp_path)
    return tmp_path


def write(system: Path, **files: str) -> None:
    for name, text in files.items():
        path = system / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_memory_is_free_without_end_where_the_system_does_not_tell(system: Path) -> None:
    assert free_memory() == inf
    check("all", Need(1.0, 1e18), "take less")


def test_the_machine_tells_what_is_free(system: Path) -> None:
    write(system, proc__meminfo="MemTotal: 100 kB\nMemAvailable:   64 kB\n")
    assert free_memory() == 64 * 1024


def test_a_group_above_the_own_has_a_limit(system: Path) -> None:
    write(
        system,
        proc__meminfo="MemAvailable: 64 kB\n",
        proc__self__cgroup="0::/job/step\n",
        sys__fs__cgroup__job__memory_dot_max="9000\n",
        sys__fs__cgroup__job__memory_dot_current="5000\n",
        sys__fs__cgroup__job__memory_dot_stat="anon 4000\ninactive_file 500\n",
        sys__fs__cgroup__job__step__memory_dot_max="max\n",
        sys__fs__cgroup__job__step__memory_dot_current="1000\n",
    )
    assert free_memory() == 9000 - 5000 + 500


def test_an_older_group_has_a_limit(system: Path) -> None:
    write(
        system,
        sys__fs__cgroup__memory__memory_dot_limit_in_bytes="9000\n",
        sys__fs__cgroup__memory__memory_dot_usage_in_bytes="5000\n",
    )
    assert free_memory() == 4000


def test_too_much_memory_or_time_is_refused_with_both(system: Path) -> None:
    write(system, proc__meminfo="MemAvailable: 8000000 kB\n")
    check("a ring", Need(7200.0, 8e9), "take fewer ranks")
    assert refusal(check, "a ring", Need(120.0, 1.234e10), "take fewer ranks") == (
        "a ring: this takes about 2 min and 12GB of memory, and 8.2GB are free: take fewer ranks, "
        "or go on with --force"
    )
    assert refusal(check, "a ring", Need(2e4, 1e6), "take fewer").startswith(
        "a ring: this takes about 6 h and 1MB of memory, and 8.2GB are free: take fewer, or"
    )


def test_durations_are_told_in_the_unit_that_people_use() -> None:
    assert [duration(seconds) for seconds in (0.4, 89, 91, 5399, 5401, 172_800)] == [
        "0.4 s",
        "89 s",
        "2 min",
        "90 min",
        "2 h",
        "2 days",
    ]
