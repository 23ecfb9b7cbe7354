"""Which files the console is made of: those named here are served to everybody, and no others are."""

from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = "index.html"
PREFIX = "/console/"  # where the page finds the rest
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PARTS = frozenset(
    {
        "answers.js",
        "api.js",
        "asking.js",
        "confirming.js",
        "dialogs.js",
        "dom.js",
        "erasures.js",
        "forgetting.js",
        "forms.js",
        "grants.js",
        "groups.js",
        "icon.svg",
        "main.js",
        "menu.js",
        "notices.js",
        "parts.css",
        "people.js",
        "polling.js",
        "releases.js",
        "samples.js",
        "session.js",
        "source.js",
        "store.js",
        "style.css",
        "tasks.js",
        "tokens.js",
        "uploading.js",
        "words.js",
    }
)
OPEN_PATHS = frozenset({"/"} | {PREFIX + name for name in PARTS})


def media_type_of(name: str) -> str:
    """What a file of the console is served as."""
    return MEDIA_TYPES[Path(name).suffix]
