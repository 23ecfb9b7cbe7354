"""Build and run the images: create the tables, train, predict, and check that nothing runs as root.

BUILDAH_ISOLATION=chroot lets buildah and podman build inside a container; TORCH_BACKEND is the build argument.
"""

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from tests.docker.containers import HOME, Containers, containers_of
from tests.e2e.process import START_SECONDS, ManagedProcess, answers
from tests.servers.processes import find_free_ports
from tests.trainer.pictures import draw_samples
from tools.build_images import TARGETS, NoBuilder, build_images, find_builder

pytestmark = pytest.mark.images
SETTINGS = {"ALACARTE_WEIGHTS": "random", "OMP_NUM_THREADS": "2"}
# Sticky folders such as /tmp are meant to be writable; /dev, /proc and /sys are the system's.
WRITABLE = (
    r"find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o ! -type l -perm -0002 ! -perm -1000 -print"
)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    try:
        builder = find_builder(os.environ)
    except NoBuilder as error:
        pytest.skip(str(error))
    build_images(builder, os.environ)
    folder = tmp_path_factory.mktemp("containers")
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)  # pytest's folders are closed to other users, and the images' user is another
    with containers_of(builder, folder) as made:
        yield made


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_its_own_user_that_can_write_only_its_folders(containers: Containers, target: str) -> None:
    assert containers.run(target, "id", "-u").split() == ["10001"]
    assert containers.run(target, "id", "-g").split() == ["10001"]
    # The mounted home is the test's own.
    writable = containers.run(target, "sh", "-c", f"{WRITABLE} 2>/dev/null || true").split()
    assert [path for path in writable if not path.startswith(HOME)] == []
    owned = containers.run(target, "sh", "-c", "find /opt /usr /etc -xdev -user 10001 2>/dev/null || true").split()
    assert owned == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_is_compiled_because_the_file_system_is_read_only(containers: Containers, target: str) -> None:
    script = "import service.app, os; assert os.path.exists(service.app.__cached__), service.app.__cached__"

    containers.run(target, "python", "-c", script)


def test_a_worker_trains_and_the_service_predicts(containers: Containers) -> None:
    folder = containers.folder
    pictures = folder / "pictures"
    drawn = folder / "drawn"
    drawn.mkdir()
    samples = draw_samples(drawn, 6)
    for sample in samples:
        (pictures / sample.label).mkdir(parents=True, exist_ok=True)
        sample.path.rename(pictures / sample.label / sample.path.name)

    containers.run("service", "alacarte", "db", "upgrade")
    recipe = json.dumps({"epochs": 1})
    task = ["--backbone", "vit_tiny_patch16_224", "--size", "32", "--recipe", recipe]
    containers.run("service", "alacarte", "task", "add", "colours", *task)
    containers.run("service", "alacarte", "user", "add", "ann", "--role", "owner")
    token = json.loads(containers.run("service", "alacarte", "token", "issue", "ann", "--json"))["token"]
    source = ["ann-colours", str(pictures), "--task", "colours", "--owner", "ann"]
    containers.run("service", "alacarte", "source", "add", *source)
    containers.run("worker", "alacarte", "work", "--once", environment=SETTINGS)

    [port] = find_free_ports(1)
    url = f"http://127.0.0.1:{port}"
    serving = {**SETTINGS, "ALACARTE_HOST": "127.0.0.1", "ALACARTE_PORT": str(port)}
    command = containers.command("service", ["alacarte", "serve"], serving)
    part = ManagedProcess("service", command, folder, os.environ, answers(f"{url}/readyz"))
    part.begin()
    try:
        part.await_up()
        answer = httpx.post(
            f"{url}/predict",
            headers={"Authorization": f"Bearer {token}"},
            data={"task": "colours"},
            files={"image": next(pictures.rglob("*.png")).read_bytes()},
            timeout=START_SECONDS,
        )
    finally:
        part.terminate()

    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    assert {one["label"] for one in result["labels"]} == {sample.label for sample in samples}
