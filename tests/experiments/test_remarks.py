"""Remarks wait for an answer, and for no longer than a command."""

from contextlib import suppress

import pytest

from experiments import remarks
from topologies.errors import InputError


def test_remarks_stand_in_front_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with remarks.held():
        remarks.remark("first")
        assert capsys.readouterr().err == ""
        remarks.release()
        remarks.remark("second")
        assert capsys.readouterr().err == "first\nsecond\n"


def test_a_command_without_an_answer_says_its_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    with remarks.held():
        remarks.remark("first")
    assert capsys.readouterr().err == "first\n"


def test_a_mistake_drops_remarks_and_holds_no_further_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with suppress(InputError), remarks.held():
        remarks.remark("first")
        raise InputError("a mistake")
    remarks.remark("second")
    assert capsys.readouterr().err == "second\n"
