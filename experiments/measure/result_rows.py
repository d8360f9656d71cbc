"""The results: a row for each point, the CSV file that holds them, and what NCCL says that it runs
while it is measured: its lines on tuning at rank 0."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from experiments import output
from experiments.measure.points import IN_PLACE, MeasurementPlan, MeasurementPoint
from experiments.measurements.collectives import bus_factor
from experiments.measurements.formats.log_settings import Choices, add_choice, labels_of
from experiments.measurements.formats.text import load
from experiments.templates import Column, Columns
from topologies.errors import InputError
from topologies.topology import Floats
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

Key = tuple[str, str, int, int, str, str, str]


@dataclass(frozen=True)
class ResultRow:
    """A line of the CSV. Times are those of the slowest rank, in microseconds."""

    collective: str
    algorithm: str
    protocol: str
    ranks: Annotated[int, Field(gt=0, lt=2**31)]
    nodes: int
    size_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    in_place: int
    time_us: Annotated[float, Field(ge=0, lt=1e15)]
    """The median of the repetitions."""
    min_us: float
    p90_us: float
    mean_us: float
    cv: Annotated[float, Field(ge=0, lt=1e15)]
    """The standard deviation of the repetitions over their mean."""
    repetitions: int
    wrong: int
    """Wrong elements of all ranks and all repetitions, warm-up included."""
    backend: str
    device: str
    dtype: str
    library: str
    topology: str
    source: str
    ran: str = ""
    """The algorithm and the protocol that the library says it ran, like "ring LL128"."""

    @property
    def key(self) -> Key:
        """The fields that identify a row: a second row with this key is not needed."""
        size = self.collective, self.algorithm, self.ranks, self.size_bytes
        return *size, self.backend, self.device.partition(" ")[0], self.dtype


def key_of(plan: MeasurementPlan, point: MeasurementPoint) -> Key:
    """The key of the row that a point becomes."""
    size = point.collective, point.algorithm, plan.ranks, point.size_bytes
    return *size, plan.backend, plan.device, plan.dtype


def row_of(
    plan: MeasurementPlan,
    point: MeasurementPoint,
    times: Floats,
    wrong: int,
    nodes: int,
    about: Mapping[str, str],
) -> ResultRow:
    """The row of a point; `times` are in seconds, shape (ranks, repetitions); `about` has device,
    library, source, and what ran."""
    slowest = times.max(axis=0) * 1e6
    return ResultRow(
        collective=point.collective,
        algorithm=point.algorithm,
        protocol="",
        ranks=plan.ranks,
        nodes=nodes,
        size_bytes=point.size_bytes,
        in_place=int(bool(point.algorithm) or point.collective in IN_PLACE),
        time_us=float(np.median(slowest)),
        min_us=float(slowest.min()),
        p90_us=float(np.quantile(slowest, 0.9)),
        mean_us=float(slowest.mean()),
        cv=float(slowest.std() / slowest.mean()),
        repetitions=len(slowest),
        wrong=wrong,
        backend=plan.backend,
        dtype=plan.dtype,
        topology="",
        **about,
    )


class ResultFile:
    """The rows so far. A new row is written to the file, if any, before the next point."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.rows = path, list[ResultRow]()
        self.about = ""

    @property
    def meta(self) -> Path | None:
        """The file that says how the rows were measured."""
        return self.path.with_name(f"{self.path.name}{output.META}") if self.path else None

    def add(self, row: ResultRow) -> None:
        """Add a row; with the first one also the file that says how rows were measured."""
        self.rows.append(row)
        if self.meta and self.about:
            output.write(self.meta, self.about)
            self.about = ""
        if self.path:
            output.write(self.path, output.to_csv([asdict(row) for row in self.rows]))


def read_rows(path: Path) -> list[ResultRow]:
    """The rows of a file that an earlier run wrote.

    Raises InputError if the file is damaged or of another kind.
    """
    try:
        lines = list(csv.DictReader(io.StringIO(load(path), newline=""), strict=True))
    except csv.Error as error:
        raise InputError(f"cannot resume {path}: {error}") from None
    names = {field.name for field in fields(ResultRow)}
    if lines and set(lines[0]) != names:
        raise InputError(f"cannot resume {path}: its columns are not those of simctl measure")
    adapter, rows = TypeAdapter(ResultRow), list[ResultRow]()
    for number, line in enumerate(lines, 2):
        try:
            rows.append(adapter.validate_python(line))
        except ValidationError:
            raise InputError(f"cannot resume {path}: row {number} is damaged, remove it") from None
    return rows


def _algbw(record: output.Record) -> float:
    """Bytes/s; 0 for a barrier."""
    size, seconds = float(record["size_bytes"] or 0), float(record["time_us"] or 0) / 1e6
    return size / seconds if size and seconds else 0.0


def _busbw(record: output.Record) -> float:
    return _algbw(record) * bus_factor(str(record["collective"]), int(record["ranks"] or 1))


def _bandwidth(value: Callable[[output.Record], float]) -> Column:
    return lambda record: format_bandwidth(value(record)) if value(record) else ""


def _time(name: str) -> Column:
    return lambda record: format_seconds(float(record[name] or 0) / 1e6)


def cells(rows: Sequence[ResultRow]) -> Columns:
    """The columns of a table of rows, with backend, device and dtype if these vary."""
    varying = [
        name
        for name in ("backend", "device", "dtype")
        if len({getattr(row, name) for row in rows}) > 1
    ]
    size = _size(in_binary(row.size_bytes for row in rows))
    return {**CELLS, "size": size, **{name: name for name in varying}}


def _size(binary: bool) -> Column:
    return lambda record: (
        format_bytes(float(record["size_bytes"] or 0), binary) if record["size_bytes"] else ""
    )


CELLS: Columns = {
    "collective": "collective",
    "algorithm": lambda record: str(record["algorithm"] or "-"),
    "ranks": "ranks",
    "size": _size(binary=True),
    "median": _time("time_us"),
    "p90": _time("p90_us"),
    "cv": "{cv:.1%}",
    "algbw": _bandwidth(_algbw),
    "busbw": _bandwidth(_busbw),
    "wrong": "wrong",
}


DEBUG = "NCCL_DEBUG"


class NcclLog:
    """A file without a name to which NCCL writes, and which ends with the process."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """NCCL reads the environment when it is first used. If the user has set its messages, they
        stay as they are, and nothing is known."""
        self.file: int | None = None
        if DEBUG not in environment:
            self.file = os.memfd_create("nccl")
            asked = {"": "INFO", "_SUBSYS": "TUNING", "_FILE": f"/proc/self/fd/{self.file}"}
            environment.update({f"{DEBUG}{name}": value for name, value in asked.items()})

    def ran(self, point: MeasurementPoint, ranks: int) -> str:
        """The algorithm and the protocol that ran in a point since the last one, like "ring LL128";
        empty if NCCL does not say, or says several."""
        choices: Choices = {}
        for line in self._lines():
            add_choice(choices, line)
        labels = labels_of(choices, point.collective, ranks, [point.size_bytes])
        return " ".join(labels.get(point.size_bytes, ()))

    def _lines(self) -> list[str]:
        """What is new."""
        if self.file is None:
            return []
        parts = iter(partial(os.read, self.file, 2**16), b"")
        return b"".join(parts).decode(errors="replace").splitlines()
