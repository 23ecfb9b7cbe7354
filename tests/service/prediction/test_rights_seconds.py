"""How long rights take to read is measured, at both looks of a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.service.deployment import Deployment


def test_every_prediction_is_seen_to_read_its_rights_twice(deployment: Deployment) -> None:
    from tests.service.deployment import picture

    for number in range(3):
        assert deployment.request("user", "POST", "/predict", files={"image": picture(number)}).status_code == 200
    lines = deployment.request("admin", "GET", "/metrics").text.splitlines()

    assert 'alacarte_rights_seconds_count{phase="initial"} 3.0' in lines
    assert 'alacarte_rights_seconds_count{phase="recheck"} 3.0' in lines
