"""How a caller proves who they are: by a token of ours, or as a subject that an issuer vouched for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hmac import compare_digest as compare_digest  # by its name here, so that a test can watch it
from typing import Any, ClassVar, Literal, cast

from sqlalchemy import ColumnElement, Row, Select, bindparam, or_, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import Caller
from registry.db.clock import UtcDateTime, now
from registry.db.database import Database
from registry.db.models.users import Token, User
from registry.errors import Unauthenticated

CredentialKind = Literal["token", "subject"]


@dataclass(frozen=True)
class TokenCredential:
    """What a token's text comes to in SQL: the row that it names, and the hash that the row must have."""

    kind: ClassVar[CredentialKind] = "token"
    prefix: str
    hash: str = field(repr=False)

    @property
    def public_id(self) -> str:
        """Which token it is, as may be told."""
        return self.prefix

    @property
    def parameters(self) -> Mapping[str, object]:
        """What `identity_statement` is asked with."""
        return {"prefix": self.prefix}

    @property
    def stored_value(self) -> str:
        """What is kept of it in SQL."""
        return self.hash

    def matches(self, kept: str) -> bool:
        """Whether the kept hash is that of the text, told in a time that says nothing of either."""
        return compare_digest(self.hash, kept)


@dataclass(frozen=True)
class OidcCredential:
    """A subject whose signature was checked, and until when that counts; who it is only SQL knows."""

    kind: ClassVar[CredentialKind] = "subject"
    issuer: str
    subject: str
    until: datetime

    @property
    def public_id(self) -> str:
        """Which subject it is, whichever of its documents it showed."""
        return f"{self.issuer} {self.subject}"

    @property
    def parameters(self) -> Mapping[str, object]:
        """What `identity_statement` is asked with."""
        return {"issuer": self.issuer, "subject": self.subject, "until": self.until}

    @property
    def stored_value(self) -> str:
        """What is kept of it in SQL."""
        return self.subject

    def matches(self, kept: str) -> bool:
        """Whether the row is this subject's, letter for letter, whatever a database takes for equal."""
        return self.subject == kept


Credential = TokenCredential | OidcCredential


@cache
def identity_statement(
    kind: CredentialKind,
) -> Select[*tuple[Any, ...]]:  # Any: what is kept of the credential, the user's id and role
    """Return the statement that finds the user of a credential, as columns `kept`, `id`, `role`.

    It yields at most one row, which counts only if the credential matches `kept`. Expiry is compared with the
    database's clock each time.
    """
    if kind == "token":
        held = select(Token.hash.label("kept"), User.id, User.role).join(User, User.id == Token.user_id)
        return held.where(Token.prefix == bindparam("prefix"), _is_alive())
    bound = select(User.subject.label("kept"), User.id, User.role)
    return bound.where(
        User.issuer == bindparam("issuer"),
        User.subject == bindparam("subject"),
        bindparam("until", type_=UtcDateTime()) > now(),
    )


def authenticate_in_session(session: Session, credential: Credential) -> Caller:
    """Who proves themselves so now, or Unauthenticated."""
    return _proved(session.execute(identity_statement(credential.kind), dict(credential.parameters)).all(), credential)


def authenticate(database: Database, credential: Credential) -> Caller:
    """As `authenticate_in_session`, where it is all that is asked: by one statement, in one round trip."""
    return _proved(database.fetch_rows(identity_statement(credential.kind), credential.parameters), credential)


def _proved(rows: Sequence[Row[Any]], credential: Credential) -> Caller:  # Any: as `identity_statement` has them
    if not rows or not credential.matches(rows[0].kept):
        raise Unauthenticated
    return Caller(rows[0].id, cast(Role, rows[0].role))


def _is_alive() -> ColumnElement[bool]:
    return or_(Token.expires_at.is_(None), Token.expires_at > now())
