"""Tokens: issue, parse, hash, compare, list and revoke. The text is shown once; the database keeps its SHA-256."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hmac import compare_digest as compare_digest  # a name of this module, so that a test can replace it
from typing import ClassVar, Literal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_TOKEN_LIFETIME
from registry.access.caller import Caller, require_admin
from registry.access.users import find_user, require_user
from registry.catalog.names import validate_text
from registry.db.clock import now, seconds_from_now
from registry.db.models.users import Token
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Invalid, NotFound, Unauthenticated
from registry.ids import new_id
from registry.log import chain

PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
PREFIX_LENGTH = 12
TOKEN_START = "alc_"  # noqa: S105  # the first letters of every token, no secret
SECRET_BYTES = 32
MAX_NOTE_LENGTH = 200
_TEXT = re.compile(r"alc_(?P<prefix>[a-z2-7]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
_TEXT_LENGTH = len("alc__") + PREFIX_LENGTH + 43


@dataclass(frozen=True)
class TokenCredential:
    """A parsed token: the public prefix that finds its row, and the hash that the row must have."""

    kind: ClassVar[Literal["token"]] = "token"
    prefix: str
    hash: str = field(repr=False)

    @property
    def public_id(self) -> str:
        """Name the token without its secret."""
        return self.prefix

    @property
    def parameters(self) -> Mapping[str, object]:
        """Return the bind parameters of the query that finds the user."""
        return {"prefix": self.prefix}

    @property
    def stored_value(self) -> str:
        """Return what the database holds of a valid token."""
        return self.hash

    def matches(self, stored_value: str) -> bool:
        """Compare the hashes in constant time."""
        return compare_digest(self.hash, stored_value)


@dataclass(frozen=True)
class IssuedToken:
    """A new token with its text, which cannot be shown again."""

    token: Token
    text: str = field(repr=False)


def parse_token(text: str) -> TokenCredential:
    """Parse and hash the text of a token; raise Unauthenticated if it has another form."""
    # The length first, so that a huge text costs nothing.
    matched = _TEXT.fullmatch(text) if len(text) == _TEXT_LENGTH else None
    if matched is None:
        raise Unauthenticated
    return TokenCredential(matched["prefix"], hashlib.sha256(text.encode()).hexdigest())


def issue_token(
    session: Session, caller: Caller, user_id: UUID, *, note: str = "", lifetime: timedelta | None = None
) -> IssuedToken:
    """Issue a token to a user; without a lifetime it is valid until it is revoked.

    Admins only: otherwise a stolen token could be renewed beyond its expiry or revocation.
    """
    require_admin(caller)
    note = validate_text("the note of a token", note, min_length=0, max_length=MAX_NOTE_LENGTH)
    if lifetime is not None and not timedelta(0) < lifetime <= MAX_TOKEN_LIFETIME:
        raise Invalid(
            f"the lifetime of a token is more than 0 and at most {MAX_TOKEN_LIFETIME.days} days, not {lifetime}"
        )
    if require_user(session, user_id).is_group:
        raise Invalid("groups have no tokens: issue the token to a member")
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(PREFIX_LENGTH))
    text = f"alc_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    token = Token(
        id=new_id(),
        user_id=user_id,
        prefix=prefix,
        hash=parse_token(text).hash,
        note=note,
        created_at=now(),
        expires_at=None if lifetime is None else seconds_from_now(lifetime.total_seconds()),
    )
    session.add(token)
    session.flush()
    session.refresh(token)
    chain.append_entry(session, caller.user_id, "token.issued", token=token.id, user=user_id)
    return IssuedToken(token, text)


def revoke_token(session: Session, caller: Caller, token_id: UUID) -> None:
    """Revoke a token: the caller's own or, for admins, any."""
    token = session.get(Token, token_id, with_for_update=True, populate_existing=True)
    if token is None or not (caller.is_admin or token.user_id == caller.user_id):
        raise NotFound("token", token_id)
    session.delete(token)
    chain.append_entry(session, caller.user_id, "token.revoked", token=token_id, user=token.user_id)


def list_tokens(
    session: Session,
    caller: Caller,
    user_id: UUID | None = None,
    after: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[Token]:
    """List the tokens of a user, or all that the caller may see, oldest first."""
    statement = select(Token)
    if user_id is not None:
        _require_self(caller, user_id)
        statement = statement.where(Token.user_id == find_user(session, caller, user_id).id)
    elif not caller.is_admin:
        statement = statement.where(Token.user_id == caller.user_id)
    return read_page(session, statement, Token.id, after=after, limit=limit)


def _require_self(caller: Caller, user_id: UUID) -> None:
    if not caller.is_admin and caller.user_id != user_id:
        raise NotFound("user", user_id)
