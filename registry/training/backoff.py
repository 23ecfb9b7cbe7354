"""How long something that failed is left alone before it is tried again."""

FIRST_SECONDS = 5.0
MOST_SECONDS = 3600.0


def backoff_seconds(attempts: int, first: float = FIRST_SECONDS, most: float = MOST_SECONDS) -> float:
    """Twice as long after every attempt that failed, up to an hour unless told otherwise."""
    # The exponent is bounded too: what fails for years must not overflow a float.
    return min(first * 2.0 ** min(max(attempts - 1, 0), 30), most)
