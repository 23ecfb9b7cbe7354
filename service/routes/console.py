"""`/`: the console, a page that asks this service as everybody else does, with the token that its reader gives it."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse

from registry.errors import NotFound
from service.console.files import FOLDER, PAGE, PARTS, PREFIX, media_type_of

router = APIRouter(tags=["console"], include_in_schema=False)

# Nothing from elsewhere, nothing inline: a name that a stranger chose can never become a script.
POLICY = "; ".join(
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
    """The page; it needs no token, and shows nothing without one."""
    return FileResponse(FOLDER / PAGE, media_type=media_type_of(PAGE), headers={"content-security-policy": POLICY})


@router.get(PREFIX + "{name}", summary="A part of the console")
async def part(name: Annotated[str, Path(description="The file's name.")]) -> FileResponse:
    """A script, a style sheet or the icon of the page."""
    if name not in PARTS:
        raise NotFound("file", name)
    return FileResponse(FOLDER / name, media_type=media_type_of(name))
