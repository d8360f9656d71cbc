"""`simctl strategies`."""

from collections.abc import Callable

from experiments import output
from experiments.training.strategy_options import listed, options_of
from topologies.units import format_bandwidth, format_bytes, format_seconds


def run(how: str) -> None:
    """List every strategy with its options, their defaults and what they are for."""
    records: list[output.Record] = []
    for name, strategy in listed().items():
        for key, field in options_of(strategy).items():
            default, meaning = (
                _written(field.default, field.metadata["unit"]),
                field.metadata["help"],
            )
            records.append(
                {"strategy": name, "option": key, "default": default, "meaning": meaning}
            )
    cells = {
        key: (lambda record, key=key: str(record[key]))
        for key in ("strategy", "option", "default", "meaning")
    }
    output.say(output.render(records, cells, how))


FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "seconds": format_seconds,
    "bandwidth": format_bandwidth,
}


def _written(default: object, unit: str) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float):
        return FORMATS[unit](default) if unit else f"{default:g}"
    return str(default)
