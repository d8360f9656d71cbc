"""The page of calibration results, written from committed csv files.

`python -m experiments.benchmarks calibration FOLDER --out experiments/calibration/results`
measures them anew, and `python -m experiments.benchmarks calibration-page` writes the page.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from string import Template

from experiments import output
from topologies.units import format_bytes, format_seconds

RESULTS = Path("experiments/calibration/results")
"""The folder of the csv files. They ship with simctl, because `validate` compares with them."""
POPULATION = Path("experiments/profiles/population")
"""The folder of the errors on machines that were left out."""
TEXT = Path("docs/reference/calibration-results.txt")
PAGE = TEXT.with_suffix(".md")
ERRORS, PAIRS, NAMES, MADE = "held-out.csv", "two-points.csv", "groups.csv", "made.json"
WORST, LEFT_OUT = "worst.csv", "left-out.csv"
LIBRARIES = {"nccl": "NCCL, RCCL", "mpi": "MPI"}
"""The libraries whose machines are left out, by the beginning of their file's name."""
PREDICTIONS = {
    "specification": "specification",
    "few": "4 points",
    "nccl": "NCCL's own",
    "links": "bare links",
}
"""What predicts a machine that was left out, by the column of its file."""
SPLITS = ("sizes", "ranks", "collectives", "plateau")
PACKAGES = ("simctl-collectives", "numpy", "scipy", "numba", "simpy")
COMMAND = ("python", "-m", "experiments.benchmarks", "calibration", "FOLDER")
Row = dict[str, str]


def write(
    folder: Path,
    errors: Sequence[output.Record],
    worst: Sequence[output.Record],
    pairs: Sequence[output.Record],
) -> None:
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
            folder / WORST: output.to_csv(worst),
            folder / PAIRS: output.to_csv(pairs),
            folder / MADE: json.dumps(provenance, indent=1) + "\n",
        }
    )


def page(folder: Path = RESULTS, text: Path = TEXT, population: Path = POPULATION) -> str:
    """The page in Markdown."""
    names = {row["group"]: row for row in _rows(folder / NAMES)}
    order = {group: place for place, group in enumerate(names)}
    rows = sorted(_rows(folder / ERRORS), key=lambda row: order.get(row["group"], len(order)))
    errors = [row | names.get(row["group"], _unnamed(row)) for row in rows]
    pairs = [row | names.get(row["group"], _unnamed(row)) for row in _rows(folder / PAIRS)]
    provenance = json.loads((folder / MADE).read_text())
    machines = list(_left_out(population, names))
    return Template(text.read_text()).substitute(
        command=" ".join(provenance["command"]),
        date=provenance["date"],
        versions=", ".join(f"{name} {number}" for name, number in provenance["versions"].items()),
        note=provenance.get("note", ""),
        summary=_summary(errors),
        **{split: _held_out(errors, split) for split in SPLITS},
        machines_summary=_machines_summary(machines),
        machines=_machines(machines),
        worst=_worst(folder, names),
        pairs=_pairs(pairs),
    )


def _rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _unnamed(row: Row) -> Row:
    """For a group that has no name for readers yet."""
    return {"runs": row["group"], "use": "not used"}


def _summary(errors: Iterable[Row]) -> str:
    """Medians over groups, and coverage, by what the runs were used for."""
    rows = list(errors)
    lines = []
    for use in dict.fromkeys(row["use"] for row in rows):
        for split in SPLITS:
            judged = [r for r in rows if r["use"] == use and r[f"{split}_model"]]
            if not judged:
                continue
            compared = [r for r in judged if r[f"{split}_line"]]
            nearer = sum(
                float(r[f"{split}_discrepancy"]) < float(r[f"{split}_line"]) for r in compared
            )
            middle = [_median(judged, f"{split}_{of}") for of in ("model", "discrepancy", "line")]
            inside = [float(r[f"{split}_inside"]) for r in judged]
            covered = [f"{sum(inside) / len(inside):.0%}", f"{min(inside):.0%}"]
            counts = [str(len(judged)), *middle, f"{nearer} of {len(compared)}"]
            lines.append([use, split, *counts, *covered])
    heads = ("use of the runs", "held out", "groups", "model", "expected", "line")
    return _markdown((*heads, "expected is nearer", "inside, mean", "inside, least"), lines)


