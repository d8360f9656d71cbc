"""Where a calibration starts: at what measured machines say, so that few points are enough."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from experiments.calibration.library_model import Model
from experiments.calibration.population.library_profile import links_on, population_over
from experiments.calibration.population.population import shared_names
from experiments.calibration.population.population_file import find
from topologies.topology import Topology


def at_population(model: Model, topology: Topology | None = None) -> Model:
    """The model whose fit starts at the mean of the library's population, on the specified links of
    `topology` if there is one. A library without a population starts at its own model.

    Starts keep the weights of the library. Weights by the spreads of the population made errors on
    most of the tuned machines larger: machines of other transports make these spreads wide.
    """
    library = model.library
    population = find(library.name) if topology is None else population_over(library, topology)
    if population is None:
        return model
    usual = np.array([one.inner - one.rest for one in model.parameters])
    start = population.mean(model.parameters, shared_names(model), usual)
    if topology is not None:
        of_links = dict(_of_links(model, topology))
        known = [of_links.get(one.name, np.nan) for one in model.parameters]
        start = np.where(np.isnan(known), start, known)
    return model.starting(start, model.weight)


def _of_links(model: Model, topology: Topology) -> Iterator[tuple[str, float]]:
    """α and 1/β of a topology's links, as the fit counts them, by the names of parameters."""
    protocols = links_on(model.library, topology)
    for prior, links in zip(model.library.protocols, protocols, strict=True):
        for kind, link in links.items():
            yield f"{prior.name} {kind} α", log(link.latency)
            if not prior.one_rate:
                yield prior.rate(kind), -log(link.bandwidth)
