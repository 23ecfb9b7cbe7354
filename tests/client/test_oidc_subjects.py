"""Subjects and quotas through the client."""

import pytest

from alacarte.client import ServiceProblem
from tests.client.conftest import ClientOf
from tests.service.deployment import TASK, World, archive


def test_a_subject_is_bound_and_unbound(world: World, client_of: ClientOf) -> None:
    admin, user = client_of("admin"), str(world.add_user())

    bound = admin.bind_subject(user, "248289761001", "https://id.example")

    assert (bound.issuer, bound.subject) == ("https://id.example", "248289761001")
    with pytest.raises(ServiceProblem, match="409"):
        admin.bind_subject("stranger", "248289761001", "https://id.example")
    admin.unbind_subject(user)
    assert next(one for one in admin.users() if one.id == user).subject is None


def test_a_quota_refuses_an_upload_before_its_archive_is_read(world: World, client_of: ClientOf) -> None:
    admin, owner = client_of("admin"), client_of("owner")
    used = owner.quota(owner.me().id).used_bytes
    assert admin.set_quota("owner", used).quota_bytes == used

    def upload(content: bytes) -> int:
        said = {"task": TASK, "name": world.name("source")}
        headers = {"Content-Type": "application/zip"}
        return world.ask("owner", "POST", "/sources", params=said, content=content, headers=headers).status_code

    assert upload(b"no archive at all") == 413
    assert admin.set_quota("owner", None).is_default
    assert upload(b"no archive at all") == 422
    assert upload(archive()) == 202
    assert owner.quota(owner.me().id).used_bytes > used
