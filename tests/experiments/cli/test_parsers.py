"""Text of options becomes values in experiments/cli and experiments/commands, each option once."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILE_READERS = ("algorithm_files", "studies", "measurements", "models", "profiles")
"""Packages of experiments that read text from files, or have a command line without options."""
FINDERS = (
    "catalogue.find",
    "model_catalogue.find",
    "profiles.find",
    "strategy_options.find",
    "_quantity",
)
"""Parsers with other names: from text to a machine, a model, a profile, a strategy, a quantity."""
CALLS = {
    "cli/advised.py: parse_algorithms": "--algo of recommend",
    "cli/advised.py: parse_bytes": "--explain",
    "cli/advised.py: parse_ranks": "--p of recommend",
    "cli/advised.py: parse_sizes": "--size of recommend",
    "cli/algorithms.py: parse_algorithm": "FILE of algos import; NAME of algos export",
    "cli/algorithms.py: parse_bytes": "--size of algos export",
    "cli/algorithms.py: parse_rank_count": "--p of algos import; --p of algos export",
    "cli/chakra_options.py: parse_algorithms": "--algo with --chakra",
    "cli/animated.py: parse_algorithm": "--algo of animate",
    "cli/animated.py: parse_bytes": "--size of animate",
    "cli/animated.py: parse_rank_count": "--p of animate",
    "cli/animated.py: parse_seconds": "--forward, --inputs, --weights and --transfer of animate",
    "cli/group_parser.py: parse_bytes": "--size with --groups; a size of --groups",
    "cli/group_parser.py: parse_groups": "--groups",
    "cli/group_parser.py: parse_rank_count": "--p with --groups",
    "cli/group_parser.py: parse_rank_list": "the ranks of --groups",
    "cli/group_parser.py: parse_whole": "a stream of --groups",
    "cli/lists.py: parse_seconds": "--forward; --inputs; --weights; --transfer",
    "cli/learning_parser.py: parse_task": "--learn",
    "cli/learning_parser.py: parse_course": "--plan, each of several",
    "options/machine_options.py: _quantity": "--bandwidth; --latency; --gap; --reduction",
    "options/machine_options.py: catalogue.find": "--topology",
    "options/machine_options.py: parse_placement": "--placement",
    "options/machine_options.py: profiles.find": "--profile; the library of --profile",
    "cli/measured.py: parse_algorithm": "--algo of validate",
    "cli/measured.py: parse_rank_count": "--p of validate; --p of diagnose",
    "cli/measured.py: parse_tolerance": "--tolerance",
    "cli/measured.py: profiles.find": "PROFILE of judge; --profile of diagnose",
    "options/measuring_options.py: parse_counts": "--nproc",
    "options/measuring_options.py: parse_names": "--collectives",
    "options/measuring_options.py: parse_seconds": "--budget and --timeout",
    "options/measuring_options.py: parse_sizes": "--sizes",
    "options/pattern_options.py: parse_skew": "--skew",
    "parallel/plan_space.py: parse_values": "keys of --plan auto",
    "parallel/plan_text.py: parse_values": "keys of --plan",
    "parallel/compute_calibration.py: parse_plan": "a line of --calibrate-compute",
    "cli/plan_parser.py: parse_counts": "--p with --plan; --p with --plan auto",
    "cli/plan_parser.py: parse_course": "--plan, each of several",
    "cli/plan_parser.py: parse_epochs": "the options of epochs with --plan",
    "cli/plan_parser.py: parse_plan": "--plan",
    "cli/plan_parser.py: parse_search": "--plan auto and its options",
    "cli/plan_parser.py: parse_sizes": "ranges of sizes of --sweep with --plan",
    "cli/plan_parser.py: parse_space": "--plan auto",
    "cli/simulated.py: parse_algorithm": "--algo of run",
    "cli/simulated.py: parse_algorithms": "--algo of sweep",
    "cli/simulated.py: parse_bytes": "--size of run",
    "cli/simulated.py: parse_rank_count": "--p of run",
    "cli/simulated.py: parse_ranks": "--p of sweep",
    "cli/simulated.py: parse_shapes": "--input of profile-model",
    "cli/simulated.py: parse_sizes": "--size of sweep",
    "cli/topologies.py: catalogue.find": "NAME of topo show; NAME of topo import",
    "cli/topologies.py: parse_rank_count": "--p of topo show",
    "options/trace_options.py: parse_rank_list": "--ranks",
    "options/training_options.py: model_catalogue.find": "--model; a model of --sweep",
    "options/training_options.py: parse_epochs": "the options of epochs",
    "options/training_options.py: parse_counts": "--p of train; ranges of --sweep",
    "options/training_options.py: strategy_options.find": "--strategy",
    "options/values.py: parse_counts": "every --p of ranks",
    "options/values.py: parse_number": "--tolerance",
    "options/values.py: parse_ranks": "every --p of one number of ranks",
    "commands/diagnose.py: catalogue.find": "the machine of a profile",
    "commands/judge.py: catalogue.find": "the machine of a profile",
    "parallel/plan_text.py: parse_yes": "reshard of --plan",
    "options/condition_parser.py: parse_pairs": "values of --fail",
    "options/condition_parser.py: parse_seconds": "--noise",
    "cli/learning_parser.py: parse_options": "values of --learn",
    "options/training_options.py: parse_option": "--bucket",
    "option_text.py: parse_bandwidth": "bandwidths of --strategy and --sweep",
    "option_text.py: parse_bytes": "sizes of --strategy, --bucket and --sweep",
    "option_text.py: parse_pairs": "options of --strategy and --learn",
    "parallel/plan_text.py: parse_pairs": "keys of --plan",
    "parallel/plan_text.py: parse_zipf": "router of --plan",
    "options/pattern_options.py: parse_at_least": "seed of --skew; others of --skew",
    "options/pattern_options.py: parse_pairs": "options of --skew",
    "options/pattern_options.py: parse_zipf": "--skew",
    "option_text.py: parse_number": "an exponent",
    "option_text.py: parse_whole": "whole numbers with a least one",
    "training/strategy_options.py: parse_counts": "ranges of whole numbers of --sweep",
    "training/strategy_options.py: parse_option": "a value of --sweep",
    "training/strategy_options.py: parse_options": "--strategy",
    "training/strategy_options.py: parse_sizes": "ranges of sizes of --sweep",
    "size_tables.py: parse_table": "the file of --matrix",
}
"""The options that a file gives to a parser, one call each: another call would parse an option
twice."""


def calls() -> Iterator[str]:
    for path in sorted((ROOT / "experiments").rglob("*.py")):
        place = path.relative_to(ROOT / "experiments")
        if place.parts[0] in FILE_READERS:
            continue
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imports = {
            alias.asname or alias.name: f"{(node.module or '').rpartition('.')[2]}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes:
            if isinstance(node, ast.Call):
                words = ast.unparse(node.func)
                name = imports.get(words, words)
                function = name.rpartition(".")[2]
                if function.startswith("parse_") or name in FINDERS:
                    yield f"{place.as_posix()}: {name if function == 'find' else function}"


def test_each_option_is_parsed_once() -> None:
    assert Counter(calls()) == {place: len(options.split("; ")) for place, options in CALLS.items()}


TEXTS = {
    "animate": "parameters",
    "calibrate": "family library name only",
    "diagnose": "family",
    "judge": "compare family only",
    "learn": "parameters",
    "measure": "parameters",
    "pipelines": "orders",
    "profile_model": "device dtype optimizer target",
    "run": "parameters",
    "run_chakra": "parameters",
    "run_groups": "parameters",
    "sweep": "parameters",
}
"""The fields of requests that hold text, by command: names, and the options as the user writes
them. No machine, size or number of ranks is among them."""


def texts() -> Iterator[tuple[str, set[str]]]:
    for path in sorted((ROOT / "experiments" / "commands").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == "Request":
                fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
                names = {
                    ast.unparse(field.target)
                    for field in fields
                    if "str" in ast.unparse(field.annotation)
                }
                if names:
                    yield path.stem, names


def test_requests_have_values_and_text_only_for_names() -> None:
    assert {name: set(fields.split()) for name, fields in TEXTS.items()} == dict(texts())
