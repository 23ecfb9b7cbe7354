"""Sources through the client: uploaded in chunks, waited for, extended, and forgotten with a receipt."""

from pathlib import Path

import pytest

from alacarte._client.tar_stream import CHUNK_BYTES
from alacarte.client import ServiceProblem, WaitTimeout
from tests.cli.fixtures import draw
from tests.client.conftest import ClientOf
from tests.service.deployment import TASK, Deployment, archive, picture, prompt_bytes


def test_an_archive_is_sent_in_chunks_and_its_progress_reported(
    deployment: Deployment, client_of: ClientOf, tmp_path: Path
) -> None:
    file = tmp_path / "pictures.zip"
    file.write_bytes(archive({"cat/1.png": picture(1), "dog/1.png": picture(2), "large.txt": b"word" * CHUNK_BYTES}))
    reports: list[tuple[int, int]] = []

    made = client_of("owner").upload_source(
        deployment.new_name("source"),
        file,
        task=TASK,
        skip_unreadable=True,
        on_progress=lambda sent, total: reports.append((sent, total)),
    )

    size = file.stat().st_size
    assert [sent for sent, _ in reports] == [*range(0, size, CHUNK_BYTES), size]
    assert {total for _, total in reports} == {size}
    assert (made.samples, made.skipped, len(made.shards)) == (2, 1, 1)


def test_a_folder_is_sent_as_an_archive(deployment: Deployment, client_of: ClientOf, tmp_path: Path) -> None:
    folder = draw(tmp_path / "pictures", each=4)
    name = deployment.new_name("source")

    made = client_of("owner").upload_source(name, folder, task=TASK, shards=2)

    state = client_of("owner").get_source(name)
    assert (state.id, state.samples, state.labels) == (made.source_id, 12, ["cat", "dog", "emu"])
    assert [shard.id for shard in state.shards] == made.shards
    assert not state.is_trained
    sample = client_of("owner").list_samples(name, label="emu")[0]
    assert (folder / sample.name).read_bytes()


def test_an_admin_uploads_for_another_owner(deployment: Deployment, client_of: ClientOf, tmp_path: Path) -> None:
    made = client_of("admin").upload_source(
        deployment.new_name("source"), draw(tmp_path / "p"), task=TASK, owner="owner"
    )

    assert client_of("admin").get_source(made.source_id).owner_id == deployment.users["owner"]


def test_a_taken_name_is_reported_even_if_the_archive_is_large(
    deployment: Deployment, client_of: ClientOf, tmp_path: Path
) -> None:
    name = deployment.new_name("source")
    client_of("owner").create_source(name, task=TASK)
    large = tmp_path / "large.zip"
    large.write_bytes(bytes(20 * CHUNK_BYTES))

    with pytest.raises(ServiceProblem) as caught:
        client_of("owner").upload_source(name, large, task=TASK)

    assert caught.value.status == 409


def test_samples_are_added_and_unreadable_ones_skipped(
    deployment: Deployment, client_of: ClientOf, tmp_path: Path
) -> None:
    client, folder = client_of("owner"), draw(tmp_path / "pictures", each=2)
    source = client.upload_source(deployment.new_name("source"), folder, task=TASK).source_id
    more = tmp_path / "more.zip"
    more.write_bytes(archive({"cat/new.png": picture(200), "cat/bad.png": b"no picture"}))

    made = client.add_samples(source, more, skip_unreadable=True)

    assert (made.samples, made.skipped, made.skipped_files[0].name) == (1, 1, "cat/bad.png")
    assert len(client.get_source(source).shards) == 2


def test_a_wait_timeout_says_what_is_not_trained(deployment: Deployment, client_of: ClientOf) -> None:
    source = deployment.add_source(samples=2)
    reported: list[float] = []

    with pytest.raises(WaitTimeout, match=r"1 of 1 shards of .* are not trained, after 0\.2 s"):
        client_of("admin").wait_until_trained(source, 0.2, on_progress=lambda state: reported.append(state.progress))

    assert set(reported) == {0.0}


def test_stopped_training_is_not_waited_for(deployment: Deployment, client_of: ClientOf) -> None:
    source = deployment.add_source(samples=2)
    assert deployment.request("admin", "POST", f"/sources/{source}/cancel").status_code == 200

    with pytest.raises(WaitTimeout, match="resume"):
        client_of("admin").wait_until_trained(source)


def test_a_pushed_prompt_is_served_at_once(deployment: Deployment, client_of: ClientOf, tmp_path: Path) -> None:
    client, file = client_of("owner"), tmp_path / "shard-0.safetensors"
    file.write_bytes(prompt_bytes(7))
    source = client.create_source(deployment.new_name("source"), task=TASK)

    sent = client.push_prompt(source.name, file)

    state = client.wait_until_trained(source.id, 0)
    assert [(shard.id, shard.state) for shard in state.shards] == [(sent.shard_id, "remote")]
    assert client.predict(picture(), sources=[source.id], task=TASK).sources == [source.id]


def test_a_forgotten_source_ends_in_a_receipt_that_verifies(deployment: Deployment, client_of: ClientOf) -> None:
    client = client_of("admin")
    source = deployment.add_source()
    deployment.publish(deployment.add_source())

    requested = client.forget_source(source)
    with pytest.raises(ServiceProblem, match="404"):
        client.get_source(source)
    erasure = client.wait_for_erasure(requested.id, 60)

    assert (erasure.state, erasure.scope, erasure.source_id) == ("complete", "source", source)
    assert all(step.done_at for step in erasure.steps)
    assert erasure.receipt is not None
    assert client.verify_receipt(erasure.id).holds
    assert erasure.id in {one.id for one in client.list_erasures()}


def test_a_sample_and_a_shard_can_be_forgotten(deployment: Deployment, client_of: ClientOf) -> None:
    client = client_of("admin")
    source = deployment.add_source(samples=3)

    of_sample = client.forget_sample(source, deployment.sample_of(source))
    of_shard = client.forget_shard(source, deployment.shard_of(source))

    assert (of_sample.scope, of_shard.scope) == ("sample", "shard")
    assert client.get_source(source).shards == []


def test_an_ambiguous_name_is_refused(deployment: Deployment, client_of: ClientOf) -> None:
    client, name = client_of("admin"), deployment.new_name("shared")
    other = client.create_task(deployment.new_name("task"), backbone="vit_tiny_patch16_224")
    first = client.create_source(name, task=TASK)
    client.create_source(name, task=other.name)

    with pytest.raises(ServiceProblem, match="several tasks"):
        client.get_source(name)

    assert client.find_source(name, TASK).id == first.id
