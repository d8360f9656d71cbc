"""Reads one file of measurements in any format."""

from dataclasses import replace
from pathlib import Path

from experiments.measurements.curve import Failure, Measurements, Unmeasured, no_rows
from experiments.measurements.formats.nccl_tests import json_reader, log_reader
from experiments.measurements.formats.osu import osu_reader
from experiments.measurements.formats.runs_csv import csv_reader
from experiments.measurements.formats.text import load
from experiments.measurements.nvlink_domains import in_domains
from topologies.errors import InputError


def read(path: Path) -> Measurements:
    """The measurements in the file at `path`: our CSV, nccl-tests' JSON, OSU micro-benchmarks or an
    nccl-tests log. Trays of one NVLink domain are one node, unless a CSV says otherwise.

    Raises InputError when the file cannot be read, or is none of them.
    """
    text = load(path)
    if csv_reader.looks_like_csv(text, path):
        return csv_reader.parse_csv(text, path)
    logged = _logged(text, path)
    return replace(logged, curves=tuple(in_domains(curve, text) for curve in logged.curves))


def _logged(text: str, path: Path) -> Measurements:
    if json_reader.looks_like_json(text):
        return json_reader.parse_json(text, str(path))
    if not osu_reader.looks_like_osu(text):
        return log_reader.parse_log(text, str(path))
    if not log_reader.looks_like_log(text):
        return osu_reader.parse_osu(text, str(path))
    return _both(text, str(path))


def _both(text: str, source: str) -> Measurements:
    """The tables of both kinds in one log. If one kind has none, the reason is skipped."""
    parts: list[Measurements] = []
    refusals: list[str] = []
    failures: list[Failure] = []
    for parse in (osu_reader.parse_osu, log_reader.parse_log):
        try:
            parts.append(parse(text, source))
        except InputError as error:
            refusals.append(str(error))
            failures += error.failures if isinstance(error, Unmeasured) else ()
    if not parts:
        raise no_rows("; ".join(refusals), failures)
    curves = tuple(curve for part in parts for curve in part.curves)
    skipped = (*(line for part in parts for line in part.skipped), *refusals)
    failures += [failure for part in parts for failure in part.failures]
    return Measurements(curves, skipped, tuple(failures))
