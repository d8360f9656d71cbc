"""The uncertainty of a profile in its file: what is refused, in one line with its place."""

from experiments.profiles import parse
from experiments.profiles.profile_document import dumps
from grouped_cases import each_case
from refusals import refusal
from sure_profile import SURE

MISTAKES = [
    ("noise: 0.1,", "", "line 9, uncertainty.rules.noise: is missing"),
    ("noise: 0.1", "noise: -1", "uncertainty.rules.noise: -1: 0 or more"),
    ("noise: 0.1", "noise: .nan", "uncertainty.rules.noise: "),
    ("size: 8,", "size: 0,", "uncertainty.rules.size: 0: 1 or more"),
    ("noise: 0.1", "nois: 0.1", "uncertainty.rules."),
    ("8, 8, 1024, 0.1]", "8, 8, 1024]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "8, 8, -1, 0.1]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "8, 8, 1024, .inf]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "0, 8, 1024, 0.1]", "uncertainty.seen[0]"),
    ("{10: 0.5}", "{10: 1.5}", "uncertainty.seen[1]"),
    ("{10: 0.5}", "{48: 0.5}", "uncertainty.seen[1]"),
    ("{10: 0.5}", "{10: 0.9, 11: 0.9}", "uncertainty.seen[1]: shares of messages are 1 at most"),
    ("    launch: [", "    lunch: [", "uncertainty.moved.lunch: the profile has no number there"),
    ("[6.0e-06, 5.0e-06]", "[6.0e-06]", "2 values, and the first has 1: as many are needed"),
    ("[6.0e-06, 5.0e-06]", "[-1, 5.0e-06]", "uncertainty.moved.launch: -1.0: 0 or more"),
    ("[6.0e-06, 5.0e-06]", "3", "uncertainty.moved.launch: 3 is not a list"),
]


def test_it_is_written_as_it_was_read() -> None:
    profile = parse(SURE, "mine.yaml")
    assert parse(dumps(profile), "again.yaml") == profile
    sure = profile.simulated().uncertainty
    assert sure is not None
    assert [variant.launch for variant in sure.variants] == [6e-6, 5e-6]
    assert sure.residuals.values.tolist() == [0.1, -0.1]
    messages = sure.residuals.seen.messages
    assert (messages[1, 10], messages.sum()) == (0.5, 0.5)


def test_an_old_file_has_none() -> None:
    old = parse(SURE[: SURE.index("uncertainty:")], "old.yaml")
    assert old.simulated().uncertainty is None


@each_case(("right", "wrong", "message"), MISTAKES)
def test_what_is_wrong_is_named_in_one_line(right: str, wrong: str, message: str) -> None:
    assert right in SURE
    text = SURE.replace(right, wrong)
    assert message in refusal(lambda: parse(text, "mine.yaml").simulated())
