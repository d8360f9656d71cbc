"""What the checks of a simulated point say."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """What the checks of one simulated point say. Tables and files show it as text."""

    failures: tuple[str, ...] = ()
    """The checks that failed: something is wrong with simctl, not with the machine."""
    assumption: str = ""
    """The assumption of the formula that the machine or the rules break; empty if it holds."""

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return bool(self.failures)

    @property
    def claimed(self) -> bool:
        """Whether the time had to equal the formula."""
        return not self.assumption

    @property
    def word(self) -> str:
        """The verdict without its reasons."""
        return "FAIL" if self.failed else "ok" if self.claimed else "not claimed"

    @property
    def reason(self) -> str:
        """The checks that failed, or the assumption that does not hold."""
        return ", ".join(self.failures) or self.assumption

    def __str__(self) -> str:
        """The text of tables and files.

        >>> str(Verdict()), str(Verdict(("time", "steps")))
        ('ok', 'FAIL: time, steps')
        >>> str(Verdict(assumption="routes differ"))
        'not claimed: routes differ'
        """
        return f"{self.word}: {self.reason}" if self.reason else self.word
