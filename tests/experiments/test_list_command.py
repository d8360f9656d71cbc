"""`simctl list models`."""

import json
from typing import cast

import pytest

from csv_texts import rows_of
from experiments.commands.list import List
from experiments.models.model_catalogue import MODELS
from experiments.options.options import Format


def printed(how: str, capsys: pytest.CaptureFixture[str]) -> str:
    List(what="models", format=cast(Format, how)).run()
    return capsys.readouterr().out


def test_the_table_has_groups(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("table", capsys).splitlines()
    groups = ["images:", "text:", "text, mixture of experts:"]
    assert [line for line in lines if line in groups] == groups
    assert lines[lines.index(groups[0]) + 3].split()[0] == "vit_l16"
    assert {line.split()[0] for line in lines if line} >= set(MODELS)


def test_a_model_that_no_device_holds_has_its_parameters_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {row["model"]: row for row in rows_of(printed("csv", capsys))}
    large, small = rows["mixtral_8x7b"], rows["gpt2"]
    assert (large["parameters"], large["active_parameters"]) == ("46702792704", "12879925248")
    assert large["forward_s"] == large["batch"] == large["source"] == ""
    assert small["parameters"] == small["active_parameters"] == "124439808"
    assert float(small["forward_s"]) > 0


def test_json_has_the_same_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["model"] for row in json.loads(printed("json", capsys))] == list(MODELS)
