"""Model profiles in files: our own format as YAML or JSON, to the bit, and PyTorch-profiler traces.

A file of ours has a name, a batch and layers in the order in which they run; quantities are text
with units:

    name: two layers
    batch: 32
    layers:
    - {name: fc, forward: 1.2ms, backward: 2.4ms, parameters: {weight: 9.4MB, bias: 4kB}}
    - {name: head, forward: 300us, backward: 600us, parameters: 1MB}

What else there may be, and what is assumed where it is left out, is as
:mod:`experiments.models.model_document` says. A layer whose parameters are one size has one tensor,
called weight. `registration` lists the names of all layers.
"""

from __future__ import annotations

from pathlib import Path

from experiments import output
from experiments.models import kineto, kineto_trace
from simulator.training.model import Model
from topologies.errors import InputError
from topologies.readers.contents import decoded
from topologies.readers.file_checks import LIMIT, check_text


def read(path: Path) -> Model:
    """The model that `path` describes: our YAML or JSON, or a Kineto trace (.json or .json.gz).

    Raises InputError, in one line that names file and place, for what is none of these.
    """
    return read_ranked(path)[0]


def read_ranked(path: Path) -> tuple[Model, int | None]:
    """As :func:`read`, and the rank that a trace says it is of."""
    data, name = kineto_trace.contents(path), path.name
    if kineto.looks_like(data):
        return kineto.parse_ranked(data, name)
    if len(data) > LIMIT:
        raise InputError(
            f"{name} has {len(data)} bytes: a model has at most {LIMIT}, and a trace has "
            f"traceEvents"
        )
    return parse(decoded(data, name), name), None


def parse(text: str, name: str) -> Model:
    """The model in the text of the YAML or JSON file `name`. Raises InputError as :func:`read`
    does."""
    from experiments.models.model_document import model_of
    from topologies.readers import json_files, yaml_files

    text = check_text(text, name)
    is_json = Path(name).suffix.lower() == ".json" or text.lstrip().startswith("{")
    return model_of(
        (json_files if is_json else yaml_files).load(text, name), yaml_files.place_in(text, name)
    )


def dumps(model: Model) -> str:
    """A model as YAML that :func:`parse` reads back as an equal one.

    Raises InputError when no file can hold it: two layers of one name, a name that is not
    printable, a time of years.
    """
    import yaml

    from experiments.models.model_document import describe

    text: str = yaml.safe_dump(
        describe(model), sort_keys=False, allow_unicode=True, default_flow_style=None, width=4096
    )
    if len(text) > LIMIT:
        raise InputError(f"model {model.name} is a file of more than 16 MiB, which none reads")
    return text


def write(model: Model, path: Path) -> None:
    """Write a model as YAML, all of it or nothing. Raises InputError as :func:`dumps` does, or if
    it cannot write."""
    output.write(path, dumps(model))
