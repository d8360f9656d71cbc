"""A training job in a file of another framework: its plan, its model, and what simctl cannot
express."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.frameworks.facts import JobFacts, facts_of, find_row
from experiments.frameworks.model_facts import model_of
from experiments.frameworks.plan_facts import plan_of
from experiments.frameworks.settings import NESTED, read_settings
from experiments.models.model_catalogue import MODELS, Entry
from experiments.parallel.plan_text import parse_values
from topologies.errors import InputError


class JobFile(NamedTuple):
    """A job of Megatron-LM, Megatron-Bridge, NeMo or torchtitan."""

    path: str
    facts: JobFacts
    plan: str
    """The plan as text, without values that are the defaults of their keys."""
    entry: Entry | None
    """The model; None if the file does not say, or names one that simctl does not know."""
    gpus: int | None
    """The GPUs of the job: those of the user, or of the file if it says."""

    @property
    def model(self) -> str | None:
        """What --model takes for the model: a name of the catalogue, or the file."""
        if self.entry is None or self.entry.name not in MODELS:
            return self.path if self.entry else None
        options = ",".join(f"{key}={value}" for key, value in self.entry.choices.items())
        return f"{self.entry.name}{':' * bool(options)}{options}"

    def sentences(self) -> Iterator[str]:
        """The command that means the same, and what it does not say."""
        facts, model = self.facts, self.model or "MODEL"
        gpus = f" --gpus {self.gpus}" if self.gpus else ""
        yield f"{self.path} ({facts.framework}) is: simctl plan {self.plan} --model {model}{gpus}"
        yield from facts.remarks
        more = f", {facts.unknown_off} unknown ones are off" if facts.unknown_off else ""
        yield f"{self.path}: {facts.idle} other keys change neither time nor memory{more}"


def read_job(text: str, gpus: int | None = None) -> JobFile:
    """The job in FILE, or in FILE,KEY=VALUE,... with keys that count more than those of the file.
    `gpus` is how many the user or the machine has.

    Raises InputError, in one line with the place, for a file that cannot be read.
    """
    path, _, rest = text.partition(",")
    parse_values(rest)
    stated = dict(part.split("=", 1) for part in rest.replace(" ", "").split(",") if part)
    facts = _facts_in(path)
    file_gpus, entry = _gpus_of(facts), model_of(facts, Path(path).name)
    plan = plan_of(facts, entry.shape if entry else None, gpus or file_gpus, stated)
    return JobFile(path, facts, plan, entry, gpus or file_gpus)


def _facts_in(path: str) -> JobFacts:
    settings = read_settings(Path(path))
    if any(setting.key == "model_type" for setting in settings):
        raise InputError(f"{path} is a model of Hugging Face and no plan: write --model {path}")
    is_script = Path(path).suffix.lower() not in NESTED
    has_arguments = any(setting.key.startswith("MODEL_ARGS.") for setting in settings)
    facts = facts_of(settings, is_script or has_arguments)
    if not any(find_row(facts.framework, setting.key) for setting in settings):
        raise InputError(
            f"{path} has no key of Megatron or torchtitan: is it another file? A plan is dp=8,tp=4"
        )
    return facts


def model_in(text: str) -> Entry:
    """The model that the job in FILE trains, or FILE:option=value,... Raises InputError if the file
    does not say."""
    path, _, options = text.partition(":")
    # The user may replace values of the plan that make no sense.
    if (entry := model_of(_facts_in(path), Path(path).name)) is None:
        raise InputError(f"{path} names no model that simctl knows: give --model, like llama3_70b")
    return entry.with_options(options)


def _gpus_of(facts: JobFacts) -> int | None:
    """The GPUs that a script starts, if they hold the job: nodes are often for the user to say."""
    if "per_node" not in facts:
        return None
    gpus = int(facts["per_node"] * facts["node_count"])
    rest = facts["tp"] * facts["pp"] * facts["cp"]
    if gpus % rest == 0:
        return gpus
    facts.say("per_node", f"{gpus} GPUs do not hold tp x pp x cp = {rest}: give --gpus")
    return None
