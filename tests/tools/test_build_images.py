"""Which program builds the images, and by which command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docker.files import read_compose
from tools.build_images import TARGETS, NoBuilder, build_command, find_builder, image_tag, main


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str, int], dict[str, str]]:
    """Adds a program that ends with this exit code, and returns an environment that has nothing else in its PATH."""

    def add(name: str, code: int) -> dict[str, str]:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
        return {"PATH": str(tmp_path)}

    return add


def test_a_builder_that_is_installed_and_does_not_answer_is_passed_over(
    install: Callable[[str, int], dict[str, str]],
) -> None:
    install("docker", 1)
    environment = install("buildah", 0)

    assert find_builder(environment) == "buildah"
    with pytest.raises(NoBuilder, match="`docker info` fails"):
        find_builder({**environment, "BUILDER": "docker"})


def test_without_a_builder_the_command_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BUILDER", raising=False)

    assert main() == 1
    assert capsys.readouterr().err == (
        "no images can be built: docker is not installed, podman is not installed, buildah is not installed; "
        "install docker, podman or buildah\n"
    )


def test_an_unknown_builder_is_refused_by_name() -> None:
    with pytest.raises(NoBuilder, match="'kaniko'"):
        find_builder({"BUILDER": "kaniko"})


@pytest.mark.parametrize(("backend", "argument"), [("cu132", "TORCH_BACKEND=cu132"), ("", "TORCH_BACKEND=")])
def test_the_backend_is_passed_on_also_when_it_is_empty(backend: str, argument: str) -> None:
    assert argument in build_command("docker", "service", backend)
    assert "--build-arg" not in build_command("docker", "service")


def test_the_tags_are_those_of_the_compose_file() -> None:
    services = read_compose()["services"]

    assert [services[target]["image"].replace("${TAG:-local}", "local") for target in TARGETS] == [
        image_tag(target) for target in TARGETS
    ]
