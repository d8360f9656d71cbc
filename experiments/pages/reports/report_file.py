"""Reports as files: a page, or Markdown for a ticket."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments import output
from experiments.pages.page import Block, Facts, Figure, Lines, Page, to_html, to_markdown
from experiments.pages.reports.result import Result, Story
from experiments.pictures.figure_file import inline_svg

STORIES = {
    "run": "collective_story:one",
    "groups": "collective_story:several",
    "workload": "collective_story:workload",
    "sweep": "sweep_story:story",
    "train": "training_story:one",
    "runs": "training_story:several",
    "learn": "training_story:learning",
    "plan": "plan_story:one",
    "plans": "plan_story:search",
    "validate": "validation_story:story",
    "judge": "profile_story:judged",
    "calibrate": "profile_story:calibrated",
    "diagnose": "diagnosis_story:curves",
    "job": "diagnosis_story:job",
    "recommend": "recommendation_story:story",
    "winners": "recommendation_story:winners",
    "explain": "recommendation_story:explained",
}
"""Module and function that tell a kind of result."""
MOST_RAW = 1_500_000
"""Characters of data that a page holds for its reader to download; more is left out."""


def write(path: Path, result: Result) -> None:
    """Write the report of a result. Raises InputError if the file cannot be written."""
    write_page(path, page_of(result, pictures=has_pictures(path)))


def has_pictures(path: Path) -> bool:
    """Whether a report in this file has pictures: a ticket has words alone."""
    return path.suffix.lower() != ".md"


def write_page(path: Path, page: Page) -> None:
    """Write a page, as Markdown if the file ends in .md. Raises InputError."""
    output.write(path, to_html(page) if has_pictures(path) else to_markdown(page))


def story_of(result: Result) -> Story:
    """What a report says of a result."""
    module, _, name = STORIES[result.kind].partition(":")
    tell = getattr(import_module(f"experiments.pages.reports.{module}"), name)
    story: Story = tell(result)
    return story


def page_of(result: Result, *, pictures: bool = True, name: str = "") -> Page:
    """The page of a result, with its pictures unless a ticket asks for words alone.

    `name` tells it from other results of a page: ids and files of raw data begin with it.
    """
    story = story_of(result)
    left_out = [*story.left_out, *result.left_out]
    figures = _figures(result, pictures, name)
    many = len(figures) > 2
    blocks: list[Block] = [
        *([] if many else figures),
        *story.blocks,
        *(figures if many else []),
        *([Lines("What this answer leaves out", left_out)] if left_out else []),
        Facts("How to get this answer again", facts(result)),
    ]
    report, missing = _small(json.loads(output.to_json(result.report)))
    raw = {f"{name}origin.json": result.origin}
    if report:
        raw = {f"{name}result.json": report, **raw}
    if missing:
        what = f"Too large for this page: {missing}. --format json has it."
        blocks.insert(-1, Lines("Raw data", [what]))
    return Page(story.title, [line for line in story.summary if line], blocks, raw)


def _small(report: Any) -> tuple[Any, str]:
    """As much of the raw data as a page has room for, and the names of what is left out.

    >>> _small({"time_s": 1.5, "memory": "0" * MOST_RAW})
    ({'time_s': 1.5}, 'memory')
    """
    missing = []
    while len(output.to_json(report)) > MOST_RAW:
        if not isinstance(report, dict):
            return None, "the result"
        largest = max(report, key=lambda key: len(output.to_json(report[key])))
        missing.append(largest)
        report = {key: value for key, value in report.items() if key != largest}
    return report, ", ".join(missing)


def _figures(result: Result, pictures: bool, name: str) -> list[Block]:
    return [
        Figure(
            picture.title,
            inline_svg(picture.draw(), f"{name}figure{k}", picture.title),
            picture.note,
        )
        for k, picture in enumerate(result.pictures if pictures else ())
    ]


def facts(result: Result) -> dict[str, str]:
    """The command, versions, parameters and files that an answer depends on."""
    origin = result.origin
    command = shlex.join(map(str, origin.get("command", ())))
    shown = {"command": command or "not known"}
    shown |= {name: str(version) for name, version in origin.get("versions", {}).items()}
    shown |= {
        name.replace("_", " "): str(value)
        for name, value in origin.get("parameters", {}).items()
        if value not in (None, False, "")
    }
    digests = origin.get("files", {})
    return shown | {f"SHA-256 of {name}": str(digest) for name, digest in digests.items()}
