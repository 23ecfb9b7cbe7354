"""`/`: the console, a web page that uses the API with the token of the person who signs in."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse

from registry.errors import NotFound
from service.console.files import ASSETS, FOLDER, PAGE, PREFIX, media_type

router = APIRouter(tags=["console"], include_in_schema=False)

# Nothing from other hosts and nothing inline: a name that a stranger chose can never run as a script.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@router.get("/", summary="The console")
async def page() -> FileResponse:
    """Return the page; it needs no token, and shows nothing without one."""
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
    return FileResponse(FOLDER / PAGE, media_type=media_type(PAGE), headers=headers)


@router.get(PREFIX + "{name:path}", summary="A file of the console")
async def asset(name: Annotated[str, Path(description="The file's path.")]) -> FileResponse:
    """Return a script, a style sheet or the icon of the page."""
    if name not in ASSETS:
        raise NotFound("file", name)
    return FileResponse(FOLDER / name, media_type=media_type(name))
