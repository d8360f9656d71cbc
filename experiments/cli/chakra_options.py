"""The options of `simctl run --chakra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.commands import run_chakra
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.values import parse_algorithms
from experiments.output import RunFiles
from topologies.errors import InputError


@dataclass(frozen=True)
class ChakraOptions:
    """What the user writes of a workload."""

    folder: Path
    algorithms: str | None
    unused: Mapping[str, object]
    """Options that a workload does not take; None where the user leaves them out."""

    def run(self, machine: MachineOptions, rules: RuleOptions, files: RunFiles, how: str) -> int:
        """Simulate it; the exit code. Raises InputError for what a workload does not take."""
        for name, value in self.unused.items():
            if value is not None:
                raise InputError(f"--chakra and --{name} {str(value)[:40]}: leave one of them out")
        chosen = [] if self.algorithms is None else parse_algorithms(self.algorithms)
        parameters = {"chakra": str(self.folder), "algo": self.algorithms}
        request = run_chakra.Request(
            self.folder,
            chosen,
            replace(machine.blueprint, force=rules.force),
            rules.rules,
            {**machine.machine_parameters, **rules.rule_parameters, **parameters},
        )
        return run_chakra.run(request, files, how)
