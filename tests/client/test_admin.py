"""Tasks, people, rights and releases through the client."""

import pytest

from alacarte.client import Client, ServiceProblem
from tests.client.conftest import ClientOf
from tests.service.deployment import TASK, World, picture


def test_a_user_gets_a_token_and_a_grant_and_loses_them(world: World, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), world.name("user")
    source = world.add_source()
    world.publish(source)

    user = admin.create_user(name)
    issued = admin.issue_token(name, note="the scanner", lifetime_s=60)
    given = admin.grant(name, str(source))

    assert issued.text not in repr(issued)
    assert (given.user_id, given.source_id, given.right) == (user.id, str(source), "use")
    with Client(world.url, f"{issued.text}\n") as client:
        assert client.me() == user
        assert client.predict(picture(), task=TASK).sources == (str(source),)
        assert [one.id for one in client.sources()] == [str(source)]
        assert [one.id for one in client.grants()] == [given.id]
        assert [one.prefix for one in client.tokens()] == [issued.prefix]

        admin.revoke(name, str(source))
        with pytest.raises(ServiceProblem, match="409"):
            client.predict(picture(), task=TASK)
        admin.revoke_token(issued.id)
        with pytest.raises(ServiceProblem, match="401"):
            client.me()
    admin.remove_user(name)
    assert name not in {one.name for one in admin.users()}


def test_a_group_hands_its_grants_to_its_members(world: World, client_of: ClientOf) -> None:
    admin, group = client_of("admin"), world.name("group")
    source = world.add_source()
    world.publish(source)
    admin.create_user(group, is_group=True)
    admin.grant(group, str(source))

    admin.add_member(group, "stranger")
    assert client_of("stranger").predict(picture(), task=TASK).sources == (str(source),)

    admin.remove_member(group, "stranger")
    with pytest.raises(ServiceProblem, match="409"):
        client_of("stranger").predict(picture(), task=TASK)


def test_a_task_is_made_found_and_removed(world: World, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), world.name("task")

    made = admin.create_task(
        name,
        backbone="vit_tiny_patch16_224",
        size=32,
        labels=["dog", "cat"],
        recipe={"epochs": 2},
        composition="concat",
    )

    assert admin.task(name) == made
    assert made in admin.tasks()
    assert (made.labels, made.recipe, made.composition) == (("cat", "dog"), {"epochs": 2}, "concat")
    admin.remove_task(name)
    assert made not in admin.tasks()


def test_a_release_is_pinned_and_removed(world: World, client_of: ClientOf) -> None:
    admin, name = client_of("admin"), world.name("release")

    pinned = admin.pin_release(TASK, name)

    assert pinned in admin.releases(TASK)
    admin.remove_release(pinned.id)
    assert pinned not in admin.releases()


def test_lists_are_read_to_their_end(world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alacarte._client.http.PAGE", 2)
    made = {str(world.add_user()) for _ in range(5)}

    assert made <= {one.id for one in client_of("admin").users()}


def test_somebody_unknown_is_told_as_by_the_service(client_of: ClientOf) -> None:
    with pytest.raises(ServiceProblem, match=r"Not found \(404\): no user 'nobody' that you may see"):
        client_of("admin").grant("nobody", "nothing")


def test_a_name_is_found_however_its_accents_are_written(world: World, client_of: ClientOf) -> None:
    admin = client_of("admin")
    user = admin.create_user(f"Ren\u00e9 {world.name()}")

    admin.remove_user(user.name.replace("\u00e9", "e\u0301"))

    assert user not in admin.users()
