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
    """Return the first of docker, podman and buildah that works, or the one that BUILDER names."""
    chosen = environment.get("BUILDER", "")
    if chosen and chosen not in BUILDERS:
        raise NoBuilder(f"BUILDER is {chosen!r}; it must be one of {', '.join(BUILDERS)}")
    problems = []
    for name in [chosen] if chosen else BUILDERS:
        path = shutil.which(name, path=environment.get("PATH"))
        if path is None:
            problems.append(f"{name} is not installed")
        # `docker info` fails without a running daemon, `podman info` and `buildah info` without usable storage.
        elif subprocess.run([path, "info"], env=environment, capture_output=True).returncode:  # noqa: S603  # no shell
            problems.append(f"`{name} info` fails")
        else:
            return name
    raise NoBuilder(f"no images can be built: {', '.join(problems)}; install docker, podman or buildah")


def image_tag(target: str) -> str:
    """Return the default name of the image in docker-compose.yml."""
    return f"alacarte-{target}:local"


def build_command(builder: str, target: str, torch_backend: str | None = None) -> list[str]:
    """Return the command that builds one target in the root of the project."""
    command = [builder, "build", "--file", "docker/Dockerfile", "--target", target, "--tag", image_tag(target)]
    if builder != "docker":
        # The OCI format has no health checks, and without --layers buildah builds shared stages once for each target.
        command += ["--format", "docker", "--layers"]
    if torch_backend is not None:
        command += ["--build-arg", f"TORCH_BACKEND={torch_backend}"]
    return [*command, "."]


def build_images(builder: str, environment: Mapping[str, str], targets: Sequence[str] = TARGETS) -> None:
    """Build all targets one after the other; raise CalledProcessError if one fails."""
    # Docker's older builder does not support --mount.
    builder_environment = {**environment, "DOCKER_BUILDKIT": "1"}
    for target in targets:
        command = build_command(builder, target, environment.get("TORCH_BACKEND"))
        print("+", " ".join(command), flush=True)
        subprocess.run(command, cwd=ROOT, env=builder_environment, check=True)  # noqa: S603  # no shell


def main() -> int:
    """Build both images."""
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
