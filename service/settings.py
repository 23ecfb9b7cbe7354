"""The settings of the service, read once at the entry point from ALACARTE_* variables."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from registry.settings import RegistrySettings, load_settings
from service.auth.jwks import ASYMMETRIC, is_safe_url, is_url
from service.engine.settings import EngineSettings

KIB = 2**10
MIB = 2**20


class ServiceSettings(RegistrySettings):
    """The registry's settings, and the service's own."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    device: str = Field(default="cpu", description="Device to compute on: cpu, cuda, cuda:1, mps.")
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="Precision of the backbone.")
    weights: str | None = Field(
        default=None,
        description="Weights of the backbones: a .safetensors file, or 'random' for tests; default: from the hub.",
    )
    max_backbones: int = Field(
        default=EngineSettings.max_backbones,
        ge=1,
        description="Backbones in memory; the least recently used is evicted.",
    )
    prompt_cache_bytes: int = Field(
        default=EngineSettings.prompt_cache_bytes,
        ge=0,
        description="Memory for prompts on the device, for each backbone.",
    )
    pinned_releases: str | None = Field(
        default=None,
        description="Releases whose prompts are evicted last: TASK/RELEASE,TASK/RELEASE by names or ids.",
    )
    max_batch: int = Field(default=EngineSettings.max_batch, ge=1, description="Largest batch, in pictures.")
    max_pairs: int = Field(
        default=EngineSettings.max_pairs, ge=1, description="Largest pass, in pairs of a picture and a prompt."
    )
    max_waiting: int = Field(
        default=EngineSettings.max_waiting, ge=1, description="Pictures in the queue; more are refused with 503."
    )
    compute_threads: int | None = Field(
        default=None, ge=1, description="Threads that compute on a CPU; default: torch's choice."
    )
    decode_threads: int | None = Field(
        default=None, ge=1, description="Threads that decode pictures; default: one more than cores."
    )
    load_threads: int = Field(
        default=EngineSettings.load_threads, ge=1, description="Threads that read prompts from the object store."
    )
    load_bytes: int = Field(
        default=EngineSettings.load_bytes, ge=1, description="Memory for prompts that are being loaded."
    )
    deadline_s: float = Field(default=30.0, gt=0, description="Time limit of a prediction.")
    max_pictures: int = Field(default=64, ge=1, description="Pictures in one request.")
    max_body_bytes: int = Field(default=32 * MIB, ge=1024, description="Size of a request body that is not an upload.")
    max_total_body_bytes: int = Field(
        default=512 * MIB,
        ge=1024,
        description="Size of all request bodies in memory, without uploads; more are refused with 503.",
    )
    max_upload_bytes: int = Field(default=4096 * MIB, ge=1024, description="Size of an uploaded archive.")
    max_prompt_bytes: int = Field(default=64 * MIB, ge=1024, description="Size of a prompt that was trained elsewhere.")
    max_uploads: int = Field(
        default=4, ge=1, description="Uploads in progress, at most half of them one user's; more are refused with 503."
    )
    read_timeout_s: float = Field(default=30.0, gt=0, description="Longest pause of a client within its request body.")
    body_timeout_s: float = Field(
        default=120.0, gt=0, description="Time limit for sending a request body that is not an upload."
    )
    upload_timeout_s: float = Field(default=3600.0, gt=0, description="Time limit for sending an upload.")
    upload_min_bytes_per_s: int = Field(
        default=64 * KIB, ge=0, description="Minimum speed of an upload, after half a minute; 0 sets no limit."
    )
    head_timeout_s: float = Field(
        default=10.0, gt=0, description="Time limit for sending the request line and the headers."
    )
    send_timeout_s: float = Field(
        default=30.0, gt=0, description="Longest pause of a client in receiving its response."
    )
    max_connections: int = Field(
        default=4096, ge=1, description="Open connections; at the limit, the longest-idle one is closed."
    )
    keep_alive_s: int = Field(default=15, ge=1, description="Time that a connection stays open between requests.")
    drain_s: int = Field(default=30, ge=0, description="Time that a shutdown waits for requests in progress.")
    threads: int = Field(default=16, ge=1, description="Threads for work on the registry.")
    rate_per_s: float = Field(
        default=1000.0, ge=0, description="Requests a second for each token and replica; 0 sets no limit."
    )
    rate_burst: int = Field(default=2000, ge=1, description="Requests that an idle token may send at once.")
    oidc_issuer: str | None = Field(default=None, description="URL of the OIDC issuer whose JWTs are accepted.")
    oidc_audience: str | None = Field(
        default=None, validate_default=True, description="Required audience of the JWTs; mandatory with an issuer."
    )
    oidc_keys: str | None = Field(
        default=None, validate_default=True, description="URL or file of the issuer's key set; default: discovery."
    )
    oidc_algorithms: str = Field(
        default="RS256,ES256,EdDSA", description="Accepted signature algorithms; symmetric ones (HS*) are refused."
    )
    oidc_leeway_s: float = Field(default=30.0, ge=0, le=300, description="Tolerated difference of the issuer's clock.")
    oidc_refresh_s: float = Field(
        default=30.0, ge=1, description="Minimum time between fetches of the key set for unknown keys."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Lowest logged level.")

    @property
    def allowed_algorithms(self) -> tuple[str, ...]:
        """The accepted signature algorithms of JWTs."""
        return tuple(name.strip() for name in self.oidc_algorithms.split(","))

    @property
    def pinned_release_names(self) -> tuple[tuple[str, str], ...]:
        """The task and the release of each pinned release."""
        return parse_releases(self.pinned_releases or "")

    @field_validator("pinned_releases")
    @classmethod
    def _check_releases(cls, names: str | None) -> str | None:
        parse_releases(names or "")
        return names

    @field_validator("oidc_algorithms")
    @classmethod
    def _check_algorithms(cls, names: str) -> str:
        if unknown := sorted({name.strip() for name in names.split(",")} - ASYMMETRIC):
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(sorted(ASYMMETRIC))}")
        return names

    @field_validator("oidc_keys")
    @classmethod
    def _check_key_location(cls, location: str | None, info: ValidationInfo) -> str | None:
        url = location or info.data.get("oidc_issuer") or ""
        if (is_url(url) or not location) and url and not is_safe_url(url):
            raise ValueError("keys are fetched over https or from localhost only: use a file instead")
        return location

    @field_validator("oidc_audience")
    @classmethod
    def _check_audience(cls, audience: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("oidc_issuer") is not None and not audience:
            raise ValueError("an audience is required with an issuer, which signs tokens for many services")
        return audience


def parse_releases(names: str) -> tuple[tuple[str, str], ...]:
    """Parse TASK/RELEASE,TASK/RELEASE; ValueError for a name without a slash."""
    pairs = []
    for name in filter(None, map(str.strip, names.split(","))):
        task, _, release = name.partition("/")
        if not task or not release:
            raise ValueError(f"a release is written as TASK/RELEASE, not {name!r}")
        pairs.append((task, release))
    return tuple(pairs)


def read_service_settings(**given: object) -> ServiceSettings:
    """Read the settings from the environment, except those that are given."""
    return load_settings(ServiceSettings, **given)
