"""The branches of `if` and `case` in a shell script: which run, as far as its variables say."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    f"-{name}": getattr(operator, name) for name in ("eq", "ne", "gt", "ge", "lt", "le")
}
_LONGEST = 100
"""Words of the longest condition that is read."""


class Branches:
    """The branches around a word of a script."""

    def __init__(self) -> None:
        # Of each `if` and `case`: whether the branch runs, and whether it or one before it does.
        # None: what the variables are does not say.
        self._runs, self._before = list[bool | None](), list[bool | None]()
        # The words of the condition that is read, those in front of its end, and what a `case`
        # compares.
        self._words: list[str] | None = None
        self._end, self._cases = "", list[str]()

    @property
    def runs(self) -> bool | None:
        """Whether what is here runs; None if that is unknown."""
        return _both(self._runs)

    def read(self, word: str, begins: bool) -> bool:
        """Whether a word, which may begin a command, is one of `if` or `case` and no command."""
        if self._words is not None:
            if (word == self._end and begins) or (word == ")" == self._end):
                self._enter(self._truth(self._words))
            elif word == "esac":
                self._leave()
            else:
                self._words.append(word)
                if len(self._words) > _LONGEST:
                    self._enter(None)
            return True
        if word == ";;" and self._runs:
            self._words, self._end = [], ")"
        elif not begins or word not in ("if", "elif", "else", "fi", "case", "esac"):
            return False
        elif word in ("if", "case"):
            self._runs.append(None)
            self._before.append(False)
            self._words, self._end = [], "then" if word == "if" else ")"
            self._cases.append("")
        elif word in ("fi", "esac"):
            self._leave()
        elif self._runs:
            self._words, self._end = [], "then"
            if word == "else":
                self._enter(True)
        return True

    def _enter(self, truth: bool | None) -> None:
        before = self._before[-1]
        self._runs[-1] = _both([truth, None if before is None else not before])
        self._before[-1] = _either([truth, before])
        self._words = None

    def _leave(self) -> None:
        self._words = None
        for stack in (self._runs, self._before, self._cases):
            del stack[-1:]

    def _truth(self, words: Sequence[str]) -> bool | None:
        if self._end == "then":
            return _truth(words)
        if "in" in words[1:2]:
            self._cases[-1], words = words[0], words[2:]
        patterns = [word for word in words if word not in ("|", "\n", "(")]
        if not self._cases[-1] or "$" in "".join([self._cases[-1], *patterns]):
            return None
        return any(fnmatchcase(self._cases[-1], pattern) for pattern in patterns)


def _both(truths: Sequence[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def _either(truths: Sequence[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def _truth(words: Sequence[str]) -> bool | None:
    """Whether tests with || and && between them hold."""
    text = "\0".join(word for word in words if word not in ("\n", ";"))
    first, *others = re.split("\0(\\|\0\\||&\0&)\0", text)
    truth = _holds(first.split("\0"))
    for sign, test in zip(others[::2], others[1::2], strict=True):
        join = _either if "|" in sign else _both
        truth = join([truth, _holds(test.split("\0"))])
    return truth


def _holds(test: Sequence[str]) -> bool | None:
    """Whether a test like [ "$A" = b ] holds, if it compares texts or numbers that are known."""
    if test[:1] not in (["["], ["[["]) or "$" in "".join(test) or len(test) not in (4, 5):
        return None
    *left, sign, right = test[1:-1]
    if not left:
        return {"-z": not right, "-n": bool(right)}.get(sign)
    if sign in _NUMBERS and all(re.fullmatch(r"-?\d{1,9}", each) for each in (*left, right)):
        return _NUMBERS[sign](int(left[0]), int(right))
    is_pattern = test[0] == "[[" and re.search(r"[*?\[]", right)
    if sign not in ("=", "==", "!=") or is_pattern:
        return None
    return (left[0] == right) == (sign != "!=")
