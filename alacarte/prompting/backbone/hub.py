"""Download a file from the model hub, or find it in the local cache; an unreachable hub fails within seconds."""

import os
import threading
from pathlib import Path

from huggingface_hub import constants, get_session, hf_hub_download, hf_hub_url, try_to_load_from_cache

from alacarte.prompting.errors import WeightsUnavailable

TIMEOUT_SECONDS = 5


def fetch(repository: str, filename: str) -> Path:
    """Return the file's path in the local cache, downloaded if necessary; `repository` may end in @revision."""
    name, _, revision = repository.partition("@")
    cached = try_to_load_from_cache(name, filename, revision=revision or None)
    if isinstance(cached, str):
        return Path(cached)
    if constants.HF_HUB_OFFLINE:
        raise WeightsUnavailable(f"{name} is not in the local cache, and HF_HUB_OFFLINE forbids a download")
    endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")
    _probe(hf_hub_url(name, filename, revision=revision or None, endpoint=endpoint), endpoint)
    try:
        return Path(
            hf_hub_download(name, filename, revision=revision or None, endpoint=endpoint, etag_timeout=TIMEOUT_SECONDS)
        )
    except Exception as error:  # the HTTP library, and so its errors, depends on the hub's version
        cause = error.__cause__ or error  # the hub's own message says only "check your connection"
        reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
        raise WeightsUnavailable(f"{filename} of {name} could not be downloaded from {endpoint}: {reason}") from error


def _probe(url: str, endpoint: str) -> None:
    """Send one request to the download's URL first: the hub's own retries go on for minutes."""
    answers: list[int | Exception] = []

    def request() -> None:
        try:
            answers.append(get_session().head(url, timeout=TIMEOUT_SECONDS).status_code)
        except Exception as error:  # see fetch
            answers.append(error)

    # In a thread that can be left behind, because the DNS lookup has no timeout.
    thread = threading.Thread(target=request, name="hub-probe", daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS + 1)
    answer = answers[0] if answers else None
    if answer is None or isinstance(answer, Exception):
        cause = answer if isinstance(answer, Exception) else None
        raise WeightsUnavailable(f"no hub answered within {TIMEOUT_SECONDS} s at {endpoint}") from cause
    if answer == 429 or answer >= 500:  # the hub's client would retry these
        raise WeightsUnavailable(f"the hub at {endpoint} answered HTTP {answer}")
