"""The objects that live as long as the service, as middleware and routes use them."""

from dataclasses import dataclass

from starlette.types import Scope

from registry.registry import Registry
from service.auth.oidc import OidcIssuer
from service.auth.rate_limit import RateLimiter
from service.auth.token_cache import TokenCache
from service.background.maintenance import ServiceMaintenance
from service.background.readiness import Readiness
from service.background.replica_sync import InFlightRequests, ReplicaSync
from service.concurrency import ThreadPool, UploadPool
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.observability.metrics import Metrics
from service.settings import ServiceSettings


@dataclass(frozen=True)
class AppState:
    """Made when the application starts, closed when it stops."""

    settings: ServiceSettings
    registry: Registry
    oidc_issuer: OidcIssuer | None
    token_cache: TokenCache
    rate_limiter: RateLimiter
    thread_pool: ThreadPool  # for work on the registry
    upload_pool: UploadPool
    backbones: BackboneCache
    engine: Engine
    in_flight: InFlightRequests
    replica_sync: ReplicaSync
    maintenance: ServiceMaintenance
    readiness: Readiness
    metrics: Metrics


def app_state(scope: Scope) -> AppState:
    """Return the state of the application that serves the request."""
    state = scope["app"].state.service
    assert isinstance(state, AppState)
    return state
