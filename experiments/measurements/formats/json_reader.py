"""The JSON that nccl-tests and rccl-tests write with `-J FILE` (versions 1 and 2), whole or cut
short.

One object a test: version, args, env, nccl_version or rccl_version, config (with the list of
devices), results, and a summary. A result has size, count, type, redop, root, out_of_place and
in_place (each time or cpu_time in microseconds, alg_bw, bus_bw, nwrong), actual_iterations; version
2 adds out_of_place_per_iter and in_place_per_iter.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from experiments.measurements.curve import (
    DIED,
    Curve,
    Failure,
    Measurements,
    Skipped,
    no_rows,
    skipped_lines,
)
from experiments.measurements.formats.log_sections import LoggedTest
from experiments.measurements.formats.log_settings import LIBRARY, settings, version_of
from experiments.measurements.formats.participants import Device, programs, whole_list
from experiments.measurements.formats.printed_table import PrintedCell, PrintedRow, fits
from experiments.measurements.formats.table_curves import curves_of
from experiments.measurements.formats.text import whole_number
from experiments.measurements.networks import network_of
from experiments.output import counted
from topologies.errors import InputError, as_text

VERSIONS = ("1", "2")

_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
_PLACES = ("out_of_place", "in_place")
_OF_A_JOB = {"communicators", "pg_config", "traceEvents"}
"""Keys of NCCL's RAS, of torch's flight recorder and of Kineto."""
_EXPECTED = 'expected the JSON that nccl-tests writes with -J, with "results" and "config"'
_Document = dict[str, object]
"""One test as written."""


def looks_like_json(text: str) -> bool:
    """Whether a file begins as a JSON object does."""
    return re.match(r'\s*\{\s*"', text) is not None


def parse_json(text: str, source: str) -> Measurements:
    """The curves in the text of the JSON file `source`.

    A test becomes one curve, or several if it has several types, reductions or roots. Raises
    InputError if the text is not such JSON, or has no usable result.
    """
    measured: list[Curve] = []
    lines: list[str] = []
    failures: list[Failure] = []
    documents = list(_documents(text, source))
    for document, line, cut in documents:
        skipped: Skipped = defaultdict(list)
        where = source if len(documents) == 1 else f"{source}:{line}"
        measured += _curves(document, cut, where, skipped)
        lines += skipped_lines(skipped, "result")
        if skipped["bare"]:
            failures.append(Failure(DIED, where, "a test has no results"))
        lines += [cut] if cut else []
    if not measured:
        raise no_rows(f"no usable result in {source}: {'; '.join(lines) or _EXPECTED}", failures)
    network, log = network_of(text), source if len(documents) > 1 else ""
    curves = tuple(replace(curve, network=network, log=log) for curve in measured)
    return Measurements(curves, tuple(lines), tuple(failures))


def _documents(text: str, source: str) -> Iterator[tuple[_Document, int, str]]:
    """The objects in a file, one after the other: each with its line, and with what is missing if
    the file ends before its end."""
    at = len(text) - len(text.lstrip())
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            value, after = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield _salvaged(text[at:], line, source)
            return
        if isinstance(value, dict) and _OF_A_JOB & value.keys():
            raise InputError(f"{source} is of a job: simctl diagnose --job reads it")
        if not isinstance(value, dict) or not isinstance(value.get("results"), list):
            raise InputError(f"{source} line {line}: no list of results: {_EXPECTED}")
        yield value, line, ""
        at = len(text) - len(text[after:].lstrip())


def _salvaged(text: str, line: int, source: str) -> tuple[_Document, int, str]:
    """What stands before the place where a file stops being JSON: its head and its whole
    results."""
    start = re.search(r'"results"\s{0,99}:\s{0,99}\[', text)
    try:
        head = _DECODER.decode(text[: start.end()] + "]}") if start else None
    except (ValueError, RecursionError):
        head = None
    if start is None or not isinstance(head, dict):
        raise InputError(
            f"{source} line {line}: not JSON, or cut short before its results: {_EXPECTED}"
        )
    results, at = [], start.end()
    while at < len(text):
        at = _after(text, at)
        try:
            result, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        results.append(result)
    characters = len(text) - at
    remark = f"cut short after {counted(len(results), 'result')}"
    damage = f"the end of the file, {remark} ({characters} characters that are no whole result)"
    return head | {"results": results}, line, damage


def _after(text: str, at: int) -> int:
    between = re.compile(r"[\s,]*").match(text, at)
    return between.end() if between else at


def _curves(document: _Document, cut: str, source: str, skipped: Skipped) -> Iterator[Curve]:
    run = _run(document, cut)
    for number, result in enumerate(_list(document, "results"), 1):
        row = _row(number, result)
        if row is None:
            skipped["unreadable"].append(number)
            continue
        run.rows.append(row)
        run.cpu_time |= _has_cpu_time(result)
    run.capped = not cut and _capped(document, run.rows)
    if run.capped:
        run.notes.append(
            "sizes end before the largest asked for: lowered by the benchmark for lack of memory"
        )
    yield from curves_of(run, source, skipped)


def _run(value: _Document, cut: str) -> LoggedTest:
    config = _dict(value, "config")
    run = LoggedTest(closed=True, unit="result", iterations=_whole(config.get("iterations")))
    run.programs = programs(" ".join(as_text(word) for word in _list(value, "args")[:1]))
    run.threads = (_whole(config.get("nthreads")) or 1) * (_whole(config.get("ngpus")) or 1)
    run.devices = _devices(config, run.threads)
    for variable in _list(value, "env"):
        if isinstance(variable, str):
            run.settings |= {
                name: {setting}
                for name, setting, _ in settings(variable)
                if variable.startswith(name)
            }
    for library in ("NCCL", "RCCL"):
        if code := _whole(value.get(f"{library.lower()}_version")):
            run.settings[LIBRARY] = {f"{library} {version_of(code)}"}
    if "version" in value and value["version"] not in VERSIONS:
        run.notes.append(
            f"version {as_text(value['version'])[:20]} of the JSON: known here are "
            f"{' and '.join(VERSIONS)}"
        )
    if cut:
        run.notes.append("the file ends before the test does")
    return run


def _devices(config: dict[str, object], ranks_of_process: int) -> list[Device]:
    """All ranks, with rank -1 for a torn entry. A file may list one rank of each process."""
    listed = [_device(entry) for entry in _list(config, "devices") if isinstance(entry, dict)]
    return whole_list(listed, min(ranks_of_process, 1024))


def _device(entry: dict[str, object]) -> Device:
    rank, group = _whole(entry.get("rank")), _whole(entry.get("group"))
    host, model = (as_text(entry.get(name) or "")[:255] for name in ("hostname", "device_info"))
    return Device(-1 if rank is None else rank, group or 0, host, model)


def _row(number: int, result: object) -> PrintedRow | None:
    if not isinstance(result, dict):
        return None
    cells = [_cell(result, place) for place in _PLACES]
    while cells and cells[-1] is None:
        cells.pop()
    whole = [_whole(result.get(name)) for name in ("size", "count")]
    if not cells or whole[0] is None or (result.get("count") is not None and whole[1] is None):
        return None
    filled = tuple(cell or PrintedCell("N/A", "N/A", "N/A", "N/A") for cell in cells)
    if not all(fits("time", text) for cell in filled for text in vars(cell).values()):
        return None
    kind, redop, root = (
        as_text(result.get(name) or "").strip()[:40] for name in ("type", "redop", "root")
    )
    return PrintedRow(
        number,
        whole[0],
        whole[1],
        kind,
        redop,
        int(root) if fits("root", root) else None,
        filled,
    )


def _cell(result: dict[str, object], place: str) -> PrintedCell | None:
    if result.get(place) is None:
        return None
    cell, iterations = _dict(result, place), _dict(result, f"{place}_per_iter")
    texts = [
        cell.get("time", cell.get("cpu_time")),
        *(cell.get(name) for name in ("alg_bw", "bus_bw", "nwrong")),
    ]
    texts += [iterations.get(name) for name in ("min_us", "cv_pct")]
    return PrintedCell(*("N/A" if text is None else as_text(text) for text in texts))


def _has_cpu_time(result: object) -> bool:
    return isinstance(result, dict) and any("cpu_time" in _dict(result, place) for place in _PLACES)


def _capped(document: _Document, rows: list[PrintedRow]) -> bool:
    """Whether a test that ran to its end stopped at a size below the largest asked for."""
    config = _dict(document, "config")
    maximum, factor, more = (
        _whole(config.get(name)) for name in ("maximum_bytes", "step_factor", "step_bytes")
    )
    largest = max((row.size for row in rows), default=0)
    following = largest * (factor or 1) + (more or 0)
    return "end_time" in document and maximum is not None and 0 < largest < following <= maximum


def _whole(value: object) -> int | None:
    return whole_number(value) if isinstance(value, str) else None


def _dict(value: dict[str, object], name: str) -> dict[str, object]:
    entry = value.get(name)
    return entry if isinstance(entry, dict) else {}


def _list(value: dict[str, object], name: str) -> list[object]:
    entry = value.get(name)
    return entry if isinstance(entry, list) else []
