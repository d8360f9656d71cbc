"""`simctl strategies`."""

from experiments import output
from experiments.commands.answer import Answer
from experiments.option_text import options_of
from experiments.templates import cells_of
from experiments.training.strategy_options import default_text
from simulator.training import strategies


def run(how: str) -> None:
    """List every strategy with its options, their defaults and what they are for."""
    records: list[output.Record] = []
    for name, strategy in strategies().items():
        for key, field in options_of(strategy).items():
            default, meaning = default_text(field), field.metadata["help"]
            records.append(
                {"strategy": name, "option": key, "default": default, "meaning": meaning}
            )
    cells = cells_of({key: f"{{{key}}}" for key in records[0]}, records[0])
    Answer("strategies", records, records).show(how, lambda: output.render(records, cells))
