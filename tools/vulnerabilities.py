"""`make vulnerabilities`: report known vulnerabilities of the pinned dependencies, and whether all could be checked.

pip-audit queries an advisory service for every pinned version. Where the service does not respond, pip-audit skips
packages and still reports no vulnerabilities; so skipped packages are counted here, with an exit code of their own.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CLEAN, VULNERABLE, INCOMPLETE = 0, 1, 3  # exit codes
COMMAND = ("tool", "run", "pip-audit>=2.9", "--no-deps", "--disable-pip", "--format", "json")
MAX_NAMES = 5


@dataclass(frozen=True)
class AuditResult:
    """The exit code and the output of an audit."""

    code: int
    lines: tuple[str, ...]


def evaluate_audit(report: str, stderr: str) -> AuditResult:
    """Evaluate the JSON report and the error output of pip-audit."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = stderr.strip().splitlines()[-1:] or ["no error output"]
        return AuditResult(INCOMPLETE, (f"not audited: pip-audit failed ({last[0]})",))
    vulnerable = [_describe(one, found) for one in packages for found in one.get("vulns", ())]
    skipped = sorted(one["name"] for one in packages if "skip_reason" in one)
    lines = [
        f"{len(packages) - len(skipped)} of {len(packages)} packages audited, {len(vulnerable)} known vulnerabilities",
        *vulnerable,
    ]
    if skipped:
        more = f" and {len(skipped) - MAX_NAMES} more" if len(skipped) > MAX_NAMES else ""
        lines.append(
            f"not audited, because the advisory service did not respond: {', '.join(skipped[:MAX_NAMES])}{more}"
        )
    if not packages:
        lines.append("not audited: nothing is pinned")
    return AuditResult(VULNERABLE if vulnerable else INCOMPLETE if skipped or not packages else CLEAN, tuple(lines))


def _describe(package: Mapping[str, Any], vulnerability: Mapping[str, Any]) -> str:  # Any: JSON of pip-audit
    fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}"


def main() -> int:
    """Audit the versions in constraints.txt."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), *COMMAND, "--progress-spinner", "off", "--requirement", str(ROOT / "constraints.txt")]
    process = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  # a constant command
    result = evaluate_audit(process.stdout, process.stderr)
    for line in result.lines:
        print(line)
    return result.code


if __name__ == "__main__":
    sys.exit(main())
