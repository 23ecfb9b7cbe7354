"""Fetch a file from the model hub, its local cache first; a hub that does not answer costs seconds."""

import os
import threading
from pathlib import Path

from huggingface_hub import constants, get_session, hf_hub_download, hf_hub_url, try_to_load_from_cache

from alacarte.prompting.errors import WeightsUnavailable

PATIENCE_SECONDS = 5


def fetch(repository: str, filename: str) -> Path:
    """The file's path in the local cache, downloaded if need be; `repository` may end in @revision."""
    name, _, revision = repository.partition("@")
    cached = try_to_load_from_cache(name, filename, revision=revision or None)
    if isinstance(cached, str):
        return Path(cached)
    if constants.HF_HUB_OFFLINE:
        raise WeightsUnavailable(f"{name} is not in the local cache, and HF_HUB_OFFLINE forbids to ask the hub")
    endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")
    _expect_answer(hf_hub_url(name, filename, revision=revision or None, endpoint=endpoint), endpoint)
    try:
        return Path(
            hf_hub_download(name, filename, revision=revision or None, endpoint=endpoint, etag_timeout=PATIENCE_SECONDS)
        )
    except Exception as error:  # which library carries the bytes, and its errors, depends on the hub's version
        fault = error.__cause__ or error  # it wraps what happened into "check your connection"
        reason = str(fault).strip().partition("\n")[0] or type(fault).__name__
        raise WeightsUnavailable(f"{filename} of {name} could not be had from {endpoint}: {reason}") from error


def _expect_answer(url: str, endpoint: str) -> None:
    """Ask once, on the way that the download would take: the hub's own retries go on for minutes."""
    answers: list[int | Exception] = []

    def ask() -> None:
        try:
            answers.append(get_session().head(url, timeout=PATIENCE_SECONDS).status_code)
        except Exception as error:  # see fetch
            answers.append(error)

    # A look-up of the host's name knows no timeout: a thread can be left behind instead.
    thread = threading.Thread(target=ask, name="hub-probe", daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS + 1)
    answer = answers[0] if answers else None
    if answer is None or isinstance(answer, Exception):
        cause = answer if isinstance(answer, Exception) else None
        raise WeightsUnavailable(f"no hub answered within {PATIENCE_SECONDS} s at {endpoint}") from cause
    if answer == 429 or answer >= 500:  # what the hub's client would try again and again
        raise WeightsUnavailable(f"the hub at {endpoint} answered HTTP {answer}")
