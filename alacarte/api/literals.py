"""The closed sets of words that requests, responses, rows and commands share."""

from typing import Literal

Composition = Literal["average", "concat", "vote"]
Weighting = Literal["none", "prototypes"]
Role = Literal["admin", "owner", "predictor"]
Right = Literal["use", "manage", "forget"]
ShardState = Literal["waiting", "training", "backing off", "paused", "trained", "remote"]
ErasureScope = Literal["source", "shard", "sample"]
UnreadablePolicy = Literal["refuse", "skip"]
