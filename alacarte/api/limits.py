"""The limits that the API documents and the registry enforces."""

from datetime import timedelta

MAX_NAMED_SOURCES = 1000  # in one prediction request
MAX_SHARDS = 1000  # of one upload: each is a training of its own
MAX_LABELS = 50_000
MAX_RECIPE_BYTES = 4096
MAX_SUBJECT_LENGTH = 255  # OpenID Connect Core, section 2
MAX_ISSUER_LENGTH = 500
MAX_QUOTA_BYTES = 2**60
MAX_TOKEN_LIFETIME = timedelta(days=36500)
