"""An audit that skipped packages is not clean."""

import json

import pytest

from tools.vulnerabilities import CLEAN, INCOMPLETE, VULNERABLE, evaluate_audit

OK = {"name": "ok", "version": "1.0", "vulns": []}
SKIPPED = {"name": "hidden", "skip_reason": "Dependency not found on PyPI and could not be audited: hidden (1.0)"}
BAD = {"name": "bad", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": []}]}


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([OK], CLEAN),
        ([OK, SKIPPED], INCOMPLETE),
        ([SKIPPED], INCOMPLETE),
        ([], INCOMPLETE),
        ([OK, BAD], VULNERABLE),
        ([BAD, SKIPPED], VULNERABLE),
    ],
)
def test_a_skipped_package_is_not_clean(packages: list[object], code: int) -> None:
    assert (
        evaluate_audit(json.dumps({"dependencies": packages, "fixes": []}), "No known vulnerabilities found").code
        == code
    )


def test_a_vulnerability_is_printed_with_the_version_that_fixes_it() -> None:
    assert "bad 2.0: PYSEC-1, fixed in 2.1" in evaluate_audit(json.dumps({"dependencies": [BAD]}), "").lines


@pytest.mark.parametrize("report", ["", "[]", "{}", "no JSON"])
def test_a_failed_audit_says_so(report: str) -> None:
    result = evaluate_audit(report, "first\nERROR: ConnectionError\n")

    assert result.code == INCOMPLETE
    assert "ERROR: ConnectionError" in result.lines[0]
