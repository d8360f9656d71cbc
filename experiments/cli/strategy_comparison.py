"""Several strategies of one command, compared on the same workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.commands.train import Request
from experiments.training.strategy_options import SweptValue


def comparison(text: str, requests: Mapping[str, Request]) -> Request:
    """One request for the runs of all strategies, which the user writes as `text`."""
    jobs = {name: replace(request.job, name=name) for name, request in requests.items()}
    first, *_ = requests.values()
    ranks = min((request.ranks for request in requests.values()), key=min)
    parameters = {
        **first.parameters,
        "strategy": text,
        "steps": ",".join(str(job.steps) for job in jobs.values()),
        "p": ",".join(map(str, ranks)),
    }
    variants = [(SweptValue(name, name, name), job) for name, job in jobs.items()]
    return Request(variants[0][1], ranks, "strategy", variants, parameters)
