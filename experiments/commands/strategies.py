"""`simctl strategies`."""

from experiments import output
from experiments.training.strategies import listed, options_of


def run(how: str) -> None:
    """List every strategy with its options, their defaults and what they are for."""
    records: list[output.Record] = [
        {"strategy": name, "option": key, "default": _written(field.default), "meaning": field.metadata["help"]}
        for name, strategy in listed().items()
        for key, field in options_of(strategy).items()
    ]
    cells = {key: (lambda record, key=key: str(record[key])) for key in ("strategy", "option", "default", "meaning")}
    output.say(output.render(records, cells, how))


def _written(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)
