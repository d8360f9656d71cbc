"""The glossary says what the tables say, in two languages."""

import re
from pathlib import Path

from experiments.terms import TERMS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]
MEANINGS = {row[0]: row[1] for row in ROWS}


def test_the_words_of_tables_have_the_meaning_of_the_footnotes() -> None:
    words = {word: meaning for word, meaning in TERMS.items() if not word.startswith("--")}
    assert {word: MEANINGS.get(word) for word in words} == words


def test_every_word_has_a_meaning_in_english_and_in_chinese() -> None:
    assert len(MEANINGS) == len(ROWS) > 50
    for row in ROWS:
        assert len(row) == 4, row
        assert all(re.search(r"[\u4e00-\u9fff]", cell) for cell in row[2:]), row
        assert not any(re.search(r"[\u4e00-\u9fff]", cell) for cell in row[:2]), row
