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
from registry.db.clock import Moment, now
from registry.db.database import Database
from registry.db.models.users import Token, User
from registry.errors import Unauthenticated

ProofKind = Literal["token", "subject"]


@dataclass(frozen=True)
class TokenProof:
    """What a token's text comes to in SQL: the row that it names, and the hash that the row must have."""

    kind: ClassVar[ProofKind] = "token"
    prefix: str
    hash: str = field(repr=False)

    @property
    def name(self) -> str:
        """Which token it is, as may be told."""
        return self.prefix

    @property
    def binds(self) -> Mapping[str, object]:
        """What `who_of` is asked with."""
        return {"prefix": self.prefix}

    @property
    def kept(self) -> str:
        """What is kept of it in SQL."""
        return self.hash

    def holds_for(self, kept: str) -> bool:
        """Whether the kept hash is that of the text, told in a time that says nothing of either."""
        return compare_digest(self.hash, kept)


@dataclass(frozen=True)
class SubjectProof:
    """A subject whose signature was checked, and until when that counts; who it is only SQL knows."""

    kind: ClassVar[ProofKind] = "subject"
    issuer: str
    subject: str
    until: datetime

    @property
    def name(self) -> str:
        """Which subject it is, whichever of its documents it showed."""
        return f"{self.issuer} {self.subject}"

    @property
    def binds(self) -> Mapping[str, object]:
        """What `who_of` is asked with."""
        return {"issuer": self.issuer, "subject": self.subject, "until": self.until}

    @property
    def kept(self) -> str:
        """What is kept of it in SQL."""
        return self.subject

    def holds_for(self, kept: str) -> bool:
        """Whether the row is this subject's, letter for letter, whatever a database takes for equal."""
        return self.subject == kept


Proof = TokenProof | SubjectProof


@cache
def who_of(kind: ProofKind) -> Select[*tuple[Any, ...]]:  # Any: what is kept of the proof, the user's id and role
    """The statement that finds who a proof of the kind may be of: `kept`, `id`, `role`; it binds the proof's `binds`.

    At most one row, and it counts only if the proof holds for what is kept. Whether a proof has expired is told by the
    database's clock, each time that it is asked.
    """
    if kind == "token":
        held = select(Token.hash.label("kept"), User.id, User.role).join(User, User.id == Token.user_id)
        return held.where(Token.prefix == bindparam("prefix"), _is_alive())
    bound = select(User.subject.label("kept"), User.id, User.role)
    return bound.where(
        User.issuer == bindparam("issuer"),
        User.subject == bindparam("subject"),
        bindparam("until", type_=Moment()) > now(),
    )


def authenticate(session: Session, proof: Proof) -> Caller:
    """Who proves themselves so now, or Unauthenticated."""
    return _proved(session.execute(who_of(proof.kind), dict(proof.binds)).all(), proof)


def caller_of(database: Database, proof: Proof) -> Caller:
    """As `authenticate`, where it is all that is asked: by one statement, in one round trip."""
    return _proved(database.fetch(who_of(proof.kind), proof.binds), proof)


def _proved(rows: Sequence[Row[Any]], proof: Proof) -> Caller:  # Any: as `who_of` has them
    if not rows or not proof.holds_for(rows[0].kept):
        raise Unauthenticated
    return Caller(rows[0].id, cast(Role, rows[0].role))


def _is_alive() -> ColumnElement[bool]:
    return or_(Token.expires_at.is_(None), Token.expires_at > now())
