"""The connection to the service: requests out, validated models or the client's own errors back."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

import httpx
from pydantic import BaseModel, ValidationError

from alacarte._client.errors import InvalidResponse, ServiceProblem, ServiceUnreachable
from alacarte.api.base import PageResponse

PAGE_LIMIT = 200
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

M = TypeVar("M", bound=BaseModel)
Fields = Mapping[str, object]


class HttpConnection:
    """Connections to one service with one token, which no message shows."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self.url = url.strip().rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not the URL of a service: give one such as http://127.0.0.1:8000")
        self._timeout_s = timeout_s
        is_local = urlsplit(self.url).hostname in LOOPBACK_HOSTS  # a local service is reached without a proxy
        self._http = httpx.Client(headers=_authorization(token), timeout=timeout_s, trust_env=not is_local)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        *path: str | UUID,
        query: Fields | None = None,
        read_timeout_s: float | None = None,
        **body: Any,  # Any: the arguments of httpx for a body
    ) -> bytes:
        """Return the body of a successful response; the parts of the path may contain any character."""
        url = "/".join([self.url, *(quote(str(part), safe="") for part in path)])
        timeout = httpx.Timeout(self._timeout_s, read=read_timeout_s or self._timeout_s)
        try:
            response = self._http.request(method, url, params=form_fields(query or {}), timeout=timeout, **body)
        except httpx.TimeoutException as error:
            raise ServiceUnreachable(f"{self.url} did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ServiceUnreachable(f"{self.url} cannot be reached: {reason}") from error
        if not response.is_success:
            raise _to_problem(response)
        return response.content

    def fetch(self, model: type[M], method: str, *path: str | UUID, **options: Any) -> M:  # Any: as of request
        """Return the response as the model; raise InvalidResponse if it is anything else."""
        content = self.request(method, *path, **options)
        try:
            return model.model_validate_json(content, strict=True)
        except ValidationError as error:
            raise InvalidResponse(
                f"{self.url} did not answer with a valid {model.__name__}: it is not an alacarte service, "
                "or one of another version"
            ) from error

    def fetch_all(self, model: type[PageResponse[M]], *path: str | UUID, query: Fields | None = None) -> list[M]:
        """Return the items of all pages of a list."""
        items: list[M] = []
        after: str | None = None
        while True:
            page = self.fetch(model, "GET", *path, query={**(query or {}), "after": after, "limit": PAGE_LIMIT})
            items += page.items
            after = page.next
            if after is None:
                return items


def form_fields(values: Fields) -> dict[str, str | list[str]]:
    """Return the values as the fields of a query or form, without those that are None."""
    return {
        name: [_to_text(item) for item in value] if isinstance(value, list | tuple) else _to_text(value)
        for name, value in values.items()
        if value is not None
    }


def json_body(values: Fields) -> dict[str, object]:
    """Return the values as the members of a JSON object, without those that are None."""
    return {
        name: str(value) if isinstance(value, UUID) else value for name, value in values.items() if value is not None
    }


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _authorization(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    token = token.strip()  # the last line of a file ends in a line break
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError("the token is empty or has characters that no token has: copy it again")
    return {"Authorization": f"Bearer {token}"}


def _to_problem(response: httpx.Response) -> ServiceProblem:
    """Read the problem document; without one, as from a proxy, use the status."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    retry_after = response.headers.get("Retry-After", "")
    location = response.headers.get("Location")
    detail = f"the service is at {location}" if response.is_redirect and location else ""
    return ServiceProblem(
        response.status_code,
        str(document.get("title") or response.reason_phrase or "Unexpected answer"),
        str(document.get("detail") or detail),
        kind=str(document.get("type") or "").rpartition(":")[2],
        request_id=document.get("request_id"),
        retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
    )
