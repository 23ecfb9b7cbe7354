"""The closed sets of words that requests, responses, rows and commands share."""

from typing import Literal

Composition = Literal["average", "concat", "vote"]
Weighting = Literal["none", "prototypes"]
Role = Literal["admin", "owner", "predictor"]
Right = Literal["use", "manage", "forget"]
ShardCondition = Literal["waiting", "training", "backing off", "held", "trained", "remote"]
ErasureScope = Literal["source", "shard", "sample"]
UnreadablePolicy = Literal["refuse", "skip"]
