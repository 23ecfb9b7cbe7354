"""Containers of the project's images, started by docker, podman or buildah."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from tools.build_images import TARGETS, image_tag

HOME = "/var/lib/alacarte"
# As docker-compose.yml runs them.
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


class Containers:
    """Runs commands in both images; ALACARTE_HOME is shared, and so is a read-only folder at its own path."""

    def __init__(self, builder: str, home: str, folder: Path, buildah_containers: Mapping[str, str]) -> None:
        self._builder = builder
        self._home = home
        self.folder = folder
        self._buildah_containers = buildah_containers

    def command(self, target: str, arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Return the command that runs these arguments in a container; the first replaces the entry point."""
        settings = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        mounts = ["--volume", f"{self._home}:{HOME}", "--volume", f"{self.folder}:{self.folder}:ro"]
        if self._builder == "buildah":
            return ["buildah", "run", *settings, *mounts, self._buildah_containers[target], "--", *arguments]
        own = [*HARDENED, "--network", "host", "--entrypoint", arguments[0]]
        return [self._builder, "run", "--rm", *own, *settings, *mounts, image_tag(target), *arguments[1:]]

    def run(self, target: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """The output of a command that ends with exit code 0; AssertionError with its messages otherwise."""
        ended = subprocess.run(
            self.command(target, arguments, environment or {}), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{arguments} in {target} ended with {ended.returncode}:\n{ended.stderr[-4000:]}"
        return ended.stdout


@contextmanager
def containers_of(builder: str, folder: Path) -> Iterator[Containers]:
    """Both images can be run; volumes and containers are removed at the end."""

    def call(*arguments: str) -> str:
        return subprocess.run([builder, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    with ExitStack() as stack:
        made: dict[str, str] = {}
        if builder == "buildah":  # has no volumes
            home = folder / "home"
            home.mkdir()
            home.chmod(0o777)  # the images' user has no name here
            volume = str(home)
            for target in TARGETS:
                made[target] = call("from", f"localhost/{image_tag(target)}")
                stack.callback(call, "rm", made[target])
        else:
            volume = f"alacarte-test-{uuid4().hex[:8]}"
            call("volume", "create", volume)
            stack.callback(call, "volume", "rm", "--force", volume)
        yield Containers(builder, volume, folder, made)
