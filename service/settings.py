"""How the service listens, computes and limits: read once at the entry point, from ALACARTE_* variables."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from registry.settings import RegistrySettings, load_settings
from service.auth.jwks import ASYMMETRIC, is_safe_url, is_url
from service.engine.settings import EngineSettings

KIB = 2**10
MIB = 2**20


class ServiceSettings(RegistrySettings):
    """The registry's settings, and the service's own."""

    host: str = Field(default="127.0.0.1", description="The address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    device: str = Field(default="cpu", description="Where to compute: cpu, cuda, cuda:1, mps.")
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="Precision of the backbone.")
    weights: str | None = Field(
        default=None,
        description="The backbones' weights: a .safetensors file, or 'random' to try things out; from the hub.",
    )
    max_backbones: int = Field(
        default=EngineSettings.backbones, ge=1, description="Backbones in memory; the one unused for longest leaves."
    )
    prompt_cache_bytes: int = Field(
        default=EngineSettings.prompt_bytes,
        ge=0,
        description="Memory for prompts that are ready to answer, for each backbone.",
    )
    pinned: str | None = Field(
        default=None,
        description="Releases whose prompts leave that memory last: TASK/RELEASE,TASK/RELEASE by names or ids.",
    )
    max_batch: int = Field(
        default=EngineSettings.batch_pictures, ge=1, description="Pictures that are computed at once at most."
    )
    max_pairs: int = Field(
        default=EngineSettings.batch_pairs,
        ge=1,
        description="Pairs of a picture and a prompt in one pass at most.",
    )
    max_waiting: int = Field(
        default=EngineSettings.queue_pictures, ge=1, description="Pictures that may wait; beyond, the answer is 503."
    )
    compute_threads: int | None = Field(
        default=None, ge=1, description="Threads that compute on a CPU; as many as torch finds cores."
    )
    decode_threads: int | None = Field(
        default=None, ge=1, description="Pictures that are decoded at once; one more than there are cores."
    )
    load_threads: int = Field(
        default=EngineSettings.load_threads, ge=1, description="Prompts that are read from the object store at once."
    )
    load_bytes: int = Field(
        default=EngineSettings.load_bytes, ge=1, description="Memory for prompts on their way from the object store."
    )
    deadline_s: float = Field(default=30.0, gt=0, description="A prediction that takes longer is given up.")
    max_pictures: int = Field(default=64, ge=1, description="Pictures in one request.")
    max_body_bytes: int = Field(default=32 * MIB, ge=1024, description="Size of a request that is no upload.")
    max_bodies_bytes: int = Field(
        default=512 * MIB, ge=1024, description="Size of all requests at once that are no uploads; beyond, 503."
    )
    max_upload_bytes: int = Field(default=4096 * MIB, ge=1024, description="Size of an uploaded archive.")
    max_prompt_bytes: int = Field(default=64 * MIB, ge=1024, description="Size of a prompt that was trained elsewhere.")
    max_uploads: int = Field(
        default=4, ge=1, description="Uploads at once, at most half of them one user's; beyond, the answer is 503."
    )
    read_timeout_s: float = Field(default=30.0, gt=0, description="How long a client may be silent within its request.")
    body_timeout_s: float = Field(default=120.0, gt=0, description="How long a request that is no upload may take.")
    upload_timeout_s: float = Field(default=3600.0, gt=0, description="How long sending an upload may take.")
    upload_least_bytes_per_s: int = Field(
        default=64 * KIB, ge=0, description="How fast an upload comes at least, after half a minute; 0 sets no limit."
    )
    head_timeout_s: float = Field(
        default=10.0, gt=0, description="How long the first line and the headers of a request may take."
    )
    send_timeout_s: float = Field(default=30.0, gt=0, description="How long a client may take nothing of its answer.")
    max_connections: int = Field(
        default=4096, ge=1, description="Connections at once; beyond, who has waited longest without asking is let go."
    )
    keep_alive_s: int = Field(default=15, ge=1, description="How long a connection stays open between requests.")
    drain_s: int = Field(default=30, ge=0, description="How long a shutdown waits for requests that are under way.")
    threads: int = Field(default=16, ge=1, description="Threads for work on the registry.")
    rate_per_s: float = Field(
        default=1000.0, ge=0, description="Requests a second with one token, to each replica; 0 sets no limit."
    )
    rate_burst: int = Field(default=2000, ge=1, description="Requests at once with one token that has been idle.")
    oidc_issuer: str | None = Field(default=None, description="Whose JWTs are accepted too: the issuer's URL.")
    oidc_audience: str | None = Field(
        default=None, validate_default=True, description="What its JWTs must be for; no issuer goes without."
    )
    oidc_keys: str | None = Field(
        default=None, validate_default=True, description="Its key set: a URL or a file; the issuer is asked for it."
    )
    oidc_algorithms: str = Field(default="RS256,ES256,EdDSA", description="How its JWTs may be signed; never by HS*.")
    oidc_leeway_s: float = Field(default=30.0, ge=0, le=300, description="How far its clock may be from ours.")
    oidc_refresh_s: float = Field(default=30.0, ge=1, description="How long an unknown key is not asked for again.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="What is logged.")

    @property
    def allowed_algorithms(self) -> tuple[str, ...]:
        """How JWTs may be signed."""
        return tuple(name.strip() for name in self.oidc_algorithms.split(","))

    @property
    def pinned_releases(self) -> tuple[tuple[str, str], ...]:
        """The task and the name of each release that is pinned."""
        return pairs_in(self.pinned or "")

    @field_validator("pinned")
    @classmethod
    def _name_task_and_release(cls, names: str | None) -> str | None:
        pairs_in(names or "")
        return names

    @field_validator("oidc_algorithms")
    @classmethod
    def _are_asymmetric(cls, names: str) -> str:
        if strange := sorted({name.strip() for name in names.split(",")} - ASYMMETRIC):
            raise ValueError(f"{strange[0]!r} is none of {', '.join(sorted(ASYMMETRIC))}")
        return names

    @field_validator("oidc_keys")
    @classmethod
    def _come_from_where_they_can_be_believed(cls, place: str | None, info: ValidationInfo) -> str | None:
        url = place or info.data.get("oidc_issuer") or ""
        if (is_url(url) or not place) and url and not is_safe_url(url):
            raise ValueError("keys are fetched by https, or from this machine: name a file with them instead")
        return place

    @field_validator("oidc_audience")
    @classmethod
    def _is_there_with_an_issuer(cls, audience: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("oidc_issuer") is not None and not audience:
            raise ValueError("an issuer signs for many services: name the audience that means this one")
        return audience


def pairs_in(names: str) -> tuple[tuple[str, str], ...]:
    """What is named as TASK/RELEASE, separated by commas; ValueError for a name without a slash."""
    pairs = [name.strip().partition("/") for name in names.split(",") if name.strip()]
    for task, _, release in pairs:
        if not task or not release:
            raise ValueError(f"a release is named as TASK/RELEASE, not {task or release!r}")
    return tuple((task, release) for task, _, release in pairs)


def read_service_settings(**given: object) -> ServiceSettings:
    """The settings as the environment has them, but for those that are given."""
    return load_settings(ServiceSettings, **given)
