"""The branches of `if`, `case`, && and || in a shell script: which run, as far as its variables
say."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    f"-{name}": getattr(operator, name) for name in ("eq", "ne", "gt", "ge", "lt", "le")
}
END = " "
"""The mark behind a text of several arguments."""
_LONGEST = 100
"""Words of the longest condition that is read."""
_SUCCEEDS = re.compile(r"\w+\+?=.*|--.*|export|echo|true|:", re.DOTALL)
"""The first word of a command that succeeds: an assignment, or arguments that were its text."""
_ASKS = re.compile(r"\[\[?|[({!]|if|case|while|until|test|false|grep|command|which|type")
"""The first word of a command whose failure is an answer. If others fail, nothing is trained."""


class _Chain:
    """Commands with && and || between them, one of which is read."""

    def __init__(self, opener: str) -> None:
        self.opener = opener
        """What begins the group of these commands: ( or {, or `if` for a branch."""
        self._begin()

    def _begin(self) -> None:
        # Whether the command runs; None if that is unknown.
        self.runs: bool | None = True
        # Whether the commands before it succeeded, the sign behind them, and its own words.
        self._success: bool | None = True
        self._sign, self._words = "&&", list[str]()

    def read(self, text: str, is_word: bool) -> None:
        """Read a word of the command, or a mark between words."""
        is_test = self._words[:1] == ["[["] and "]]" not in self._words and text != "\n"
        if is_word or is_test or text == "(":
            if len(self._words) <= _LONGEST and (self._words or text != "do"):
                self._words.append(text)
        elif text in ("&&", "||"):
            join = _both if self._sign == "&&" else _either
            self._success = join([self._success, self._succeeds(text)])
            self.runs = self._success if text == "&&" else _opposite(self._success)
            self._sign, self._words = text, []
        elif text == "|":
            self._words = []
        elif text in (";", "&") or (text == "\n" and self._words):
            self._begin()

    def _succeeds(self, sign: str) -> bool | None:
        """Whether the command succeeds, which a sign follows."""
        first = self._words[0] if self._words else "("
        if _ASKS.fullmatch(first):
            return _holds(self._words)
        return True if sign == "&&" or _SUCCEEDS.fullmatch(first) else None


class Branches:
    """The branches around a word of a script."""

    def __init__(self) -> None:
        # Those of && and ||, from the outermost group of commands to the innermost.
        self._chains = [_Chain("")]
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
        return _both([*self._runs, *(chain.runs for chain in self._chains)])

    @property
    def depth(self) -> int:
        """How many groups and branches are around what is here."""
        return max(len(self._chains) - 1, len(self._runs))

    def follow(self, text: str, is_word: bool) -> None:
        """Read a word of a command, or a mark between words, that is none of `if` or `case`."""
        self._chains[-1].read(text, is_word)
        if text in ("(", "{") and is_word == (text == "{"):
            self._chains.append(_Chain(text))
        elif text in (")", "}"):
            self._close("(" if text == ")" else "{")

    def _close(self, opener: str) -> None:
        """Leave the innermost group with an opener, and those in it."""
        openers = [chain.opener for chain in self._chains]
        if opener in openers:
            place = len(openers) - 1 - openers[::-1].index(opener)
            del self._chains[place:]

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
            self._chains[-1].read(word, is_word=True)
            self._chains.append(_Chain("if"))
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
        self._close("if")
        self._chains.append(_Chain("if"))
        before = self._before[-1]
        self._runs[-1] = _both([truth, _opposite(before)])
        self._before[-1] = _either([truth, before])
        self._words = None

    def _leave(self) -> None:
        self._close("if")
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


def _opposite(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _truth(words: Sequence[str]) -> bool | None:
    """Whether tests with || and && between them hold."""
    text = "\0".join(word for word in words if word not in ("\n", ";", END))
    first, *others = re.split("\0(\\|\\||&&)\0", text)
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
