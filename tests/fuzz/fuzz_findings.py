"""What a fuzzer found, and how much it is asked to try."""

from __future__ import annotations

import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SHOWN = 20


@dataclass(frozen=True)
class Request:
    """How many cases, of which seed; findings are kept in `folder`, and `say` tells what became of
    all.

    Without a count there are few cases, and time and memory are not judged: a busy machine is no
    failure.
    """

    count: int | None
    seed: int
    folder: Path
    say: Callable[[str], None]

    @property
    def limits(self) -> bool:
        """Whether seconds and megabytes are judged."""
        return self.count is not None

    def share(self, part: float, least: int) -> int:
        """This part of the count, at least one; or a few."""
        return least if self.count is None else max(1, round(self.count * part))


@dataclass(frozen=True)
class Finding:
    """A case that went wrong: its name, what makes it alike to others, and what happened."""

    case: str
    kind: str
    text: str

    def kept(self, path: Path, folder: Path) -> Finding:
        """With a copy of the file, whose name is in its text."""
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / f"{len(list(folder.iterdir()))}{path.suffix}"
        shutil.copy(path, copy)
        return replace(self, text=f"{self.text} ({copy})")

    @staticmethod
    def listed(findings: Sequence[Finding]) -> str:
        """All findings, those of a kind together."""
        kinds: dict[str, list[Finding]] = defaultdict(list)
        for finding in findings:
            kinds[finding.kind].append(finding)
        lines = [f"{len(findings)} findings of {len(kinds)} kinds"]
        for kind, alike in kinds.items():
            lines += [
                f"{kind}: {len(alike)} times",
                *(f"    {finding.case}: {finding.text}" for finding in alike[:_SHOWN]),
            ]
        return "\n".join(lines)


def place_of(error: BaseException) -> str:
    """The type of an exception, and the last lines of the project that it went through."""
    ours = [
        f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ROOT)
        and "fuzz" not in Path(frame.filename).parts[-2:]
    ]
    return f"{type(error).__name__} at {' < '.join(ours[:-4:-1])}"
