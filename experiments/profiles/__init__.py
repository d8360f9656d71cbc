"""Measured machines as profiles: those that are shipped, by name, and those in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from topologies.errors import InputError, did_you_mean
from topologies.readers.contents import LIMIT, check_text, contents, decoded

if TYPE_CHECKING:
    from experiments.profiles.profile_document import Calibrated

ENDINGS = (".yaml", ".yml")


def names() -> list[str]:
    """The profiles that are shipped."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def is_profile(name: str) -> bool:
    """Whether a file's name is that of a profile."""
    return name.endswith(ENDINGS)


def find(text: str) -> Calibrated:
    """The profile of a name, or in a file. Raises InputError for what is neither, or is no
    profile."""
    if text in names():
        return read(Path(__file__).with_name(f"{text}.yaml"))
    if is_profile(text) or _is_file(text):
        return read(Path(text))
    hint = did_you_mean(text, names())
    raise InputError(
        f"{text[:80]!r} is no profile and no .yaml file: {hint}there are {', '.join(names())}"
    )


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file() or Path(text).is_fifo()
    except OSError as error:
        raise InputError(f"cannot read {text[:80]!r}: {error.strerror}") from None


def read(path: Path) -> Calibrated:
    """The profile in a file. Raises InputError, in one line that names file and place, for what is
    none."""
    larger = f"{path.name} has more than {LIMIT} bytes: no profile is larger"
    return parse(decoded(contents(path, LIMIT, larger), path.name), path.name)


def parse(text: str, name: str) -> Calibrated:
    """The profile in the text of the YAML file `name`. Raises InputError as :func:`read` does."""
    from experiments.profiles.profile_document import calibrated
    from topologies.readers.plain_files import load_yaml, place_in

    content = load_yaml(check_text(text, name), name)
    return calibrated(content, place_in(text, name))


def write(profile: Calibrated, path: Path) -> None:
    """Write a profile, all of it or nothing. Raises InputError if that is not possible."""
    from experiments.profiles.profile_document import dumps

    output.write(path, dumps(profile))
