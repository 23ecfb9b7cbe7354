"""The calls for tasks, users, tokens, grants and releases, and the resolution of names to ids."""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from alacarte._client.errors import ServiceProblem
from alacarte._client.http import HttpConnection, json_body
from alacarte.api.base import PageResponse
from alacarte.api.literals import Composition, Right, Role, Weighting
from alacarte.api.releases import ReleaseDetailResponse, ReleaseResponse
from alacarte.api.sources import SourceResponse
from alacarte.api.tasks import TaskResponse
from alacarte.api.users import GrantResponse, IssuedTokenResponse, QuotaResponse, TokenResponse, UserResponse

NameOrId = str | UUID
RecipeOption = str | int | float | bool
T = TypeVar("T")


class AdminCalls:
    """What admins and owners do; users, sources and releases may be given by name or id."""

    def __init__(self, http: HttpConnection) -> None:
        self._http = http

    def list_tasks(self) -> list[TaskResponse]:
        """Return all tasks, oldest first."""
        return self._http.fetch_all(PageResponse[TaskResponse], "tasks")

    def get_task(self, task: NameOrId) -> TaskResponse:
        """Return one task."""
        return self._http.fetch(TaskResponse, "GET", "tasks", task)

    def create_task(
        self,
        name: str,
        *,
        backbone: str,
        size: int | None = None,
        labels: Iterable[str] | None = None,
        composition: Composition | None = None,
        weighting: Weighting | None = None,
        recipe: Mapping[str, RecipeOption] | None = None,
    ) -> TaskResponse:
        """Create a task; without labels it has those that its sources bring."""
        body = {
            "name": name,
            "backbone": backbone,
            "size": size,
            "labels": None if labels is None else list(labels),
            "composition": composition,
            "weighting": weighting,
            "recipe": recipe,
        }
        return self._http.fetch(TaskResponse, "POST", "tasks", json=json_body(body))

    def delete_task(self, task: NameOrId) -> None:
        """Delete a task that has no sources and no releases."""
        self._http.request("DELETE", "tasks", task if is_id(task) else self.get_task(task).id)

    def list_users(self) -> list[UserResponse]:
        """Return the users and groups that you may see, oldest first."""
        return self._http.fetch_all(PageResponse[UserResponse], "users")

    def get_current_user(self) -> UserResponse:
        """Return the user of the token."""
        return self._http.fetch(UserResponse, "GET", "users", "me")

    def get_user(self, user: NameOrId) -> UserResponse:
        """Return one user or group."""
        return self._http.fetch(UserResponse, "GET", "users", self._user_id(user))

    def create_user(self, name: str, role: Role = "predictor", *, is_group: bool = False) -> UserResponse:
        """Create a user or a group."""
        body = {"name": name, "role": role, "is_group": is_group}
        return self._http.fetch(UserResponse, "POST", "users", json=body)

    def delete_user(self, user: NameOrId) -> None:
        """Delete a user with their tokens and grants; their sources stay, without an owner."""
        self._http.request("DELETE", "users", self._user_id(user))

    def list_groups(self, user: NameOrId) -> list[UserResponse]:
        """Return the groups that a user is in."""
        return self._http.fetch_all(PageResponse[UserResponse], "users", self._user_id(user), "groups")

    def list_members(self, group: NameOrId) -> list[UserResponse]:
        """Return the members of a group."""
        return self._http.fetch_all(PageResponse[UserResponse], "users", self._user_id(group), "members")

    def add_member(self, group: NameOrId, user: NameOrId) -> None:
        """Add a user to a group, whose grants the user then has."""
        self._http.request("PUT", "users", self._user_id(group), "members", self._user_id(user))

    def remove_member(self, group: NameOrId, user: NameOrId) -> None:
        """Remove a user from a group."""
        self._http.request("DELETE", "users", self._user_id(group), "members", self._user_id(user))

    def bind_subject(self, user: NameOrId, subject: str, issuer: str | None = None) -> UserResponse:
        """Accept the JWTs of an OpenID Connect subject for this user; by default of the service's own issuer."""
        body = json_body({"subject": subject, "issuer": issuer})
        return self._http.fetch(UserResponse, "PUT", "users", self._user_id(user), "subject", json=body)

    def unbind_subject(self, user: NameOrId) -> None:
        """Stop accepting JWTs for this user, at once."""
        self._http.request("DELETE", "users", self._user_id(user), "subject")

    def get_quota(self, user: NameOrId) -> QuotaResponse:
        """Return how much a user stores and may store."""
        return self._http.fetch(QuotaResponse, "GET", "users", self._user_id(user), "quota")

    def set_quota(self, user: NameOrId, quota_bytes: int | None) -> QuotaResponse:
        """Set how much a user may store; None restores the service's default."""
        body = {"quota_bytes": quota_bytes}
        return self._http.fetch(QuotaResponse, "PUT", "users", self._user_id(user), "quota", json=body)

    def list_tokens(self, user: NameOrId | None = None) -> list[TokenResponse]:
        """Return the tokens of a user, or all that you may see, without their secrets."""
        query = {"user": self._optional_user_id(user)}
        return self._http.fetch_all(PageResponse[TokenResponse], "tokens", query=query)

    def create_token(
        self, user: NameOrId | None = None, *, note: str = "", lifetime_s: float | None = None
    ) -> IssuedTokenResponse:
        """Create a token for a user, by default for yourself; its `text` is shown only once."""
        body = {"user": self._optional_user_id(user), "note": note, "lifetime_s": lifetime_s}
        return self._http.fetch(IssuedTokenResponse, "POST", "tokens", json=json_body(body))

    def revoke_token(self, token_id: NameOrId) -> None:
        """Revoke a token, at once."""
        self._http.request("DELETE", "tokens", token_id)

    def list_grants(self, source: NameOrId | None = None, user: NameOrId | None = None) -> list[GrantResponse]:
        """Return the grants that you may see, of a source or a user if given."""
        query = {
            "source": None if source is None else self._source_id(source),
            "user": self._optional_user_id(user),
        }
        return self._http.fetch_all(PageResponse[GrantResponse], "grants", query=query)

    def create_grant(self, user: NameOrId, source: NameOrId, right: Right = "use") -> GrantResponse:
        """Grant a user or group a right to a source."""
        body = {"user": self._user_id(user), "source": self._source_id(source), "right": right}
        return self._http.fetch(GrantResponse, "POST", "grants", json=json_body(body))

    def revoke_grant(self, user: NameOrId, source: NameOrId, right: Right = "use") -> None:
        """Revoke a right to a source, at once."""
        query = {"user": self._user_id(user), "source": self._source_id(source), "right": right}
        self._http.request("DELETE", "grants", query=query)

    def list_releases(self, task: NameOrId | None = None) -> list[ReleaseResponse]:
        """Return all releases, or those of a task, oldest first."""
        return self._http.fetch_all(PageResponse[ReleaseResponse], "releases", query={"task": task})

    def get_release(self, release: NameOrId, task: NameOrId | None = None) -> ReleaseDetailResponse:
        """Return the prompts that a release pins and those it lost; a name may need its task."""
        return self._http.fetch(ReleaseDetailResponse, "GET", "releases", self._release_id(release, task))

    def pin_release(self, task: NameOrId, name: str) -> ReleaseResponse:
        """Pin all prompts that the task has now under a name."""
        body = json_body({"task": task, "name": name})
        return self._http.fetch(ReleaseResponse, "POST", "releases", json=body)

    def delete_release(self, release: NameOrId, task: NameOrId | None = None) -> None:
        """Delete a release; its prompts stay."""
        self._http.request("DELETE", "releases", self._release_id(release, task))

    def list_sources(self, task: NameOrId | None = None) -> list[SourceResponse]:
        """Return the sources that you may see, of a task if given, oldest first."""
        return self._http.fetch_all(PageResponse[SourceResponse], "sources", query={"task": task})

    def find_source(self, source: NameOrId, task: NameOrId | None = None) -> SourceResponse:
        """Return the source with this name or id, of a task if given."""
        sources = self.list_sources(task)
        if is_id(source):
            return require_one("source", source, [one for one in sources if str(one.id) == str(source).lower()])
        return require_one("source", source, [one for one in sources if one.name == normalize_name(source)])

    def _user_id(self, user: NameOrId) -> NameOrId:
        if is_id(user):
            return user
        return require_one("user", user, [one.id for one in self.list_users() if one.name == normalize_name(user)])

    def _optional_user_id(self, user: NameOrId | None) -> NameOrId | None:
        return None if user is None else self._user_id(user)

    def _release_id(self, release: NameOrId, task: NameOrId | None) -> NameOrId:
        if is_id(release):
            return release
        releases = self.list_releases(task)
        return require_one("release", release, [one.id for one in releases if one.name == normalize_name(release)])

    def _source_id(self, source: NameOrId) -> NameOrId:
        return source if is_id(source) else self.find_source(source).id


def is_id(name: NameOrId) -> bool:
    """Tell whether this is an id rather than a name, as the service decides it."""
    try:
        return isinstance(name, UUID) or str(UUID(name)) == name.lower()
    except ValueError:
        return False


def normalize_name(name: NameOrId) -> str:
    """Return the name in NFC, in which the service stores names."""
    return unicodedata.normalize("NFC", str(name))


def require_one(kind: str, name: NameOrId, matches: list[T], ambiguous: str | None = None) -> T:
    """Return the only match, or raise the problem that the service has for an unknown or ambiguous name."""
    if not matches:
        raise ServiceProblem(404, "Not found", f"no {kind} {str(name)!r} that you may see", kind="not-found")
    if len(matches) > 1:
        ambiguous = ambiguous or f"several tasks have a {kind} {str(name)!r}: give its id"
        raise ServiceProblem(409, "Conflict", ambiguous, kind="conflict")
    return matches[0]
