"""The console's files: the page, its scripts, style sheets and icon. All of them are public."""

from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = "index.html"
PREFIX = "/console/"  # of the URLs of all other files
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ASSETS = frozenset(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*")
    if path.suffix in MEDIA_TYPES and path.name != PAGE
)
CONSOLE_PATHS = frozenset({"/"} | {PREFIX + name for name in ASSETS})


def media_type(name: str) -> str:
    """Return the Content-Type of a file of the console."""
    return MEDIA_TYPES[Path(name).suffix]
