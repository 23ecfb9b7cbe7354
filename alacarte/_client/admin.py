"""The calls of administration: tasks, users, tokens, grants and releases."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from alacarte._client.errors import ServiceProblem
from alacarte._client.http import Wire, document_of
from alacarte._client.ids import is_id, kept_form
from alacarte._client.json_fields import read
from alacarte._client.models import Source, Task
from alacarte._client.release_models import Contents, Release
from alacarte._client.user_models import Grant, IssuedToken, Quota, Token, User

Setting = str | int | float | bool
T = TypeVar("T")


class Administration:
    """What admins and owners do; users and sources may be named by their names or ids."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def tasks(self) -> list[Task]:
        """All tasks, the oldest first."""
        return [read(Task, one) for one in self._wire.pages("tasks")]

    def task(self, task: str) -> Task:
        """The task of that name or id."""
        return read(Task, self._wire.ask("GET", "tasks", task))

    def create_task(
        self,
        name: str,
        *,
        backbone: str,
        size: int | None = None,
        labels: Collection[str] | None = None,
        composition: str | None = None,
        weighting: str | None = None,
        recipe: Mapping[str, Setting] | None = None,
    ) -> Task:
        """A new task; without labels it has those that its sources bring."""
        said = {"name": name, "backbone": backbone, "size": size, "labels": labels, "recipe": recipe}
        said |= {"composition": composition, "weighting": weighting}
        return read(Task, self._wire.ask("POST", "tasks", json=document_of(said)))

    def remove_task(self, task: str) -> None:
        """Removes a task in which nothing is left."""
        self._wire.ask("DELETE", "tasks", task if is_id(task) else self.task(task).id)

    def users(self) -> list[User]:
        """The users and groups that you may see."""
        return [read(User, one) for one in self._wire.pages("users")]

    def me(self) -> User:
        """Whose token it is."""
        return read(User, self._wire.ask("GET", "users", "me"))

    def user(self, user: str) -> User:
        """The user or group of that name or id."""
        return read(User, self._wire.ask("GET", "users", self._user_id(user)))

    def groups(self, user: str) -> list[User]:
        """The groups that a user is in."""
        return [read(User, one) for one in self._wire.pages("users", self._user_id(user), "groups")]

    def members(self, group: str) -> list[User]:
        """The members of a group."""
        return [read(User, one) for one in self._wire.pages("users", self._user_id(group), "members")]

    def create_user(self, name: str, role: str = "predictor", *, is_group: bool = False) -> User:
        """A new user or group."""
        return read(User, self._wire.ask("POST", "users", json={"name": name, "role": role, "is_group": is_group}))

    def remove_user(self, user: str) -> None:
        """Removes a user with their tokens and grants; their sources stay, without an owner."""
        self._wire.ask("DELETE", "users", self._user_id(user))

    def bind_subject(self, user: str, subject: str, issuer: str | None = None) -> User:
        """Lets a subject of an issuer, the service's own if none is named, prove to be this user by its JWTs."""
        said = document_of({"subject": subject, "issuer": issuer})
        return read(User, self._wire.ask("PUT", "users", self._user_id(user), "subject", json=said))

    def unbind_subject(self, user: str) -> None:
        """Ends what the user's subject proves, at once."""
        self._wire.ask("DELETE", "users", self._user_id(user), "subject")

    def quota(self, user: str) -> Quota:
        """What a user stores and may store."""
        return read(Quota, self._wire.ask("GET", "users", self._user_id(user), "quota"))

    def set_quota(self, user: str, quota_bytes: int | None) -> Quota:
        """Says what a user may store; None for what the service's default says."""
        said = {"quota_bytes": quota_bytes}
        return read(Quota, self._wire.ask("PUT", "users", self._user_id(user), "quota", json=said))

    def add_member(self, group: str, user: str) -> None:
        """Lets a user have what the group is granted."""
        self._wire.ask("PUT", "users", self._user_id(group), "members", self._user_id(user))

    def remove_member(self, group: str, user: str) -> None:
        """Ends what a user has through the group."""
        self._wire.ask("DELETE", "users", self._user_id(group), "members", self._user_id(user))

    def tokens(self, user: str | None = None) -> list[Token]:
        """The tokens of a user, or all that you may see, without what proves them."""
        query = {"user": None if user is None else self._user_id(user)}
        return [read(Token, one) for one in self._wire.pages("tokens", query=query)]

    def issue_token(self, user: str | None = None, *, note: str = "", lifetime_s: float | None = None) -> IssuedToken:
        """A new token of a user, your own if none is named; its `text` is told this once."""
        said = {"user": None if user is None else self._user_id(user), "note": note, "lifetime_s": lifetime_s}
        return read(IssuedToken, self._wire.ask("POST", "tokens", json=document_of(said)))

    def revoke_token(self, token_id: str) -> None:
        """Ends a token at once."""
        self._wire.ask("DELETE", "tokens", token_id)

    def grants(self, source: str | None = None, user: str | None = None) -> list[Grant]:
        """The grants that you may see, of a source or of a user if named."""
        query = {
            "source": None if source is None else self._source_id(source),
            "user": None if user is None else self._user_id(user),
        }
        return [read(Grant, one) for one in self._wire.pages("grants", query=query)]

    def grant(self, user: str, source: str, right: str = "use") -> Grant:
        """Gives a user or group a right to a source."""
        said = {"user": self._user_id(user), "source": self._source_id(source), "right": right}
        return read(Grant, self._wire.ask("POST", "grants", json=said))

    def revoke(self, user: str, source: str, right: str = "use") -> None:
        """Takes a right back, at once."""
        said = {"user": self._user_id(user), "source": self._source_id(source), "right": right}
        self._wire.ask("DELETE", "grants", query=said)

    def releases(self, task: str | None = None) -> list[Release]:
        """All releases, or those of a task."""
        return [read(Release, one) for one in self._wire.pages("releases", query={"task": task})]

    def release(self, release: str, task: str | None = None) -> Contents:
        """What the release of that name or id pins, and what it lost to erasures; a name may need its task."""
        return read(Contents, self._wire.ask("GET", "releases", self._release_id(release, task)))

    def pin_release(self, task: str, name: str) -> Release:
        """Pins all prompts that the task has now under a name."""
        return read(Release, self._wire.ask("POST", "releases", json={"task": task, "name": name}))

    def remove_release(self, release: str, task: str | None = None) -> None:
        """Unpins everything; the prompts themselves stay."""
        self._wire.ask("DELETE", "releases", self._release_id(release, task))

    def sources(self, task: str | None = None) -> list[Source]:
        """The sources that you may see, of a task if one is named."""
        return [read(Source, one) for one in self._wire.pages("sources", query={"task": task})]

    def find_source(self, source: str, task: str | None = None) -> Source:
        """The source of that name or id, within a task if one is named."""
        wanted = source.lower() if is_id(source) else kept_form(source)
        return _only("source", source, [one for one in self.sources(task) if wanted in (one.id, one.name)])

    def _user_id(self, user: str) -> str:
        if is_id(user):
            return user
        return _only("user", user, [one.id for one in self.users() if one.name == kept_form(user)])

    def _release_id(self, release: str, task: str | None) -> str:
        if is_id(release):
            return release
        return _only("release", release, [one.id for one in self.releases(task) if one.name == kept_form(release)])

    def _source_id(self, source: str) -> str:
        return source if is_id(source) else self.find_source(source).id


def _only(kind: str, name: str, found: list[T]) -> T:
    """As the service would answer, had it been asked by the name."""
    if not found:
        raise ServiceProblem(404, "Not found", f"no {kind} {name!r} that you may see", kind="not-found")
    if len(found) > 1:
        raise ServiceProblem(409, "Conflict", f"several tasks have a {kind} {name!r}: give its id", kind="conflict")
    return found[0]
