"""What a command answers, as far as a report shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments import output
from experiments.output import Value
from experiments.pages.page import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.pages.machine_use import MachineUse
    from experiments.pages.memory_curves import MemoryCurves
    from experiments.pictures.timelines.spans import Spans


class Picture(NamedTuple):
    """A figure of matplotlib, drawn when a page needs it."""

    title: str
    draw: Callable[[], Figure]
    note: str = ""
    """What stands below it."""


@dataclass(frozen=True)
class Result:
    """An answer and how it was made."""

    kind: str
    """Which module of this package tells it, like "run"."""
    report: Any
    """What `--format json` prints."""
    origin: Mapping[str, Any]
    """Versions, parameters, files and the command, as `output.provenance` has them."""
    pictures: Sequence[Picture] = ()
    left_out: Sequence[str] = ()
    """Sentences on what the answer does not contain."""
    spans: Spans | None = None
    """Who did what when."""
    use: MachineUse | None = None
    """The links of the machine and their use."""
    memory: MemoryCurves | None = None


class Story(NamedTuple):
    """What a report says of a result."""

    title: str
    summary: Sequence[str]
    """About three sentences: the question, the answer, its cause or what to do."""
    blocks: Sequence[Block]
    left_out: Sequence[str] = ()
    """Sentences on what the answer does not contain."""


def origin(parameters: Mapping[str, Value]) -> dict[str, Any]:
    """How the answer of this process was made."""
    made: dict[str, Any] = json.loads(output.provenance(**parameters))
    return made
