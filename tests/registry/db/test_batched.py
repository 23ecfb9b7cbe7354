"""Batches lose, repeat and reorder nothing, and none is too long."""

from hypothesis import given
from hypothesis import strategies as st

from registry.db.paging import batched


@given(items=st.lists(st.integers()), size=st.integers(min_value=1, max_value=7))
def test_batches_keep_all_items_in_order(items: list[int], size: int) -> None:
    parts = list(batched(items, size))

    assert [item for part in parts for item in part] == items
    assert all(len(part) == size for part in parts[:-1])
    assert all(1 <= len(part) <= size for part in parts)
