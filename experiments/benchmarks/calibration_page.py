"""The page of calibration results, written from committed csv files.

`python -m experiments.benchmarks calibration FOLDER --out docs/reference/calibration-results`
measures them anew, and `python -m experiments.benchmarks calibration-page` writes the page.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from string import Template

from experiments import output

RESULTS = Path("docs/reference/calibration-results")
"""The folder of the csv files and of the page's text."""
PAGE = RESULTS.with_suffix(".md")
ERRORS, PAIRS, NAMES, MADE = "held-out.csv", "two-points.csv", "groups.csv", "made.json"
TEXT = "page.txt"
PACKAGES = ("simctl-collectives", "numpy", "scipy", "numba", "simpy")
COMMAND = ("python", "-m", "experiments.benchmarks", "calibration", "FOLDER")
Row = dict[str, str]


def write(folder: Path, errors: Sequence[output.Record], pairs: Sequence[output.Record]) -> None:
    """Write the csv files of a run, and how they were made; the folders of this machine are left
    out."""
    families = [argument for argument in sys.argv[3:] if argument not in ("--out", str(folder))]
    provenance = {
        "command": [*COMMAND, *families],
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {package: version(package) for package in PACKAGES},
    }
    output.write_all(
        {
            folder / ERRORS: output.to_csv(errors),
            folder / PAIRS: output.to_csv(pairs),
            folder / MADE: json.dumps(provenance, indent=1) + "\n",
        }
    )


def page(folder: Path = RESULTS) -> str:
    """The page in Markdown."""
    names = {row["group"]: row for row in _rows(folder / NAMES)}
    order = {group: place for place, group in enumerate(names)}
    rows = sorted(_rows(folder / ERRORS), key=lambda row: order.get(row["group"], len(order)))
    errors = [row | names.get(row["group"], _unnamed(row)) for row in rows]
    pairs = [row | names.get(row["group"], _unnamed(row)) for row in _rows(folder / PAIRS)]
    provenance = json.loads((folder / MADE).read_text())
    return Template((folder / TEXT).read_text()).substitute(
        command=" ".join(provenance["command"]),
        date=provenance["date"],
        versions=", ".join(f"{name} {number}" for name, number in provenance["versions"].items()),
        note=provenance.get("note", ""),
        summary=_summary(errors),
        sizes=_held_out(errors, "sizes"),
        ranks=_held_out(errors, "ranks"),
        plateau=_held_out(errors, "plateau"),
        pairs=_pairs(pairs),
    )


def _rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _unnamed(row: Row) -> Row:
    """For a group that has no name for readers yet."""
    return {"runs": row["group"], "use": "not used"}


def _summary(errors: Iterable[Row]) -> str:
    """Medians over groups, by what the runs were used for."""
    rows = list(errors)
    lines = []
    for use in dict.fromkeys(row["use"] for row in rows):
        for split in ("sizes", "ranks", "plateau"):
            judged = [r for r in rows if r["use"] == use and r[f"{split}_model"]]
            compared = [r for r in judged if r[f"{split}_line"]]
            nearer = sum(float(r[f"{split}_model"]) < float(r[f"{split}_line"]) for r in compared)
            middle = (_median(compared, f"{split}_{model}") for model in ("model", "line"))
            lines.append([use, split, str(len(judged)), *middle, f"{nearer} of {len(compared)}"])
    heads = ("use of the runs", "held out", "groups", "model", "line", "model is nearer")
    return _markdown(heads, lines)


def _median(rows: Iterable[Row], column: str) -> str:
    values = [float(row[column]) for row in rows if row[column]]
    return f"{median(values):.1%}" if values else ""


def _held_out(errors: Iterable[Row], split: str) -> str:
    heads = ("runs", "use", "curves", "points", "model", "with discrepancy", "line", "NCCL's own")
    columns = [f"{split}_{model}" for model in ("model", "discrepancy", "line", "nccl")]
    return _markdown(
        heads,
        (
            [row["runs"], row["use"], row["curves"], row["points"], *map(_percent(row), columns)]
            for row in errors
            if row[columns[0]]
        ),
    )


def _pairs(pairs: Iterable[Row]) -> str:
    heads = ("runs", "collective", "points", "with links", "without")
    columns = ("with_links", "without_links")
    return _markdown(
        heads,
        ([r["runs"], r["collective"], r["points"], *map(_percent(r), columns)] for r in pairs),
    )


def _percent(row: Row) -> Callable[[str], str]:
    return lambda column: f"{float(row[column]):.1%}" if row[column] else ""


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
