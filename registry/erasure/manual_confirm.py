"""A person's word that scratch files are gone, where no process can look any more."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.access.caller import Caller, require_admin
from registry.db.clock import now
from registry.db.models.erasures import Erasure
from registry.db.models.write_claims import WriteClaim
from registry.erasure.step_counts import add_counts
from registry.errors import Conflict, NotFound
from registry.log import chain


def confirm_scratch(session: Session, caller: Caller, erasure_id: UUID) -> int:
    """Takes an admin's word that the scratch folders of dead holders are lost; the receipt will say for how many."""
    require_admin(caller)
    erasure = session.scalars(select(Erasure).where(Erasure.id == erasure_id).with_for_update()).one_or_none()
    if erasure is None:
        raise NotFound("erasure", erasure_id)
    if erasure.completed_at is not None:
        raise Conflict("this erasure is complete: there is nothing to confirm")
    lost = session.scalars(
        select(WriteClaim)
        .where(
            WriteClaim.id.in_(map(UUID, erasure.write_claims)),
            WriteClaim.expires_at <= now(),
            WriteClaim.scratch_id.is_not(None),
        )
        .with_for_update()
    ).all()
    if not lost:
        raise Conflict("nobody's scratch folder is missing: those who hold bytes still live, or have let go")
    for claim in lost:
        claim.scratch_id = None
    add_counts(session, erasure.id, "holdings", **{"confirmed by hand": len(lost)})
    chain.append_entry(session, caller.user_id, "erasure.confirmed", erasure=erasure.id, write_claims=len(lost))
    return len(lost)
