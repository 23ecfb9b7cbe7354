"""What a running service consists of, as routes and layers find it."""

from dataclasses import dataclass

from starlette.types import Scope

from registry.registry import Registry
from service.auth.authenticator import Prover
from service.auth.rate_limit import Rates
from service.auth.token_cache import Gate
from service.background.in_flight import Flights
from service.background.maintenance import Housekeeping
from service.background.readiness import Readiness
from service.background.replica_sync import ReplicaKeeper
from service.concurrency import Door, Places
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.observability.metrics import Metrics
from service.settings import ServiceSettings


@dataclass(frozen=True)
class Service:
    """The parts, made at the start and taken down at the end."""

    settings: ServiceSettings
    registry: Registry
    prover: Prover
    gate: Gate
    rates: Rates
    door: Door  # to the registry
    uploading: Door  # for whole uploads, which take their time
    upload_places: Places
    backbones: BackboneCache
    engine: Engine
    flights: Flights
    keeper: ReplicaKeeper
    housekeeping: Housekeeping
    readiness: Readiness
    metrics: Metrics


def service_of(scope: Scope) -> Service:
    """The service that the request came to."""
    service = scope["app"].state.service
    assert isinstance(service, Service)
    return service
