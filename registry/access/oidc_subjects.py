"""Whom an issuer elsewhere vouches for: which user a subject of its is, bound and unbound by admins alone."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_ISSUER_LENGTH, MAX_SUBJECT_LENGTH
from registry.access.caller import Caller, require_admin
from registry.db.models.users import User
from registry.errors import Conflict, Invalid, NotFound
from registry.log import chain


def is_subject(text: str) -> bool:
    """Whether an issuer may call somebody so; compared letter for letter, and never brought into another form."""
    return 1 <= len(text) <= MAX_SUBJECT_LENGTH and text.isprintable()


def bind_subject(session: Session, caller: Caller, user_id: UUID, issuer: str, subject: str) -> User:
    """Lets a subject of an issuer prove to be this user, instead of any that did so before."""
    require_admin(caller)
    if not is_subject(subject):
        raise Invalid(f"a subject has 1 to {MAX_SUBJECT_LENGTH} printable characters")
    if not (1 <= len(issuer) <= MAX_ISSUER_LENGTH and issuer.isprintable()):
        raise Invalid("an issuer is named by its URL, as its tokens have it in `iss`")
    user = _locked(session, user_id)
    if user.is_group:
        raise Invalid("a group proves nothing: bind its members")
    if (user.issuer, user.subject) == (issuer, subject):
        return user
    try:
        with session.begin_nested():
            user.issuer, user.subject = issuer, subject
            session.flush()
    except IntegrityError as error:
        raise Conflict("this subject is another user already: unbind it there first") from error
    chain.append_entry(session, caller.user_id, "user.bound", user=user.id)
    return user


def unbind_subject(session: Session, caller: Caller, user_id: UUID) -> User:
    """Ends what the user's subject proves, at once, however long its documents are still good for."""
    require_admin(caller)
    user = _locked(session, user_id)
    if user.subject is None:
        raise NotFound("subject of the user", user_id)
    user.issuer = user.subject = None
    session.flush()
    chain.append_entry(session, caller.user_id, "user.unbound", user=user.id)
    return user


def _locked(session: Session, user_id: UUID) -> User:
    one = select(User).where(User.id == user_id).with_for_update(key_share=True)
    user = session.scalars(one, execution_options={"populate_existing": True}).one_or_none()
    if user is None:
        raise NotFound("user", user_id)
    return user
