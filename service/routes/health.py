"""`/healthz`, `/readyz`, `/metrics`: whether the process lives, whether it can answer, and how it has been doing."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from alacarte.api.base import ResponseModel
from registry.access.caller import require_admin
from service.http.openapi import problems
from service.http.request_context import Context
from service.state import app_state

router = APIRouter(tags=["health"])


class Health(ResponseModel):
    """How it is."""

    status: str


@router.get("/healthz", summary="Whether the process lives")
async def live() -> Health:
    """Answers as long as the process does; needs no token."""
    return Health(status="alive")


@router.get("/readyz", summary="Whether requests can be answered")
async def ready(request: Request) -> Health:
    """Whether database and object store can be reached and this replica has its place; needs no token."""
    await app_state(request.scope).readiness.require()
    return Health(status="ready")


@router.get(
    "/metrics",
    summary="Measurements for Prometheus",
    response_class=Response,
    responses={**problems(403), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(context: Context) -> Response:
    """All that this replica has counted, for admins."""
    await context.read(lambda _, caller: require_admin(caller))
    return Response(generate_latest(context.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
