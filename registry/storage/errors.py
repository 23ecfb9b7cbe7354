"""What can be wrong with a stored object or its store; no message carries credentials or a path of the machine."""

from registry.errors import DomainError


class ObjectMissing(DomainError):
    """The registry knows an object that its store does not hold."""

    status = 500

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{store} does not hold {key}, which the registry knows: restore it from a backup")


class ObjectDamaged(DomainError):
    """The bytes under a key are not those that were put there."""

    status = 500

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{key} in {store} is not what was put there: restore it from a backup")


class ObjectExists(DomainError):
    """A key holds other bytes already, and they were left as they are."""

    status = 409

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{key} in {store} holds other bytes already: an object is never overwritten")


class StoreUnreachable(DomainError):
    """The store does not answer, refuses, or has no room; the message says what to do."""

    status = 503
