"""Pages and paths taken apart, as strictly as a reader may."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, TreeBuilder

VOID = ("meta",)
ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "h": 1, "v": 1, "a": 7, "z": 0}


class _Page(HTMLParser):
    """Builds the tree of a page in which every element is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.builder = TreeBuilder()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute stands twice in {tag}"
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID:
            self.builder.end(tag)
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.builder.data(data)


def tree_of(text: str) -> Element:
    """The tree of a whole HTML page."""
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page.builder.close()


def text_of(element: Element) -> str:
    """All text within an element."""
    return "".join(element.itertext())


def places_of(path: str) -> Iterator[tuple[float, float]]:
    """Every place to which a path's commands lead; only the commands that we draw with are known."""
    x = y = 0.0
    for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        numbers = [float(number) for number in re.findall(r"-?[0-9.]+", rest)]
        assert len(numbers) == ARGUMENTS[command], f"{command}{rest} in {path}"
        match command:
            case "M" | "L":
                x, y = numbers
            case "H":
                x = numbers[0]
            case "V":
                y = numbers[0]
            case "h":
                x += numbers[0]
            case "v":
                y += numbers[0]
            case "a":
                x, y = x + numbers[5], y + numbers[6]
        yield x, y
