"""`simctl models`."""

from experiments import output
from experiments.commands.answer import Answer
from experiments.models.model_catalogue import MODELS
from experiments.models.model_entry import Entry, fits
from experiments.models.model_shapes import Shape
from simulator.training.model import WIDTHS
from topologies.units import format_bytes, format_seconds

NOTE = """

Times are estimates for one device. A model without times needs the memory of several devices.
--format csv lists the options of each model, and how its times are estimated."""


def run(how: str) -> None:
    """List the models that come along, as they are without options."""
    records = [_record(name, entry) for name, entry in MODELS.items()]
    text = _grouped(output.render(records, CELLS)) + NOTE
    Answer("models", records, records).show(how, lambda: text)


def _record(name: str, entry: Entry) -> output.Record:
    """A model with its times, or without them if no device holds it."""
    model = entry.estimate
    whole = fits(model)
    elements = round(model.parameters / WIDTHS[model.dtype])
    return {
        "model": name,
        "batch": model.batch if whole else None,
        "device": model.device if whole else None,
        "gradients_B": model.gradients,
        "forward_s": model.forward if whole else None,
        "backward_s": model.backward if whole else None,
        "optimizer_s": model.optimizer if whole else None,
        "activations_B": model.activations if whole else None,
        "options": "; ".join(f"{option}: {meaning}" for option, meaning in entry.options.items()),
        "source": model.source if whole else None,
        "parameters": elements,
        "active_parameters": (
            entry.model.active_parameters if isinstance(entry.model, Shape) else elements
        ),
    }


def _grouped(table: str) -> str:
    """The table with an empty line before each group of models."""
    heading, *rows = table.splitlines()
    groups: dict[str, list[str]] = {}
    for row, entry in zip(rows, MODELS.values(), strict=True):
        groups.setdefault(_group(entry.model), []).append(row)
    return "\n".join(
        [heading, *(line for group, lines in groups.items() for line in ("", f"{group}:", *lines))]
    )


def _group(model: object) -> str:
    if not isinstance(model, Shape) or model.kind == "image":
        return "images"
    return "text, mixture of experts" if model.experts else "text"


def _count(elements: output.Value) -> str:
    number = float(elements or 0)
    return f"{number / 1e9:.4g} G" if number >= 1e9 else f"{number / 1e6:.4g} M"


def _bytes(nbytes: output.Value) -> str:
    return "" if nbytes is None else format_bytes(float(nbytes), binary=False)


def _seconds(seconds: output.Value) -> str:
    return "" if seconds is None else format_seconds(float(seconds))


CELLS: dict[str, output.Cell] = {
    "model": lambda record: str(record["model"]),
    "parameters": lambda record: _count(record["parameters"]),
    "active": lambda record: (
        _count(record["active_parameters"])
        if record["active_parameters"] != record["parameters"]
        else ""
    ),
    "batch": lambda record: str(record["batch"] or ""),
    "device": lambda record: str(record["device"] or ""),
    "forward": lambda record: _seconds(record["forward_s"]),
    "backward": lambda record: _seconds(record["backward_s"]),
    "optimizer": lambda record: _seconds(record["optimizer_s"]),
    "gradients": lambda record: _bytes(record["gradients_B"]),
    "activations": lambda record: _bytes(record["activations_B"]),
}
