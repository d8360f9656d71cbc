"""The page of speed, written from a committed csv file.

`python -m experiments.benchmarks speed --long --out docs/reference/speed` measures anew, and
`python -m experiments.benchmarks speed-page` writes the page.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from string import Template

from experiments import output
from experiments.benchmarks.growth import Lines
from experiments.benchmarks.speed import CELLS, number
from experiments.benchmarks.table_rows import markdown, rows_of
from topologies.errors import InputError
from topologies.units import format_seconds

RESULTS = Path("docs/reference/speed")
"""The folder of the csv file and of the page's text."""
PAGE = RESULTS.with_suffix(".md")
ROWS, MADE, TEXT = "rows.csv", "made.json", "page.txt"
PACKAGES = ("simctl-collectives", "numpy", "numba", "llvmlite", "simpy")


def write(folder: Path, records: Sequence[output.Record], growth: Sequence[Lines]) -> None:
    """Write the csv file of a run, its tables of growth, and how it was made."""
    made = {
        "growth": growth,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": {package: version(package) for package in PACKAGES},
    }
    output.write_all(
        {
            folder / ROWS: output.to_csv(records),
            folder / MADE: json.dumps(made, indent=1) + "\n",
        }
    )


def machine() -> str:
    """The processor, its cores, the memory, and Python's version."""
    name = platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        lines = cpus.read_text().splitlines()
        name = next((line.partition(": ")[2] for line in lines if "model name" in line), name)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def page(folder: Path = RESULTS) -> str:
    """The page in Markdown. Raises InputError if the csv file lacks a column or a number."""
    records: Sequence[output.Record] = rows_of(folder / ROWS)
    made = json.loads((folder / MADE).read_text())
    try:
        cells = [[cell(record) for cell in CELLS.values()] for record in records]
        y = format_seconds(number(records[0], "y"))
    except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"{folder / ROWS} is damaged ({error!r}): measure it anew") from None
    return Template((folder / TEXT).read_text()).substitute(
        date=made["date"],
        machine=made["machine"],
        versions=", ".join(f"{name} {number}" for name, number in made["versions"].items()),
        y=y,
        rows=markdown(list(CELLS), cells),
        growth="\n\n".join(markdown(lines[0], lines[1:]) for lines in made["growth"]),
    )
