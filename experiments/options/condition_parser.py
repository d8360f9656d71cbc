"""Parse the options for stragglers, noise, failures, slow links and epochs."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

from simulator.profile import Profile
from simulator.training.conditions import Conditions, Epochs, Failure
from topologies.errors import InputError, naming
from topologies.option_text import parse_pairs
from topologies.readers.contents import contents
from topologies.units import parse_number, parse_seconds, parse_whole

MOST_OBSERVED, MOST_BYTES = 1_000_000, 2**25


def parse(
    straggler: str | None = None,
    noise: str | None = None,
    fail: str | None = None,
    batches: str | None = None,
    seed: int = 0,
) -> Conditions:
    """The conditions of a run, from the texts of its options.

    Examples: a `straggler` is "3:1.5,5:2", `noise` is "lognormal:0.1" or a file with a time on each
    line, `fail` is "rank=3,step=5,restart=30s", and `batches` are "3:8".
    """
    factors = {
        rank: float(factor)
        for rank, factor in _pairs("--straggler", straggler, r"\d{1,6}(\.\d{1,6})?", "3:1.5")
    }
    counts = {rank: int(count) for rank, count in _pairs("--batches", batches, r"\d{1,9}", "3:8")}
    sigma, observed = _noise(noise)
    if seed < 0:
        raise InputError(f"--seed {seed}: 0 or more")
    return Conditions(factors, sigma, observed, seed, _failure(fail), counts)


def slow_links(text: str | None, library: Profile | None = None) -> dict[str | int, float]:
    """The share of its bandwidth that each slow link still has, by rank or name of the link.

    The text is like "3:0.5" or "gpu3->switch:0.5". Raises InputError with a library.
    """
    if text is not None and library is not None:
        raise InputError(f"--slow-link {text[:40]}: a library has links of its own, leave it out")
    links: dict[str | int, float] = {}
    for part in [] if text is None else text.split(","):
        name, _, factor = part.rpartition(":")
        if not name or not re.fullmatch(r"\d{1,6}(\.\d{1,6})?|\.\d{1,6}", factor, re.ASCII):
            raise InputError(
                f"--slow-link {part[:60]!r}: a rank or a link, and the share of its bandwidth, "
                f"like 3:0.5"
            )
        if not 0 < float(factor) <= 1:
            raise InputError(
                f"--slow-link {part[:60]!r}: the share of its bandwidth that is left is above 0, "
                f"1 at most"
            )
        link = int(name) if re.fullmatch(r"\d{1,9}", name, re.ASCII) else name
        if link in links:
            raise InputError(f"--slow-link {text}: a rank or a link is named twice")
        links[link] = float(factor)
    return links


def _pairs(what: str, text: str | None, value: str, example: str) -> list[tuple[int, str]]:
    pairs = []
    for part in [] if text is None else text.split(","):
        match = re.fullmatch(rf"(\d{{1,9}}):({value})", part.strip(), re.ASCII)
        if not match:
            raise InputError(f"{what} {part[:40]!r}: a rank and a number, like {example}")
        pairs.append((int(match[1]), match[2]))
    if len(dict(pairs)) < len(pairs):
        raise InputError(f"{what} {text}: a rank is named twice")
    return pairs


def _noise(text: str | None) -> tuple[float, tuple[float, ...]]:
    if text is None:
        return 0.0, ()
    name, _, sigma = text.partition(":")
    if name == "lognormal":
        if not re.fullmatch(r"\d{1,3}(\.\d{1,9})?|\.\d{1,9}", sigma, re.ASCII):
            raise InputError(f"--noise {text[:40]!r}: write it like lognormal:0.1")
        return float(sigma), ()
    try:
        data = contents(Path(text), MOST_BYTES)
        words = data.decode("utf-8").split()
    except (InputError, UnicodeDecodeError) as error:
        why = error if isinstance(error, InputError) else "it is no text"
        raise InputError(
            f"--noise {text[:60]!r} is neither lognormal:SIGMA nor a file with a time a line "
            f"({why})"
        ) from None
    if len(data) > MOST_BYTES:
        raise InputError(
            f"--noise {text}: more than {MOST_BYTES // 2**20} MiB, 1 to {MOST_OBSERVED} times "
            f"are right"
        )
    if not 1 <= len(words) <= MOST_OBSERVED:
        raise InputError(f"--noise {text}: {len(words)} times, 1 to {MOST_OBSERVED} are right")
    return 0.0, tuple(_noise_seconds(text, number, word) for number, word in enumerate(words, 1))


def _noise_seconds(file: str, number: int, text: str) -> float:
    """The time in a noise file: "0.5" is in seconds, "5ms" has a unit.

    Raises InputError with the file and the number of the value, which counts from 1.
    """
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?([eE][+-]?\d{1,2})?", text, re.ASCII):
        return float(text)
    with naming(f"--noise {file}, value {number}"):
        return parse_seconds(text)


_FAILURE = {
    "rank": parse_whole,
    "step": parse_whole,
    "restart": parse_seconds,
    "timeout": parse_seconds,
    "checkpoint": parse_whole,
}


def _failure(text: str | None) -> Failure | None:
    if text is None:
        return None
    example = "rank=3,step=5,restart=30s, and timeout=10s,checkpoint=4 if you like"
    expected = f"--fail {text[:60]!r}: write {example}"
    values = parse_pairs(text, "--fail", _FAILURE, unknown=lambda _: expected, example=example)
    if not {"rank", "step", "restart"} <= values.keys():
        raise InputError(expected)
    return Failure(**values)


def parse_epochs(text: str | None) -> Epochs:
    """The epochs that the user asks for, like "samples=1281167,count=90,pause=10s,rate=12000"."""
    if text is None:
        return Epochs()
    example = "samples=1281167,count=90,pause=10s,rate=12000"
    expected = f"--epochs {text[:60]!r}: write some of {example}"
    parsers = {
        "samples": parse_whole,
        "count": parse_whole,
        "pause": parse_seconds,
        "rate": parse_number,
    }
    values = parse_pairs(text, "--epochs", parsers, unknown=lambda _: expected, example=example)
    if not values:
        raise InputError(expected)
    if "samples" not in values and values.keys() != {"rate"}:
        raise InputError(
            f"--epochs {text[:60]}: say how many samples an epoch has, like samples=1281167"
        )
    rate = values.get("rate", inf)
    if rate <= 0:
        raise InputError(f"--epochs {text[:60]}: more than 0 samples a second, like rate=12000")
    count, pause = values.get("count", 1), values.get("pause", 0.0)
    return Epochs(count, values.get("samples"), pause, rate)
