"""`make images`: build the images of the service and of the worker with docker, podman or buildah.

Environment variables: BUILDER chooses one of the three, TORCH_BACKEND is the build argument of docker/Dockerfile (an
empty value is passed on too). Only the standard library is used, so that no environment has to be made first.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILDERS = ("docker", "podman", "buildah")
TARGETS = ("service", "worker")


class NoBuilder(RuntimeError):
    """No program on this machine can build an image; the message says what was tried."""


def find_builder(environment: Mapping[str, str]) -> str:
    """The first of docker, podman and buildah that is installed and answers, or the one that BUILDER names."""
    chosen = environment.get("BUILDER", "")
    if chosen and chosen not in BUILDERS:
        raise NoBuilder(f"BUILDER is {chosen!r}; it must be one of {', '.join(BUILDERS)}")
    faults = []
    for name in [chosen] if chosen else BUILDERS:
        path = shutil.which(name, path=environment.get("PATH"))
        if path is None:
            faults.append(f"{name} is not installed")
        # `docker info` fails without a running daemon, `podman info` and `buildah info` without usable storage.
        elif subprocess.run([path, "info"], env=environment, capture_output=True).returncode:  # noqa: S603  # no shell
            faults.append(f"`{name} info` fails")
        else:
            return name
    raise NoBuilder(f"no images can be built: {', '.join(faults)}; install docker, podman or buildah")


def tag_of(target: str) -> str:
    """The name that docker-compose.yml gives to the image by default."""
    return f"alacarte-{target}:local"


def build_command(builder: str, target: str, torch_backend: str | None = None) -> list[str]:
    """The command that builds one target, to be run in the root of the project."""
    command = [builder, "build", "--file", "docker/Dockerfile", "--target", target, "--tag", tag_of(target)]
    if builder != "docker":
        # The OCI format has no health checks, and without --layers buildah builds shared stages once for each target.
        command += ["--format", "docker", "--layers"]
    if torch_backend is not None:
        command += ["--build-arg", f"TORCH_BACKEND={torch_backend}"]
    return [*command, "."]


def build_images(builder: str, environment: Mapping[str, str], targets: Sequence[str] = TARGETS) -> None:
    """All targets are built, one after the other; CalledProcessError if one cannot be."""
    # Docker's older builder knows no --mount.
    own = {**environment, "DOCKER_BUILDKIT": "1"}
    for target in targets:
        command = build_command(builder, target, environment.get("TORCH_BACKEND"))
        print("+", " ".join(command), flush=True)
        subprocess.run(command, cwd=ROOT, env=own, check=True)  # noqa: S603  # no shell


def main() -> int:
    """Builds both images."""
    try:
        build_images(find_builder(os.environ), os.environ)
    except NoBuilder as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"the build failed: {' '.join(error.cmd)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
