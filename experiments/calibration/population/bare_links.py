"""Times of links alone, without any software: what a machine without measurements had so far."""

from __future__ import annotations

import numpy as np

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.prediction import predict
from simulator.profile import Profile, Protocol
from topologies.link import Link
from topologies.topology import Floats


def bare_links(runs: Runs) -> Floats:
    """Seconds of all points on links with the specified β, shape (points,).

    α is that of the shortest messages in the library's own model.
    """
    points, library = runs.model.points, runs.model.library
    seconds = []
    for curve in points.curves:
        links = {}
        for kind, latency in library.protocols[0].latency.items():
            specified = runs.specification.bandwidth(kind, curve.per_node)
            bandwidth = specified or 1 / library.protocols[-1].slowness[kind]
            links[kind] = Link(bandwidth, latency)
        profile = Profile("bare links", "nodes", 0.0, (Protocol("links", links),))
        machine = as_nodes(curve.ranks, curve.per_node)
        rows = predict(profile, library, curve, machine)
        seconds.append([row.seconds for row in rows])
    return np.concatenate(seconds)
