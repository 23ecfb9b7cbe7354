"""What a running service consists of, as routes and layers find it."""

from dataclasses import dataclass

from starlette.types import Scope

from registry.registry import Registry
from service.auth.authenticator import Authenticator
from service.auth.rate_limit import RateLimiter
from service.auth.token_cache import TokenCache
from service.background.in_flight import InFlightRequests
from service.background.maintenance import ServiceMaintenance
from service.background.readiness import Readiness
from service.background.replica_sync import ReplicaSync
from service.concurrency import ThreadPool, UserLimiter
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.observability.metrics import Metrics
from service.settings import ServiceSettings


@dataclass(frozen=True)
class AppState:
    """The parts, made at the start and taken down at the end."""

    settings: ServiceSettings
    registry: Registry
    authenticator: Authenticator
    token_cache: TokenCache
    rate_limiter: RateLimiter
    thread_pool: ThreadPool  # to the registry
    upload_pool: ThreadPool  # for whole uploads, which take their time
    upload_limiter: UserLimiter
    backbones: BackboneCache
    engine: Engine
    in_flight: InFlightRequests
    replica_sync: ReplicaSync
    maintenance: ServiceMaintenance
    readiness: Readiness
    metrics: Metrics


def app_state(scope: Scope) -> AppState:
    """The service that the request came to."""
    service = scope["app"].state.service
    assert isinstance(service, AppState)
    return service
