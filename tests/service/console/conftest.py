"""A real browser, and a tab of the console that must end without errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.servers.chromium import launch_chromium
from tests.service.console.browser import ConsoleTab
from tests.service.deployment import Deployment


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_chromium() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser, deployment: Deployment) -> Iterator[ConsoleTab]:
    """A tab in an empty profile; at the end there was no script error, policy violation or dialog of a script."""
    with browser.new_context() as context:
        tab = ConsoleTab(context, deployment)
        yield tab
    assert tab.errors == []
