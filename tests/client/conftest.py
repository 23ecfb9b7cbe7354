"""A running deployment, and a client of it for each kind of person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from alacarte.client import Client
from tests.service.conftest import deployment, make_deployment  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from tests.service.deployment import Deployment

ClientOf = Callable[[str], Client]


@pytest.fixture
def client_of(deployment: Deployment) -> Iterator[ClientOf]:  # noqa: F811  # the fixture
    """Clients by whose token they have."""
    with ExitStack() as stack:
        yield lambda who: stack.enter_context(Client(deployment.url, deployment.tokens[who]))
