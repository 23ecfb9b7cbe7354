"""The Dockerfile is valid, and its images are small, unprivileged and have health checks."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alacarte.cli.main import app
from service.settings import ServiceSettings
from tests.docker.files import DOCKER, DOCKERFILE, ROOT, instructions_of, read_compose, stages_of
from tests.docker.replica import serve_fake_replica

BIN = Path(sys.executable).parent
TEXT = DOCKERFILE.read_text()
STAGES = stages_of(TEXT)
IMAGES = ("service", "worker")


def is_clean(dockerfile: Path) -> bool:
    return subprocess.run([BIN / "hadolint", dockerfile], capture_output=True, check=False).returncode == 0


def test_the_linter_accepts_the_dockerfile_and_refuses_a_bad_one(tmp_path: Path) -> None:
    assert is_clean(DOCKERFILE)
    careless = tmp_path / "Dockerfile"
    careless.write_text(TEXT.replace("python:3.11.15-slim-bookworm", "python:latest"))
    assert not is_clean(careless)


def test_copied_files_exist_and_are_not_ignored() -> None:
    copied = [rest.split()[:-1] for word, rest in instructions_of(TEXT) if word == "COPY" and "--from" not in rest]
    sources = {source for names in copied for source in names}

    assert sources
    assert all((ROOT / source).exists() for source in sources)
    everything, *lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert everything == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == sources


def test_the_image_has_every_package_that_is_installed_and_what_its_build_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    copied = " ".join(rest for word, rest in STAGES["wheel"] if word == "COPY").split()

    assert {*packages, project["project"]["readme"], "pyproject.toml"} <= set(copied)
    installed = " ".join(rest for word, rest in STAGES["build"] if word == "RUN")
    extras = set(re.findall(r"--extra (\w+)", installed))
    assert extras <= set(project["project"]["optional-dependencies"])
    assert extras == {"serve", "postgres", "s3"}


def test_a_change_of_the_code_does_not_reinstall_the_libraries() -> None:
    arguments = [rest for word, rest in STAGES["build"] if word in ("COPY", "RUN")]

    assert arguments[-2] == "pyproject.toml constraints.txt ./"
    assert "--requirements pyproject.toml" in arguments[-1]
    assert [rest for word, rest in STAGES["runtime"] if word == "COPY"] == ["--from=build /opt/alacarte /opt/alacarte"]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_unprivileged_and_receives_the_stop_signal(image: str) -> None:
    directives = dict(STAGES[image])

    assert directives["USER"] == "10001:10001"
    assert directives["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(directives["ENTRYPOINT"]) == ["alacarte"]  # no shell, which would swallow the signal
    assert json.loads(directives["CMD"]) == [{"service": "serve", "worker": "work"}[image]]
    assert "PYTHONUNBUFFERED=1" in " ".join(rest for word, rest in STAGES[image] if word == "ENV")
    assert not re.search(r"apt-get|gcc|build-essential", TEXT)


def test_variables_of_the_images_are_settings() -> None:
    given = dict(re.findall(r"\b(ALACARTE_\w+)=(\S+)", TEXT))

    assert {name.removeprefix("ALACARTE_").lower() for name in given} <= set(ServiceSettings.model_fields)
    port = str(ServiceSettings.model_fields["port"].default)
    assert given["ALACARTE_PORT"] == dict(STAGES["service"])["EXPOSE"] == port
    assert given["ALACARTE_HOME"] in dict(STAGES["service"])["WORKDIR"]


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_of_the_service_fails_when_it_is_unhealthy(status: int, is_well: bool) -> None:
    in_image = json.loads(dict(STAGES["service"])["HEALTHCHECK"].partition(" CMD ")[2])
    in_compose = read_compose()["services"]["service"]["healthcheck"]["test"][1:]
    port = str(ServiceSettings.model_fields["port"].default)
    for command, path in ((in_image, "/healthz"), (in_compose, "/readyz")):
        with serve_fake_replica() as replica:
            replica.status = status
            free = replica.address.rpartition(":")[2]
            arguments = [word.replace(port, free) for word in command[1:]]
            environment = os.environ | {"ALACARTE_PORT": free}
            done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)

        assert command[0] == "python"
        assert (done.returncode == 0) is is_well
        assert replica.requests == [("GET", path)]


def test_the_health_check_of_a_worker_fails_without_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path))
    name, *arguments = json.loads(dict(STAGES["worker"])["HEALTHCHECK"].partition(" CMD ")[2])

    assert name == "alacarte"
    assert CliRunner().invoke(app, arguments).exit_code != 0
    assert CliRunner().invoke(app, ["db", "upgrade"]).exit_code == 0
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_constraints_take_the_cpu_build_of_torch(tmp_path: Path) -> None:
    """Resolved by uv, among wheels that differ in nothing but the build."""
    constraints = (ROOT / "constraints.txt").read_text()
    (version,) = re.findall(r"^torch==(\S+)$", constraints, re.MULTILINE)
    for name in (f"{version}+cpu", "0.1+cpu"):
        with zipfile.ZipFile(tmp_path / f"torch-{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"torch-{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {name}\n")
            wheel.writestr(f"torch-{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"torch-{name}.dist-info/RECORD", "")
    (tmp_path / "required.txt").write_text("torch\n")

    switches = ["--quiet", "--no-header", "--no-annotate", "--no-index", "--no-cache"]
    files = ["--find-links", str(tmp_path), "--constraints", f"{ROOT}/constraints.txt", f"{tmp_path}/required.txt"]
    command = [f"{BIN}/uv", "pip", "compile", *switches, *files]
    resolved = subprocess.run(command, capture_output=True, text=True, check=True)

    assert f"torch=={version}+cpu" in resolved.stdout.split()


def test_uv_knows_the_torch_backends_and_cuda_matches_the_constraints() -> None:
    help_text = subprocess.run([BIN / "uv", "pip", "install", "--help"], capture_output=True, text=True, check=True)
    known = re.sub(r"\s+", " ", help_text.stdout).partition("--torch-backend")[2].partition("possible values: ")[2]
    default = dict(rest.split("=") for word, rest in STAGES["build"] if word == "ARG")["TORCH_BACKEND"]
    override = read_compose(DOCKER / "compose.gpu.yml")["services"]
    cuda = {override[image]["build"]["args"]["TORCH_BACKEND"] for image in IMAGES}

    assert {default, *cuda} <= set(known.partition("]")[0].split(", "))
    (toolkit,) = re.findall(r"^cuda-toolkit==(\d+)\.(\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert cuda == {"cu" + "".join(toolkit)}
