"""Tasks, users, tokens, grants, quotas and releases through the client."""

import pytest

from alacarte.client import Client, ServiceProblem
from tests.client.conftest import ClientOf
from tests.service.deployment import TASK, Deployment, archive, picture


def test_a_user_gets_a_token_and_a_grant_and_loses_them(deployment: Deployment, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), deployment.new_name("user")
    source = deployment.add_source()
    deployment.publish(source)

    user = admin.create_user(name)
    issued = admin.create_token(name, note="the scanner", lifetime_s=60)
    grant = admin.create_grant(name, source)

    assert issued.text not in repr(issued)
    assert (grant.user_id, grant.source_id, grant.right) == (user.id, source, "use")
    with Client(deployment.url, f"{issued.text}\n") as client:
        assert client.get_current_user() == user
        assert client.predict(picture(), task=TASK).sources == [source]
        assert [one.id for one in client.list_sources()] == [source]
        assert [one.id for one in client.list_grants()] == [grant.id]
        assert [one.prefix for one in client.list_tokens()] == [issued.prefix]

        admin.revoke_grant(name, source)
        with pytest.raises(ServiceProblem, match="409"):
            client.predict(picture(), task=TASK)
        admin.revoke_token(issued.id)
        with pytest.raises(ServiceProblem, match="401"):
            client.get_current_user()
    admin.delete_user(name)
    assert name not in {one.name for one in admin.list_users()}


def test_the_members_of_a_group_have_its_grants(deployment: Deployment, client_of: ClientOf) -> None:
    admin, group = client_of("admin"), deployment.new_name("group")
    source = deployment.add_source()
    deployment.publish(source)
    admin.create_user(group, is_group=True)
    admin.create_grant(group, source)

    admin.add_member(group, "stranger")
    assert client_of("stranger").predict(picture(), task=TASK).sources == [source]

    admin.remove_member(group, "stranger")
    with pytest.raises(ServiceProblem, match="409"):
        client_of("stranger").predict(picture(), task=TASK)


def test_a_task_is_created_found_and_deleted(deployment: Deployment, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), deployment.new_name("task")

    made = admin.create_task(
        name,
        backbone="vit_tiny_patch16_224",
        size=32,
        labels=["dog", "cat"],
        recipe={"epochs": 2},
        composition="concat",
    )

    assert admin.get_task(name) == made
    assert made in admin.list_tasks()
    assert (made.labels, made.recipe, made.composition) == (["cat", "dog"], {"epochs": 2}, "concat")
    admin.delete_task(name)
    assert made not in admin.list_tasks()


def test_a_release_is_pinned_and_deleted(deployment: Deployment, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), deployment.new_name("release")

    pinned = admin.pin_release(TASK, name)

    assert pinned in admin.list_releases(TASK)
    admin.delete_release(pinned.id)
    assert pinned not in admin.list_releases()


def test_lists_are_read_to_their_end(
    deployment: Deployment, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alacarte._client.http.PAGE_LIMIT", 2)
    made = {deployment.add_user() for _ in range(5)}

    assert made <= {one.id for one in client_of("admin").list_users()}


def test_an_unknown_name_is_the_same_problem_as_from_the_service(client_of: ClientOf) -> None:
    with pytest.raises(ServiceProblem, match=r"Not found \(404\): no user 'nobody' that you may see"):
        client_of("admin").create_grant("nobody", "nothing")


def test_a_name_is_found_in_any_unicode_normalization(deployment: Deployment, client_of: ClientOf) -> None:
    admin = client_of("admin")
    user = admin.create_user(f"Ren\u00e9 {deployment.new_name()}")

    admin.delete_user(user.name.replace("\u00e9", "e\u0301"))

    assert user not in admin.list_users()


def test_a_subject_is_bound_and_unbound(deployment: Deployment, client_of: ClientOf) -> None:
    admin, user = client_of("admin"), deployment.add_user()

    bound = admin.bind_subject(user, "248289761001", "https://id.example")

    assert (bound.issuer, bound.subject) == ("https://id.example", "248289761001")
    with pytest.raises(ServiceProblem, match="409"):
        admin.bind_subject("stranger", "248289761001", "https://id.example")
    admin.unbind_subject(user)
    assert next(one for one in admin.list_users() if one.id == user).subject is None


def test_a_quota_refuses_an_upload_before_its_archive_is_read(deployment: Deployment, client_of: ClientOf) -> None:
    admin, owner = client_of("admin"), client_of("owner")
    used = owner.get_quota(owner.get_current_user().id).used_bytes
    assert admin.set_quota("owner", used).quota_bytes == used

    def upload(content: bytes) -> int:
        query = {"task": TASK, "name": deployment.new_name("source")}
        headers = {"Content-Type": "application/zip"}
        return deployment.request(
            "owner", "POST", "/sources", params=query, content=content, headers=headers
        ).status_code

    assert upload(b"no archive at all") == 413
    assert admin.set_quota("owner", None).is_default
    assert upload(b"no archive at all") == 422
    assert upload(archive()) == 202
    assert owner.get_quota(owner.get_current_user().id).used_bytes > used
