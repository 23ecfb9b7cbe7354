"""A real browser, and a tab of the console that must end without errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.servers.chromium import launch_chromium
from tests.service.console.browser import ConsoleTab
from tests.service.deployment import Deployment


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with launch_chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """An empty browser profile."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext, deployment: Deployment) -> Iterator[ConsoleTab]:
    """A tab; at the end there was no script error, no policy violation and no dialog opened by a script."""
    tab = ConsoleTab(context, deployment)
    yield tab
    assert tab.errors == []
