"""A strict parser of HTML pages."""

from html.parser import HTMLParser
from xml.etree.ElementTree import Element, TreeBuilder

VOID_ELEMENTS = ("meta",)


class _TreeParser(HTMLParser):
    """Builds the tree of a page in which every element is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.builder = TreeBuilder()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"duplicate attribute in {tag}"
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID_ELEMENTS:
            self.builder.end(tag)
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.builder.data(data)


def parse_html(text: str) -> Element:
    """Return the tree of a whole HTML page."""
    parser = _TreeParser()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.builder.close()


def text_of(element: Element) -> str:
    """Return all text within an element, with single spaces."""
    return " ".join("".join(element.itertext()).split())
