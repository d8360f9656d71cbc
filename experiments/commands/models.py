"""`simctl models`."""

from experiments import output
from experiments.models.model_catalogue import MODELS, find
from topologies.units import format_bytes, format_seconds


def run(how: str) -> None:
    """List the models that come along, as they are without options."""
    records: list[output.Record] = []
    for name, entry in MODELS.items():
        model = find(name)
        records.append(
            {
                "model": name,
                "batch": model.batch,
                "device": model.device,
                "gradients_B": model.gradients,
                "forward_s": model.forward,
                "backward_s": model.backward,
                "optimizer_s": model.optimizer,
                "activations_B": model.activations,
                "options": "; ".join(
                    f"{option}: {meaning}" for option, meaning in entry.options.items()
                ),
                "source": model.source,
            }
        )
    output.say(output.render(records, CELLS, how))


CELLS: dict[str, output.Cell] = {
    "model": lambda record: str(record["model"]),
    "batch": lambda record: str(record["batch"]),
    "device": lambda record: str(record["device"]),
    "gradients": lambda record: format_bytes(float(record["gradients_B"] or 0), binary=False),
    "forward": lambda record: format_seconds(float(record["forward_s"] or 0)),
    "backward": lambda record: format_seconds(float(record["backward_s"] or 0)),
    "optimizer": lambda record: format_seconds(float(record["optimizer_s"] or 0)),
    "activations": lambda record: format_bytes(float(record["activations_B"] or 0), binary=False),
    "options": lambda record: ", ".join(
        part.partition(":")[0] for part in str(record["options"]).split("; ")
    ),
    "source": lambda record: str(record["source"]),
}
