"""How the service listens, computes and limits: read once at the entry point, from ALACARTE_* variables."""

from typing import Literal

from pydantic import Field

from registry.settings import RegistrySettings, read_settings_of

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
    prompt_cache_bytes: int = Field(default=512 * MIB, ge=0, description="Memory for prompts that are ready to answer.")
    max_batch: int = Field(default=32, ge=1, description="Pictures that are computed together at most.")
    max_waiting: int = Field(default=256, ge=1, description="Pictures that may wait; beyond, the answer is 503.")
    deadline_s: float = Field(default=30.0, gt=0, description="A prediction that takes longer is given up.")
    max_pictures: int = Field(default=64, ge=1, description="Pictures in one request.")
    max_body_bytes: int = Field(default=32 * MIB, ge=1024, description="Size of a request that is no upload.")
    max_bodies_bytes: int = Field(
        default=512 * MIB, ge=1024, description="Size of all requests at once that are no uploads; beyond, 503."
    )
    max_upload_bytes: int = Field(default=4096 * MIB, ge=1024, description="Size of an uploaded archive.")
    max_prompt_bytes: int = Field(default=64 * MIB, ge=1024, description="Size of a prompt that was trained elsewhere.")
    max_uploads: int = Field(default=4, ge=1, description="Uploads at once; beyond, the answer is 503.")
    read_timeout_s: float = Field(default=30.0, gt=0, description="How long a client may be silent within its request.")
    body_timeout_s: float = Field(default=120.0, gt=0, description="How long a request that is no upload may take.")
    upload_timeout_s: float = Field(default=3600.0, gt=0, description="How long sending an upload may take.")
    keep_alive_s: int = Field(default=15, ge=1, description="How long a connection stays open between requests.")
    drain_s: int = Field(default=30, ge=0, description="How long a shutdown waits for requests that are under way.")
    threads: int = Field(default=16, ge=1, description="Threads for work on the registry.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="What is logged.")


def read_service_settings(**given: object) -> ServiceSettings:
    """The settings as the environment has them, but for those that are given."""
    return read_settings_of(ServiceSettings, **given)
