"""The application: middleware, routes, and the objects that live from start to stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import Lifespan

from alacarte.prompting.errors import PromptingError
from registry.errors import DomainError
from registry.registry import open_registry
from service.auth.oidc import open_issuer
from service.auth.rate_limit import RateLimiter
from service.auth.token_cache import TokenCache
from service.background.maintenance import ServiceMaintenance
from service.background.readiness import Readiness
from service.background.release_pinner import ReleasePinner
from service.background.replica_sync import InFlightRequests, ReplicaSync
from service.concurrency import ThreadPool, UploadPool
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.engine.settings import EngineSettings, validate_device
from service.http.openapi import ApiApp
from service.http.problems import problem_response
from service.middleware.authentication import AuthenticationMiddleware
from service.middleware.body_limit import BodyLimitMiddleware
from service.middleware.request_lifecycle import RequestLifecycleMiddleware
from service.middleware.route_table import RouteTable
from service.observability.metrics import Metrics
from service.routes import (
    console,
    erasures,
    grants,
    health,
    oip,
    predict,
    prompts,
    releases,
    sources,
    tasks,
    tokens,
    uploads,
    users,
)
from service.settings import ServiceSettings
from service.state import AppState

ROUTES = (predict, tasks, sources, uploads, prompts, erasures, users, tokens, grants, releases, health, oip, console)
DESCRIPTION = """
Every data source is a small prompt on one frozen vision transformer. A request is answered with the prompts of the
sources that its caller may use, and with no others. Forgetting a source removes its prompts at once.

Send `Authorization: Bearer …` with everything but the health checks. Every error is a problem document (RFC 9457).
"""


def create_app(settings: ServiceSettings) -> FastAPI:
    """Return the application; its lifespan opens and closes the registry and the engine.

    Raises EngineSettingsInvalid for a device or weights that cannot be used.
    """
    validate_device(engine_settings(settings))
    metrics = Metrics()
    app = ApiApp(
        title="alacarte",
        version="1",
        description=DESCRIPTION,
        lifespan=_lifespan(settings, metrics),
        middleware=[
            Middleware(RequestLifecycleMiddleware, metrics=metrics),
            Middleware(AuthenticationMiddleware),
            Middleware(BodyLimitMiddleware, settings=settings),
        ],
        docs_url=None,  # FastAPI's page loads scripts from a third party
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    for kind in (HTTPException, RequestValidationError, DomainError, PromptingError):
        app.add_exception_handler(kind, problem_response)
    for module in ROUTES:
        app.include_router(module.router)
    # `app.routes` does not expand the included routers.
    app.state.route_table = RouteTable([*app.routes, *(route for module in ROUTES for route in module.router.routes)])
    return app


def _lifespan(settings: ServiceSettings, metrics: Metrics) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        thread_pool = ThreadPool(settings.threads)
        registry = await thread_pool.run(lambda: open_registry(settings))
        for_engine = engine_settings(settings)
        backbones = BackboneCache(for_engine)
        async with Engine(
            backbones,
            lambda prompt: registry.objects.read(prompt.key, prompt.digest),
            for_engine,
            metrics.observe_batch,
        ) as engine:
            metrics.watch_engine(engine.stats)
            in_flight = InFlightRequests()
            replica_sync = ReplicaSync(registry.database, engine, in_flight)
            maintenance = ServiceMaintenance(registry, replica_sync, metrics)
            app.state.service = AppState(
                settings=settings,
                registry=registry,
                oidc_issuer=open_issuer(settings),
                token_cache=TokenCache(),
                rate_limiter=RateLimiter(settings.rate_per_s, settings.rate_burst),
                thread_pool=thread_pool,
                upload_pool=UploadPool(settings.max_uploads),
                backbones=backbones,
                engine=engine,
                in_flight=in_flight,
                replica_sync=replica_sync,
                maintenance=maintenance,
                readiness=Readiness(registry, replica_sync, engine),
                metrics=metrics,
            )
            await replica_sync.poll()
            async with anyio.create_task_group() as group:
                group.start_soon(replica_sync.run)
                group.start_soon(maintenance.run)
                group.start_soon(ReleasePinner(registry.database, engine, settings.pinned_release_names).run)
                yield
                group.cancel_scope.cancel()
            await replica_sync.leave()
        registry.database.close()

    return lifespan


def engine_settings(settings: ServiceSettings) -> EngineSettings:
    """Return the engine's part of the settings."""
    weights = settings.weights
    same = {field.name: getattr(settings, field.name) for field in fields(EngineSettings) if field.name != "weights"}
    return EngineSettings(
        weights="random" if weights == "random" else None if weights is None else Path(weights), **same
    )


def _operation_id(route: APIRoute) -> str:
    """Return the operation id, which generated clients use as a function name."""
    return f"{route.tags[0]}-{route.name}".replace(" ", "-").replace("_", "-") if route.tags else route.name
