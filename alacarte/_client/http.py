"""The wire to the service: one request at a time, JSON back, and every failure as an error of ours."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from alacarte._client.errors import AnswerUnreadable, ServiceProblem, ServiceUnreachable

PAGE = 200  # rows asked for at once
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
Query = Mapping[str, object]
Document = dict[str, Any]  # Any: as JSON has it


class Wire:
    """Connections to one service, on behalf of one token, which is never shown."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self.url = url.strip().rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no address of a service: give one such as http://127.0.0.1:8000")
        self._timeout_s = timeout_s
        # No proxy stands between a machine and itself.
        is_here = urlsplit(self.url).hostname in LOOPBACK
        self._http = httpx.Client(headers=_proof(token), timeout=timeout_s, trust_env=not is_here)

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def ask(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        answer_within_s: float | None = None,
        **body: Any,  # Any: the body in one of the ways of httpx
    ) -> Document:
        """The document in the answer, empty where there is none; parts of the path may hold any character."""
        address = "/".join([self.url, *(quote(part, safe="") for part in path)])
        timeout = httpx.Timeout(self._timeout_s, read=answer_within_s or self._timeout_s)
        try:
            answer = self._http.request(method, address, params=_told(query or {}), timeout=timeout, **body)
        except httpx.TimeoutException as error:
            raise ServiceUnreachable(f"{self.url} did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ServiceUnreachable(f"{self.url} cannot be reached: {reason}") from error
        if not answer.is_success:
            raise _problem_of(answer)
        return self._document(answer) if answer.content else {}

    def pages(self, *path: str, query: Query | None = None) -> Iterator[Document]:
        """The items of every page of a list, asked for one after the other."""
        after = None
        while True:
            page = self.ask("GET", *path, query={**(query or {}), "after": after, "limit": PAGE})
            yield from page.get("items", [])
            after = page.get("next")
            if after is None:
                return

    def _document(self, answer: httpx.Response) -> Document:
        try:
            document = answer.json()
        except ValueError as error:
            raise AnswerUnreadable(f"{self.url} does not answer in JSON: it is no service of this kind") from error
        if not isinstance(document, dict):
            raise AnswerUnreadable(f"{self.url} answers in another way: it is no service of this kind")
        return document


def _proof(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    token = token.strip()  # a file's last line ends in a break
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError("the token is empty or has characters that no token has: copy it again")
    return {"Authorization": f"Bearer {token}"}


def _told(query: Query) -> dict[str, str]:
    """The query without what was not said."""
    return {name: told(value) for name, value in query.items() if value is not None}


def fields_of(said: Query) -> dict[str, str | list[str]]:
    """The fields of a form without what was not said."""
    return {
        name: [told(item) for item in value] if isinstance(value, list | tuple) else told(value)
        for name, value in said.items()
        if value is not None
    }


def document_of(said: Query) -> Document:
    """The members of a JSON document without what was not said."""
    return {
        name: list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value
        for name, value in said.items()
        if value is not None
    }


def told(value: object) -> str:
    """A value as queries and forms have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem_of(answer: httpx.Response) -> ServiceProblem:
    """What the service said is wrong, or what the status says where something else answered."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    waits = answer.headers.get("Retry-After", "")
    moved = answer.headers.get("Location")
    detail = f"the service is at {moved}" if answer.is_redirect and moved else ""
    return ServiceProblem(
        answer.status_code,
        str(document.get("title") or answer.reason_phrase or "Unexpected answer"),
        str(document.get("detail") or detail),
        kind=str(document.get("type") or "").rpartition(":")[2],
        request_id=document.get("request_id"),
        retry_after_s=float(waits) if waits.isdecimal() else None,
    )
