"""Sources through the client: sent piece by piece, watched, added to, and forgotten with a receipt."""

from pathlib import Path

import pytest

from alacarte._client.request_bodies import CHUNK_BYTES
from alacarte.client import ServiceProblem, WaitedInVain
from tests.cli.fixtures import draw
from tests.client.conftest import ClientOf
from tests.service.deployment import TASK, World, archive, picture, prompt_bytes


def test_an_archive_is_sent_piece_by_piece_and_its_progress_told(
    world: World, client_of: ClientOf, tmp_path: Path
) -> None:
    file = tmp_path / "pictures.zip"
    file.write_bytes(archive({"cat/1.png": picture(1), "dog/1.png": picture(2), "large.txt": b"word" * CHUNK_BYTES}))
    told: list[tuple[int, int]] = []

    made = client_of("owner").upload(
        world.name("source"),
        file,
        task=TASK,
        skip_unreadable=True,
        progress=lambda sent, total: told.append((sent, total)),
    )

    size = file.stat().st_size
    assert [sent for sent, _ in told] == [*range(0, size, CHUNK_BYTES), size]
    assert {total for _, total in told} == {size}
    assert (made.samples, made.refused, len(made.shards)) == (2, 1, 1)


def test_a_folder_is_sent_as_an_archive(world: World, client_of: ClientOf, tmp_path: Path) -> None:
    folder = draw(tmp_path / "pictures", each=4)
    name = world.name("source")

    made = client_of("owner").upload(name, folder, task=TASK, shards=2)

    state = client_of("owner").source(name)
    assert (state.id, state.samples, state.labels) == (made.source, 12, ("cat", "dog", "emu"))
    assert [shard.id for shard in state.shards] == list(made.shards)
    assert not state.is_trained
    sample = client_of("owner").samples(name, label="emu")[0]
    assert (folder / sample.name).read_bytes()


def test_an_admin_sends_for_somebody_else(world: World, client_of: ClientOf, tmp_path: Path) -> None:
    made = client_of("admin").upload(world.name("source"), draw(tmp_path / "p"), task=TASK, owner="owner")

    assert client_of("admin").source(made.source).owner_id == str(world.users["owner"])


def test_a_name_that_is_taken_is_told_though_the_archive_is_large(
    world: World, client_of: ClientOf, tmp_path: Path
) -> None:
    name = world.name("source")
    client_of("owner").create_source(name, task=TASK)
    large = tmp_path / "large.zip"
    large.write_bytes(bytes(20 * CHUNK_BYTES))

    with pytest.raises(ServiceProblem) as caught:
        client_of("owner").upload(name, large, task=TASK)

    assert caught.value.status == 409


def test_pictures_are_added_and_bad_ones_left_out(world: World, client_of: ClientOf, tmp_path: Path) -> None:
    client, folder = client_of("owner"), draw(tmp_path / "pictures", each=2)
    source = client.upload(world.name("source"), folder, task=TASK).source
    more = tmp_path / "more.zip"
    more.write_bytes(archive({"cat/new.png": picture(200), "cat/bad.png": b"no picture"}))

    made = client.extend(source, more, skip_unreadable=True)

    assert (made.samples, made.refused, made.refusals[0].name) == (1, 1, "cat/bad.png")
    assert len(client.source(source).shards) == 2


def test_what_is_not_trained_in_time_is_told(world: World, client_of: ClientOf) -> None:
    source = str(world.add_source(samples=2))
    seen: list[float] = []

    with pytest.raises(WaitedInVain, match=r"1 of 1 shards of .* are not trained, after 0\.2 s"):
        client_of("admin").wait_until_trained(source, 0.2, progress=lambda state: seen.append(state.progress))

    assert set(seen) == {0.0}


def test_a_training_that_was_stopped_is_not_waited_for(world: World, client_of: ClientOf) -> None:
    source = str(world.add_source(samples=2))
    assert world.ask("admin", "POST", f"/sources/{source}/cancel").status_code == 200

    with pytest.raises(WaitedInVain, match="resume"):
        client_of("admin").wait_until_trained(source)


def test_a_prompt_that_was_trained_here_is_sent_and_counts_at_once(
    world: World, client_of: ClientOf, tmp_path: Path
) -> None:
    client, file = client_of("owner"), tmp_path / "shard-0.safetensors"
    file.write_bytes(prompt_bytes(7))
    source = client.create_source(world.name("source"), task=TASK)

    sent = client.push_prompt(source.name, file)

    state = client.wait_until_trained(source.id, 0)
    assert [(shard.id, shard.state) for shard in state.shards] == [(sent.shard_id, "remote")]
    assert client.predict(picture(), sources=[source.id], task=TASK).sources == (source.id,)


def test_a_forgotten_source_ends_in_a_receipt_that_verifies(world: World, client_of: ClientOf) -> None:
    client = client_of("admin")
    source = str(world.add_source())
    world.publish(world.add_source())

    forgetting = client.forget(source)
    with pytest.raises(ServiceProblem, match="404"):
        client.source(source)
    erasure = forgetting.wait(60)

    assert (erasure.state, erasure.scope, erasure.source_id) == ("complete", "source", source)
    assert all(step.done_at for step in erasure.steps)
    assert erasure.receipt is not None
    assert client.verify(erasure.id).holds
    assert erasure.id in {one.id for one in client.erasures()}


def test_a_sample_and_a_shard_are_forgotten_by_themselves(world: World, client_of: ClientOf) -> None:
    client = client_of("admin")
    source = world.add_source(samples=3)

    of_sample = client.forget(str(source), sample=world.sample_of(source)).begun
    of_shard = client.forget(str(source), shard=str(world.shard_of(source))).begun

    assert (of_sample.scope, of_shard.scope) == ("sample", "shard")
    assert client.source(str(source)).shards == ()
    with pytest.raises(ValueError, match="not both"):
        client.forget(str(source), sample="0" * 64, shard="x")


def test_a_name_that_several_tasks_have_is_not_guessed(world: World, client_of: ClientOf) -> None:
    client, name = client_of("admin"), world.name("shared")
    other = client.create_task(world.name("task"), backbone="vit_tiny_patch16_224")
    first = client.create_source(name, task=TASK)
    client.create_source(name, task=other.name)

    with pytest.raises(ServiceProblem, match="several tasks"):
        client.source(name)

    assert client.find_source(name, TASK).id == first.id
