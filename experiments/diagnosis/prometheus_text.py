"""Expected times and bandwidths as Prometheus's text format, for the textfile collector of its node
exporter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from experiments.output import Record

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
