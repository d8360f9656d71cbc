"""A population as YAML and back: see `experiments/profiles/population`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from math import exp, log
from typing import Annotated, Literal

from pydantic import Field

from experiments.calibration.population.population import Member, Population
from experiments.calibration.population.specification import FOLDER
from experiments.profiles.document_parts import Part
from simulator.effects.parameter_units import Word
from topologies.readers import yaml_files
from topologies.readers.mistakes import Mistakes

MADE = (
    "python -m experiments.benchmarks population: a mean over machines near the library's own "
    "model, and the spread of machines about it"
)


class MemberPart(Part):
    """A parameter: its values, and the spread of its logarithm (of a power: of itself)."""

    unit: Literal["s", "s/B", "power", "times specified"]
    start: float
    """In the library's own model."""
    mean: float
    """Over machines."""
    spread: Annotated[float, Field(gt=0, le=10)]
    machines: Annotated[float, Field(ge=0)]
    """The number of machines whose runs depend on it."""

    def member(self) -> Member:
        """The parameter as a fit counts it."""
        start, mean = (
            value if self.unit == "power" else log(value) for value in (self.start, self.mean)
        )
        return Member(self.unit, start, mean, self.spread, self.machines)


class PopulationDocument(Part):
    """A file of a population."""

    library: Word
    made: Annotated[str, Field(max_length=2000)]
    """How it was made."""
    machines: list[Annotated[str, Field(max_length=200)]]
    """The machines whose runs it is of: `machines.csv` has their specifications and sources."""
    error: Annotated[float, Field(gt=0, le=100)]
    """The median |ln(predicted / measured)| of machines that were left out."""
    parameters: Annotated[dict[Word, MemberPart], Field(min_length=1)]


@cache
def find(library: str) -> Population | None:
    """The population of a library that ships with simctl; None if no machine was measured."""
    file = files(FOLDER) / f"{library.lower()}.yaml"
    return parse(file.read_text(encoding="utf-8"), file.name) if file.is_file() else None


def parse(text: str, name: str) -> Population:
    """The population in the text of the YAML file `name`. Raises InputError with the place of the
    first mistake."""
    mistakes, place = Mistakes(), yaml_files.place_in(text, name)
    document: PopulationDocument = mistakes.checked(PopulationDocument, yaml_files.load(text, name))
    mistakes.report(place)
    mistakes.add(
        (("parameters", key), f"{part.start:g}, {part.mean:g}: values in {part.unit} are above 0")
        for key, part in document.parameters.items()
        if part.unit != "power" and min(part.start, part.mean) <= 0
    )
    mistakes.report(place)
    members = {key: part.member() for key, part in document.parameters.items()}
    return Population(document.library, members, tuple(document.machines), document.error)


def dumps(population: Population) -> str:
    """A population as YAML that is read back as one that is equal but for rounding."""
    import yaml

    content = {
        "library": population.library,
        "made": MADE,
        "machines": list(population.machines),
        "error": float(f"{population.error:.3g}"),
        "parameters": {key: _part(one) for key, one in population.members.items()},
    }
    text: str = yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )
    return text


def _part(member: Member) -> dict[str, str | float]:
    start, mean = (
        value if member.unit == "power" else exp(value) for value in (member.start, member.mean)
    )
    rounded = {"start": start, "mean": mean, "spread": member.spread, "machines": member.machines}
    return {"unit": member.unit} | {key: float(f"{value:.4g}") for key, value in rounded.items()}
