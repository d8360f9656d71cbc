"""Files of frameworks among the plans and models that a user names. What reads them is imported
where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import output
from experiments.models.model_catalogue import Entry, find_transformer

_OF_MODELS = (".yaml", ".yml", ".toml", ".sh", ".txt")
"""The endings of files of frameworks that --model takes."""


def names_file(plan: str) -> bool:
    """Whether a plan is that of a file: run.sh, or run.toml,micro=2."""
    name = plan.partition(",")[0]
    return "=" not in name and Path(name).suffix != ""


def chosen_transformer(text: str) -> Entry:
    """The transformer for --model, which may be that of a file of a framework. Raises
    InputError."""
    if Path(text.partition(":")[0]).suffix.lower() not in _OF_MODELS:
        return find_transformer(text)
    from experiments.frameworks.job_file import model_in

    return model_in(text)


def with_jobs(plans: Sequence[str], gpus: int | None) -> tuple[list[str], list[str], list[int]]:
    """The plans as text, those of files too, with the models and the numbers of GPUs of the files.
    Notes say what each file means, and what simctl cannot express. Raises InputError for a file
    that cannot be read."""
    from experiments.frameworks.job_file import read_job

    jobs = {plan: read_job(plan, gpus) for plan in plans if names_file(plan)}
    for job in jobs.values():
        for sentence in job.sentences():
            output.note(sentence)
    return (
        [jobs[plan].plan if plan in jobs else plan for plan in plans],
        sorted({job.model for job in jobs.values() if job.model}),
        sorted({job.gpus for job in jobs.values() if job.gpus}),
    )
