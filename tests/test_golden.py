"""Results of commands as they were when they were stored: strategies, conditions, plans, groups,
traces, learning. A change of a rule stores them anew, in a commit that says what moved."""

import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from golden_results import differences, files_of, squeezed
from simctl_process import Simctl

GOLDEN = Path(__file__).parent / "golden"
COMMANDS: dict[str, Any] = tomllib.loads((GOLDEN / "commands.toml").read_text())
TOLERANCES = {"priced": 1e-12, "fair": 1e-9, "fits": 1e-6}
IS_UPDATE = bool(os.environ.get("SIMCTL_UPDATE_GOLDEN"))
KEYS = [(table, key) for table, commands in COMMANDS.items() for key in commands]


def answers(command: str, simctl: Simctl, out: Path) -> dict[str, Any]:
    """What commands print as JSON, and the files that they write."""
    text = command.replace("{out}", str(out)).replace("{golden}", str(GOLDEN))
    printed = []
    for each in text.split(" ; "):
        done = simctl(*shlex.split(each, posix=False), "--format", "json")
        assert done.returncode in (0, 1), done.stderr
        printed.append(squeezed(json.loads(done.stdout)))
    return {"printed": printed, "files": files_of(out)}


def stored(table: str) -> dict[str, Any]:
    path = GOLDEN / f"{table}.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return results


@pytest.mark.parametrize(("table", "key"), KEYS, ids=[key for _, key in KEYS])
def test_results_are_as_stored(table: str, key: str, simctl: Simctl, tmp_path: Path) -> None:
    found = answers(COMMANDS[table][key], simctl, tmp_path)
    # Through text, so that infinite and rounded numbers are those of the file.
    found = json.loads(json.dumps(found).replace(str(tmp_path), "OUT"))
    kept = stored(table)
    changes = sorted(differences(kept.get(key), found, TOLERANCES[table]), reverse=True)
    if IS_UPDATE:
        kept[key] = found
        lines = [f"{json.dumps(each)}: {json.dumps(kept[each])}" for each in sorted(kept)]
        (GOLDEN / f"{table}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        pytest.skip(f"stored; the largest change: {changes[:1] or 'none'}")
    assert not changes, "\n".join(words for _, words in changes[:10])


def test_each_stored_result_has_a_command() -> None:
    for table, commands in COMMANDS.items():
        assert stored(table).keys() == commands.keys()
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 3e6
