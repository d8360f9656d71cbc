"""Text of options becomes values in experiments/cli and experiments/commands, each option once."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILE_READERS = ("measurements", "models", "profiles")
"""Packages of experiments that read text from files."""
CALLS = {
    "cli/condition_parser.py: parse_seconds": "--noise; restart of --fail; timeout of --fail",
    "cli/machine_options.py: _quantity": "--bandwidth; --latency; --gap; --reduction",
    "cli/machine_options.py: parse_placement": "--placement",
    "cli/measured.py: parse_algorithm": "--algo of validate",
    "cli/measured.py: parse_rank_count": "--p of validate; --p of diagnose",
    "cli/measured.py: parse_tolerance": "--tolerance",
    "cli/simulated.py: parse_algorithm": "--algo of run",
    "cli/simulated.py: parse_algorithms": "--algo of sweep",
    "cli/simulated.py: parse_bytes": "--size of run",
    "cli/simulated.py: parse_rank_count": "--p of run",
    "cli/simulated.py: parse_ranks": "--p of sweep",
    "cli/simulated.py: parse_sizes": "--size of sweep",
    "cli/simulated.py: parse_shapes": "--input of profile-model",
    "cli/strategy_parser.py: parse_bandwidth": "bandwidths of --strategy and --sweep",
    "cli/strategy_parser.py: parse_bytes": "sizes of --strategy, --bucket and --sweep",
    "cli/strategy_parser.py: parse_counts": "ranges of whole numbers of --sweep",
    "cli/strategy_parser.py: parse_sizes": "ranges of sizes of --sweep",
    "cli/topologies.py: parse_rank_count": "--p of topo show",
    "cli/training_options.py: parse_counts": "--p of train; ranges of a model's option of --sweep",
    "cli/values.py: parse_counts": "every --p of ranks",
    "cli/values.py: parse_number": "--tolerance",
    "cli/values.py: parse_ranks": "every --p of one number of ranks",
    "cli/measuring_options.py: parse_counts": "--nproc",
    "cli/measuring_options.py: parse_names": "--collectives",
    "cli/measuring_options.py: parse_seconds": "--budget and --timeout",
    "cli/measuring_options.py: parse_sizes": "--sizes",
}
"""The options that a file gives to a parser, one call each: another call would parse an option
twice."""


def calls() -> Iterator[str]:
    for path in sorted((ROOT / "experiments").rglob("*.py")):
        place = path.relative_to(ROOT / "experiments")
        if place.parts[0] in FILE_READERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", "")
            if name.startswith("parse_") or name == "_quantity":
                yield f"{place.as_posix()}: {name}"


def test_each_option_is_parsed_once() -> None:
    assert Counter(calls()) == {place: len(options.split("; ")) for place, options in CALLS.items()}
