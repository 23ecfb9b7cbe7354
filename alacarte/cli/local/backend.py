"""The backend of commands on this machine: the calls of the client, carried out on the registry as the operator."""

import math
from typing import Any
from uuid import UUID

from alacarte._client.errors import WaitTimeout
from alacarte._client.polling import incomplete_reason
from alacarte.api.erasures import ErasureResponse, ReceiptVerificationResponse
from alacarte.cli.local.access import LocalAccess
from alacarte.cli.local.catalog import LocalCatalog
from alacarte.cli.local.registry import NameOrId
from registry.access.caller import OPERATOR
from registry.erasure import request, status
from registry.erasure.runner import finish_erasure
from registry.erasure.verify import verify_receipt
from registry.errors import Conflict


class LocalBackend(LocalAccess, LocalCatalog):
    """The registry of this machine, with the methods of `alacarte.client.Client`."""

    def forget_source(self, source: NameOrId) -> ErasureResponse:
        """Forget a source; serving stops at once."""
        return self.get_erasure(request.forget_source(self._registry, OPERATOR, self._id_to_forget(source)).id)

    def forget_shard(self, source: NameOrId, shard_id: NameOrId) -> ErasureResponse:
        """Forget one shard of a source."""
        source_id, shard = self._id_to_forget(source), UUID(str(shard_id))
        return self.get_erasure(request.forget_shard(self._registry, OPERATOR, source_id, shard).id)

    def forget_sample(self, source: NameOrId, digest: str) -> ErasureResponse:
        """Forget one picture of a source; its shard is trained again without it."""
        source_id = self._id_to_forget(source)
        return self.get_erasure(request.forget_sample(self._registry, OPERATOR, source_id, digest).id)

    def list_erasures(self) -> list[ErasureResponse]:
        """Return all erasures."""
        return self._list(ErasureResponse, lambda session, after: status.list_erasures(session, OPERATOR, after=after))

    def get_erasure(self, erasure_id: NameOrId) -> ErasureResponse:
        """Return an erasure with its steps, and its receipt once it is complete."""
        with self._registry.database.read_transaction() as session:
            return ErasureResponse.model_validate(status.show_erasure(session, OPERATOR, UUID(str(erasure_id))))

    def wait_for_erasure(self, erasure_id: NameOrId, timeout: float | None = None) -> ErasureResponse:
        """Carry out the steps of an erasure until its receipt is signed; WaitTimeout says what is not done."""
        progress = finish_erasure(self._registry, UUID(str(erasure_id)), math.inf if timeout is None else timeout)
        erasure = ErasureResponse.model_validate(progress)
        if (reason := incomplete_reason(erasure)) is not None:
            raise WaitTimeout(reason)
        return erasure

    def verify_receipt(self, erasure_id: NameOrId) -> ReceiptVerificationResponse:
        """Verify the receipt of an erasure against the live stores."""
        receipt = self.get_erasure(erasure_id).receipt
        if receipt is None:
            raise Conflict(f"erasure {erasure_id} is not complete, so it has no receipt to verify")
        return self.verify_receipt_document(receipt)

    def verify_receipt_document(
        self,
        receipt: dict[str, Any],  # Any: parsed JSON, verified by its signature
        public_key: str | None = None,
    ) -> ReceiptVerificationResponse:
        """Verify a receipt that somebody kept, by a key or by those that the registry knows."""
        return ReceiptVerificationResponse.model_validate(verify_receipt(self._registry, receipt, public=public_key))

    def _id_to_forget(self, source: NameOrId) -> UUID:
        """Return the source's id; an id is not looked up, because the source may already be forgotten."""
        return source if isinstance(source, UUID) else self.find_source(source).id
