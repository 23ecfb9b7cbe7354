"""How long something that failed is left alone before it is tried again."""

FIRST_SECONDS = 5.0
MOST_SECONDS = 3600.0


def backoff_seconds(attempts: int) -> float:
    """Twice as long after every attempt that failed, up to an hour."""
    # The exponent is bounded too: a shard that fails for years must not overflow a float.
    return min(FIRST_SECONDS * 2.0 ** min(max(attempts - 1, 0), 30), MOST_SECONDS)
