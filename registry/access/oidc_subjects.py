"""OIDC subjects: which user a subject of an external issuer is. Only admins bind and unbind subjects."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal
from uuid import UUID

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_ISSUER_LENGTH, MAX_SUBJECT_LENGTH
from registry.access.caller import Caller, require_admin
from registry.db.locks import lock_user
from registry.db.models.users import User
from registry.errors import Conflict, Invalid, NotFound
from registry.log import chain


@dataclass(frozen=True)
class OidcCredential:
    """The subject of a JWT whose signature was verified, valid until its expiry."""

    kind: ClassVar[Literal["oidc"]] = "oidc"
    issuer: str
    subject: str
    expires_at: datetime

    @property
    def public_id(self) -> str:
        """Name the subject, the same for all of its JWTs."""
        return f"{self.issuer} {self.subject}"

    @property
    def parameters(self) -> Mapping[str, object]:
        """Return the bind parameters of the query that finds the user."""
        return {"issuer": self.issuer, "subject": self.subject, "expires_at": self.expires_at}

    @property
    def stored_value(self) -> str:
        """Return what the database holds of a bound subject."""
        return self.subject

    def matches(self, stored_value: str) -> bool:
        """Compare the subjects exactly, whatever the collation of the database."""
        return self.subject == stored_value


def is_subject(text: str) -> bool:
    """Return whether the text can be a subject; subjects are compared exactly and never normalised."""
    return 1 <= len(text) <= MAX_SUBJECT_LENGTH and text.isprintable()


def bind_subject(session: Session, caller: Caller, user_id: UUID, issuer: str, subject: str) -> User:
    """Let JWTs of this subject authenticate the user; it replaces the subject that was bound before."""
    require_admin(caller)
    if not is_subject(subject):
        raise Invalid(f"a subject has 1 to {MAX_SUBJECT_LENGTH} printable characters, not {len(subject)}")
    if not (1 <= len(issuer) <= MAX_ISSUER_LENGTH and issuer.isprintable()):
        raise Invalid(f"the issuer is the URL in the claim `iss` of its tokens, at most {MAX_ISSUER_LENGTH} characters")
    user = lock_user(session, user_id)
    if user.is_group:
        raise Invalid("groups do not sign in: bind the subject to a member")
    if (user.issuer, user.subject) == (issuer, subject):
        return user
    try:
        with session.begin_nested():
            user.issuer, user.subject = issuer, subject
            session.flush()
    except IntegrityError as error:
        raise Conflict("this subject is bound to another user: unbind it there first") from error
    chain.append_entry(session, caller.user_id, "user.bound", user=user.id)
    return user


def unbind_subject(session: Session, caller: Caller, user_id: UUID) -> User:
    """Unbind the user's subject; its JWTs are refused from now on, whatever their expiry."""
    require_admin(caller)
    user = lock_user(session, user_id)
    if user.subject is None:
        raise NotFound("subject of the user", user_id)
    user.issuer = user.subject = None
    session.flush()
    chain.append_entry(session, caller.user_id, "user.unbound", user=user.id)
    return user
