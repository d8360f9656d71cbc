"""`simctl expect`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from experiments import output
from experiments.options.completion import collective_names, completer
from experiments.options.machine_options import MachineOptions
from experiments.options.options import Level, LibraryVersion, PopulationName, option
from experiments.options.values import parse_rank_count
from experiments.output import Record
from experiments.pages.reports.result import Result
from topologies.errors import InputError
from topologies.units import parse_sizes

COLLECTIVE, SIZES = "all_reduce", "1KiB..8GiB:x2"


@dataclass(frozen=True, kw_only=True)
class Expect(MachineOptions):
    """Print what a library should give on a machine, by size.

    The table has time and bus bandwidth. An interval holds 80% of healthy runs on such machines,
    or as many as --level says. To judge a measured number by the same table, see `simctl diagnose`.
    """

    EXAMPLES: ClassVar = ("expect --topology hgx_h100:nodes=2 --collective all_reduce",)

    collective: str | None = option(
        "A collective, like all_to_all.  [default: all_reduce]",
        word="[COLLECTIVE]",
        autocompletion=completer(collective_names),
    )
    p: str | None = option(
        "The number of ranks.  [default: all of the machine; 8 of a shape]", "--p", "--gpus"
    )
    size: str | None = option(
        f"V, as nccl-tests counts it: 64MiB,1GiB or a range.  [default: {SIZES}]"
    )
    library: PopulationName = None
    library_version: LibraryVersion = None
    level: Level = None
    format: Literal["table", "csv", "json", "prometheus"] = option(
        "Format of the output; prometheus writes lines of a textfile.",
        default="table",
        stored=False,
    )

    def run(self) -> int:
        """Print the table."""
        rows = self.records()
        if self.format == "prometheus":
            output.say(exposition(rows).removesuffix("\n"))
            return 0
        Result("expect", rows, rows, self.parameters).show(self.format)
        return 0

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        import numpy as np

        from experiments.diagnosis.diagnosis_records import expected_records
        from experiments.diagnosis.library_expectation import LibraryExpectation, measured_on
        from simulator.uncertainty.interval import LEVEL

        collective = self.collective or COLLECTIVE
        machine = self.blueprint
        ranks = machine.whole().ranks if self.p is None else parse_rank_count(self.p)
        sizes = np.array(parse_sizes(self.size or SIZES))
        named = self.library
        curve = measured_on(machine, collective, ranks, named, self.library_version)
        level = LEVEL if self.level is None else self.level
        library = curve.library.partition(" ")[0]
        expected = LibraryExpectation(machine, library, level)(curve, sizes)
        if expected is None:
            raise InputError(
                f"--collective {collective}: the library has none, or not for "
                f"{output.counted(ranks, 'rank')} on {machine.text}"
            )
        return list(expected_records(curve, machine, expected))

    @property
    def resolved(self) -> output.Record:
        """The machine, the collective and the sizes."""
        collective = self.collective or COLLECTIVE
        return {**super().resolved, "collective": collective, "size": self.size or SIZES}


METRICS: Mapping[str, tuple[str, str]] = {
    "simctl_expected_seconds": ("expected_s", "Expected time of a collective in seconds."),
    "simctl_expected_seconds_low": ("low_s", "Lower end of the interval of the time."),
    "simctl_expected_seconds_high": ("high_s", "Upper end of the interval of the time."),
    "simctl_expected_busbw_bytes_per_second": ("busbw_Bps", "Expected bus bandwidth."),
    "simctl_expected_busbw_bytes_per_second_low": ("low_Bps", "Lower end of its interval."),
    "simctl_expected_busbw_bytes_per_second_high": ("high_Bps", "Upper end of its interval."),
}
"""The column of each metric, and what it is."""
LABELS = ("machine", "library", "version", "collective", "ranks", "nodes", "size_B", "level")


def exposition(rows: Sequence[Record]) -> str:
    """The gauges of rows, a line each.

    >>> print(_line("busbw", {"machine": "hgx_h100", "busbw_Bps": 2e9}, "busbw_Bps"))
    busbw{machine="hgx_h100"} 2000000000.0
    """
    return "".join(f"{line}\n" for line in _lines(rows))


def _lines(rows: Sequence[Record]) -> Iterable[str]:
    for metric, (column, text) in METRICS.items():
        yield f"# HELP {metric} {text}"
        yield f"# TYPE {metric} gauge"
        for row in rows:
            yield _line(metric, row, column)


def _line(metric: str, row: Record, column: str) -> str:
    labels = ",".join(f'{name}="{_escaped(row[name])}"' for name in LABELS if name in row)
    return f"{metric}{{{labels}}} {row[column]!r}"


def _escaped(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
