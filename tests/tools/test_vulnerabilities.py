"""What an audit of the dependencies comes to: silence is no acquittal."""

import json

import pytest

from tools.vulnerabilities import CLEAN, UNKNOWN, WEAK, judge

SOUND = {"name": "sound", "version": "1.0", "vulns": []}
LEFT_OUT = {"name": "hidden", "skip_reason": "Dependency not found on PyPI and could not be audited: hidden (1.0)"}
BAD = {"name": "bad", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": []}]}


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([SOUND], CLEAN),
        ([SOUND, LEFT_OUT], UNKNOWN),
        ([LEFT_OUT], UNKNOWN),
        ([], UNKNOWN),
        ([SOUND, BAD], WEAK),
        ([BAD, LEFT_OUT], WEAK),
    ],
)
def test_a_package_that_nobody_looked_at_is_not_clean(packages: list[object], code: int) -> None:
    assert judge(json.dumps({"dependencies": packages, "fixes": []}), "No known vulnerabilities found").code == code


def test_a_weakness_is_told_with_what_mends_it() -> None:
    assert "bad 2.0: PYSEC-1, mended in 2.1" in judge(json.dumps({"dependencies": [BAD]}), "").lines


@pytest.mark.parametrize("report", ["", "[]", "{}", "no JSON"])
def test_an_audit_that_broke_off_says_so(report: str) -> None:
    verdict = judge(report, "first\nERROR: ConnectionError\n")

    assert verdict.code == UNKNOWN
    assert "ERROR: ConnectionError" in verdict.lines[0]
