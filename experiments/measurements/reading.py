"""One file of measurements, whatever its kind."""

from pathlib import Path

from experiments.measurements import curves, nccl_json, nccl_tests, osu
from experiments.measurements.loading import load
from experiments.measurements.measurement import Failure, Measurements, Unmeasured, nothing
from topologies.errors import InputError


def read(path: Path) -> Measurements:
    """The measurements in the file at `path`: our CSV, nccl-tests' JSON, OSU micro-benchmarks or an
    nccl-tests log.

    Raises InputError when the file cannot be read, or is none of them.
    """
    text = load(path)
    if curves.looks_like_csv(text, path):
        return curves.parse_csv(text, path)
    if nccl_json.looks_like_json(text):
        return nccl_json.parse_json(text, str(path))
    if not osu.looks_like_osu(text):
        return nccl_tests.parse_log(text, str(path))
    if not nccl_tests.looks_like_log(text):
        return osu.parse_osu(text, str(path))
    return _both(text, str(path))


def _both(text: str, source: str) -> Measurements:
    """The tables of either kind in one log; of a kind without any, the reason is skipped and
    said."""
    found: list[Measurements] = []
    refused: list[str] = []
    failures: list[Failure] = []
    for parse in (osu.parse_osu, nccl_tests.parse_log):
        try:
            found.append(parse(text, source))
        except InputError as error:
            refused.append(str(error))
            failures += error.failures if isinstance(error, Unmeasured) else ()
    if not found:
        raise nothing("; ".join(refused), failures)
    curves = tuple(curve for kind in found for curve in kind.curves)
    failures += [failure for kind in found for failure in kind.failures]
    return Measurements(
        curves, (*(line for kind in found for line in kind.skipped), *refused), tuple(failures)
    )
