"""A population as YAML and back: see `experiments/profiles/population`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import log
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from experiments.calibration.population.population import Member, Population, Spread
from experiments.calibration.standing import POPULATION
from experiments.profiles.document_parts import DocumentPart, Keys, Whole
from simulator.effects.parameter_units import Word
from topologies.readers.mistakes import Location, Mistake, Mistakes
from topologies.readers.plain_files import load_yaml, place_in
from topologies.topology import Floats


class MemberPart(DocumentPart):
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


class LevelPart(DocumentPart):
    """The parameters of some machines."""

    machines: list[Annotated[str, Field(max_length=200)]]
    """The machines whose runs it is of: `machines.csv` has their specifications and sources."""
    parameters: Annotated[dict[Word, MemberPart], Field(min_length=1)]
    correlations: dict[Word, list[Annotated[float, Field(ge=-1, le=1)]]] = Field({})
    """How each parameter goes together with those before it. Those that are left out do not."""

    def population(self, library: str) -> Population:
        """The population of these machines."""
        members = {key: part.member() for key, part in self.parameters.items()}
        return Population(library, members, tuple(self.machines), self._matrix())

    def _matrix(self) -> Floats:
        """The correlations, shape (parameters, parameters)."""
        matrix = np.eye(len(self.parameters))
        for k, name in enumerate(self.parameters):
            row = self.correlations.get(name, [])
            matrix[k, : len(row)] = matrix[: len(row), k] = row
        return matrix

    def mistakes(self, above: Location = ()) -> Iterator[Mistake]:
        """Values that their unit does not allow, and correlations without their parameter, each
        with its place in the document. `above` is the place of the part."""
        for key, part in self.parameters.items():
            if part.unit != "power" and min(part.start, part.mean) <= 0:
                text = f"{part.start:g}, {part.mean:g}: values in {part.unit} are above 0"
                yield (*above, "parameters", key), text
        known = list(self.parameters)
        for key, row in self.correlations.items():
            if key not in known:
                text = f"{key}: no parameter of the population"
                yield (*above, "correlations", key), text
            elif len(row) != known.index(key):
                text = f"{key}: expected a parameter, with the {known.index(key)} before it"
                yield (*above, "correlations", key), text


class PopulationDocument(LevelPart):
    """A file of a population."""

    library: Word
    made: Annotated[str, Field(max_length=2000)]
    """How it was made."""
    error: Annotated[float, Field(gt=0, le=100)]
    """The median |ln(predicted / measured)| of machines that were left out."""
    intervals: Annotated[Spread, Keys, Whole] | None = None
    """The rules of intervals."""
    transports: dict[Word, LevelPart] = Field({})
    """The machines of each transport that enough machines have."""


@cache
def find(library: str) -> Population | None:
    """The population of a library that ships with simctl; None if no machine was measured."""
    file = files(POPULATION) / f"{library.lower()}.yaml"
    return parse(file.read_text(encoding="utf-8"), file.name) if file.is_file() else None


def parse(text: str, name: str) -> Population:
    """The population in the text of the YAML file `name`. Raises InputError with the place of the
    first mistake."""
    mistakes, place = Mistakes(), place_in(text, name)
    document: PopulationDocument = mistakes.checked(PopulationDocument, load_yaml(text, name))
    mistakes.report(place)
    mistakes.add(document.mistakes())
    for key, level in document.transports.items():
        mistakes.add(level.mistakes(("transports", key)))
    mistakes.report(place)
    return replace(
        document.population(document.library),
        error=document.error,
        intervals=document.intervals,
        transports={
            key: level.population(document.library) for key, level in document.transports.items()
        },
    )