def _median(rows: Iterable[Row], column: str) -> str:
    values = [float(row[column]) for row in rows if row[column]]
    return f"{median(values):.1%}" if values else ""


def _held_out(rows: Iterable[Row], split: str) -> str:
    errors = ("model", "expected", "line", "NCCL's own")
    intervals = ("inside", "half width", "score", "score of one width")
    figures = ("model", "discrepancy", "line", "nccl", "inside", "width", "score", "constant")
    columns = [f"{split}_{figure}" for figure in figures]
    return _markdown(
        ("runs", "use", "curves", "points", *errors, *intervals),
        (
            [row["runs"], row["use"], row["curves"], row["points"], *map(_percent(row), columns)]
            for row in rows
            if row[columns[0]]
        ),
    )


def _left_out(folder: Path, names: Mapping[str, Row]) -> Iterator[Row]:
    """The runs of machines that were left out of the populations."""
    for name, library in LIBRARIES.items():
        path = folder / f"{name}-{LEFT_OUT}"
        for row in _rows(path) if path.is_file() else []:
            yield row | {"library": library} | names.get(row["group"], _unnamed(row))


def _machines_summary(rows: Iterable[Row]) -> str:
    """The medians over machines, each of which counts by the median of its runs, and how many
    families have half of their points inside."""
    by_library: dict[str, list[Row]] = {}
    for row in rows:
        by_library.setdefault(row["library"], []).append(row)
    lines = []
    for library, members in by_library.items():
        machines = _grouped(members, "machine")
        middle = [_over_machines(machines.values(), column) for column in PREDICTIONS]
        inside = [_inside(family) for family in _grouped(members, "family").values()]
        enough = sum(share >= 0.5 for share in inside)
        lines.append([library, str(len(machines)), *middle, f"{enough} of {len(inside)}"])
    heads = ("library", "machines", *PREDICTIONS.values(), "families with half inside")
    return _markdown(heads, lines)


def _grouped(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[column], []).append(row)
    return grouped


def _over_machines(machines: Iterable[Sequence[Row]], column: str) -> str:
    errors = [[float(row[column]) for row in rows if row[column]] for rows in machines]
    known = [median(values) for values in errors if values]
    return f"{median(known):.1%}" if known else ""


def _inside(rows: Sequence[Row]) -> float:
    """The share of points inside their intervals."""
    points = [float(row["points"]) for row in rows]
    shares = zip(points, rows, strict=True)
    return sum(count * float(row["inside"]) for count, row in shares) / sum(points)


def _machines(rows: Iterable[Row]) -> str:
    heads = ("machine", "runs", "use", "points", *PREDICTIONS.values(), "inside", "half width")
    columns = (*PREDICTIONS, "inside", "width")
    return _markdown(
        heads,
        (
            [row["machine"], row["runs"], row["use"], row["points"], *map(_percent(row), columns)]
            for row in rows
        ),
    )


def _worst(folder: Path, names: Mapping[str, Row]) -> str:
    """The worst points of each group, with what can be told of them."""
    heads = ("runs", "point", "measured", "error", "reason")
    lines = [
        [
            names.get(row["group"], _unnamed(row))["runs"],
            f"{row['curve']}, {format_bytes(float(row['size_B']))}",
            format_seconds(float(row["measured_s"])),
            f"{float(row['error']):.0%}",
            row.get("reason", ""),
        ]
        for row in _rows(folder / WORST)
    ]
    return _markdown(heads, lines)


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
