"""The media types of request and response bodies."""

JSON = "application/json"
MULTIPART = "multipart/form-data"
OCTET_STREAM = "application/octet-stream"
PROBLEM = "application/problem+json"
