"""XML as elements that know their line, and every mistake in it as one line. Nothing in it expands
or is fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from topologies.errors import InputError, shown
from topologies.readers.contents import check_text

DEEPEST, MOST = 256, 20_000
"""Elements within each other and in a file: PCIe has 256 buses, and a rack of 72 GPUs has 2,500
elements."""


@dataclass(frozen=True, eq=False)
class Element:
    """An XML element."""

    file: str
    """The name of the file."""
    tag: str
    """The tag."""
    line: int
    """The line where it begins."""
    attributes: dict[str, str]
    """The attributes, as the file writes them."""
    children: list[Element] = field(default_factory=list)
    """The elements directly inside, in order."""

    def within(self, tag: str) -> list[Element]:
        """The children with a tag."""
        return [child for child in self.children if child.tag == tag]

    def mistake(self, attribute: str, right: str) -> InputError:
        """The error for an attribute, with the value that would be right."""
        value = self.attributes.get(attribute)
        problem = "is missing" if value is None else f"is {shown(value)}"
        return InputError(
            f"{self.file} line {self.line}: {attribute} of <{self.tag}> {problem}: {right}"
        )

    def text(self, attribute: str, default: str | None = None) -> str:
        """An attribute as text, printable and of at most 80 characters. Raises InputError if it is
        not, or missing."""
        value = self.attributes.get(attribute, default)
        if value is None or len(value) > 80 or not value.isprintable():
            raise self.mistake(attribute, "it is a name of at most 80 characters")
        return value

    def whole(self, attribute: str, low: int, high: int, default: int | None = None) -> int:
        """An attribute as a whole number from `low` to `high`; `default` if it is missing or empty.

        Raises InputError if it is none, or missing without a default.
        """
        value = self.attributes.get(attribute, "")
        if not value and default is not None:
            return default
        if not re.fullmatch(r"-?\d{1,12}", value, re.ASCII) or not low <= int(value) <= high:
            raise self.mistake(attribute, f"it is a whole number from {low} to {high}")
        return int(value)

    def number(self, attribute: str, high: float) -> float:
        """An attribute as a number from 0 to `high`; 0 if it is missing or empty. Raises InputError
        if it is none."""
        try:
            value = float(self.attributes.get(attribute) or 0.0)
        except ValueError:
            value = -1.0
        if not (isfinite(value) and 0 <= value <= high):
            raise self.mistake(attribute, f"it is a number from 0 to {high:g}")
        return value


def parse(text: str, file: str, most: int = MOST) -> Element:
    """The root element of an XML text of at most so many elements. Raises InputError with the line
    if it is not well-formed, or not harmless."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.expatreader import DefusedExpatParser

    text = check_text(text, file)
    skipped = text[: len(text) - len(text.lstrip())].count("\n")
    parser = DefusedExpatParser(forbid_dtd=True)
    reader = _ElementReader(file, skipped, parser, most)
    parser.setContentHandler(reader)
    try:
        parser.feed(text.lstrip())
        parser.close()
    except DefusedXmlException:
        line = skipped + (parser.getLineNumber() or 1)
        raise InputError(
            f"{file} line {line}: a document type or an entity: plain elements are read"
        ) from None
    except SAXParseException as error:
        line = skipped + (error.getLineNumber() or 1)
        raise InputError(
            f"{file} line {line}: {error.getMessage()}: expected well-formed XML"
        ) from None
    except SAXException as error:
        raise InputError(f"{file}: {error.getMessage()}: expected well-formed XML") from None
    return reader.root


class _ElementReader(ContentHandler):
    """Keeps elements as they come."""

    root: Element

    def __init__(self, file: str, skipped: int, locator: Locator, most: int) -> None:
        super().__init__()
        self.most = most
        self.file, self.skipped, self.locator, self.count = file, skipped, locator, 0
        self.open: list[Element] = []

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        line = self.skipped + (self.locator.getLineNumber() or 1)
        element = Element(
            self.file, name if len(name) <= 40 else f"{name[:37]}...", line, dict(attrs.items())
        )
        self.count += 1
        if len(self.open) >= DEEPEST or self.count > self.most:
            what = (
                f"{DEEPEST} elements within each other"
                if self.count <= self.most
                else f"{self.most} elements"
            )
            raise InputError(
                f"{self.file} line {line}: more than {what}: no file of this kind has so many"
            )
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def endElement(self, name: str) -> None:  # noqa: N802
        self.open.pop()
