"""The page of algorithms and who uses them: the catalogue, with users from two csv files."""

import csv
from pathlib import Path

from simulator.collectives import algorithms

RESULTS = Path("docs/reference/algorithms")
"""The folder of the csv files."""
PAGE = RESULTS.with_suffix(".md")
HEAD = """\
# Algorithms and who uses them

<!-- Generated from the catalogue of algorithms and algorithms/*.csv. \
`SIMCTL_UPDATE_DOCS=1 pytest tests/test_algorithms_page.py -n 0` writes it anew. -->

This page lists all {count} algorithms by collective. For each algorithm it says which library or \
framework uses it, and names the source of this claim.

- [Patterns](patterns.md) says what each collective achieves.
- `simctl list algos` prints the formula, assumptions and source of each algorithm.
- A library that uses an algorithm may give it another name, and cut messages in another way.
- "Unverified" marks a source that we know from memory and have not read again.
"""


def users(name: str) -> dict[str, dict[str, str]]:
    """The rows of a csv file by the name in their first column."""
    with (RESULTS / f"{name}.csv").open() as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def page() -> str:
    """The text of the page."""
    known, by_algorithm, by_collective = algorithms(), users("algorithms"), users("collectives")
    parts = [HEAD.format(count=len(known))]
    for name, row in by_collective.items():
        lines = [
            f"## {name}\n",
            f"Used by {row['used by']} ({row['source']}).\n",
            "| algorithm | what it does | who uses it | source |\n|---|---|---|---|",
        ]
        for algorithm in known.values():
            if algorithm.collective.name == name:
                user = by_algorithm[algorithm.name]
                cells = [f"`{algorithm.name}`", algorithm.summary, user["used by"], user["source"]]
                lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
