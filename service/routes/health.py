"""`/healthz`, `/readyz` and `/metrics`."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from alacarte.api.base import ResponseModel
from registry.access.caller import require_admin
from service.http.openapi import problems
from service.http.request_context import Context
from service.state import app_state

router = APIRouter(tags=["health"])


class HealthResponse(ResponseModel):
    """The state of the process."""

    status: str


@router.get("/healthz", summary="Check that the process is alive")
async def live() -> HealthResponse:
    """Succeed while the process is running. Needs no token."""
    return HealthResponse(status="alive")


@router.get("/readyz", summary="Check that the service is ready")
async def ready(request: Request) -> HealthResponse:
    """Succeed if database and object store are reachable and this replica is registered. Needs no token."""
    await app_state(request.scope).readiness.require()
    return HealthResponse(status="ready")


@router.get(
    "/metrics",
    summary="Get metrics for Prometheus",
    response_class=Response,
    responses={**problems(403), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(context: Context) -> Response:
    """Return the metrics of this replica. Admins only."""
    await context.read(lambda _, caller: require_admin(caller))
    return Response(generate_latest(context.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
