"""What a running service consists of, as routes and layers find it."""

from dataclasses import dataclass

from starlette.types import Scope

from registry.registry import Registry
from service.door import Door
from service.engine.backbones import Backbones
from service.engine.engine import Engine
from service.flights import Flights
from service.gate import Gate
from service.housekeeping import Housekeeping
from service.metrics import Metrics
from service.places import Places
from service.proving.prover import Prover
from service.rates import Rates
from service.readiness import Readiness
from service.replica import ReplicaKeeper
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
    backbones: Backbones
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
