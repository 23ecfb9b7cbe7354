"""`make vulnerabilities`: report known vulnerabilities of the pinned dependencies, and whether all could be checked.

pip-audit asks an advisory service about every pinned version. Where the service does not answer, it leaves packages out
and still says that nothing was found; so what was left out is counted here, and has an exit code of its own.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CLEAN, WEAK, UNKNOWN = 0, 1, 3
COMMAND = ("tool", "run", "pip-audit>=2.9", "--no-deps", "--disable-pip", "--format", "json")
SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """What came of an audit."""

    code: int
    lines: tuple[str, ...]


def judge(report: str, said: str) -> Verdict:
    """The verdict on what pip-audit wrote, and what it said beside it."""
    try:
        told = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        return Verdict(UNKNOWN, (f"not audited: pip-audit could not do its work ({last[0]})",))
    weak = [_weakness(one, found) for one in told for found in one.get("vulns", ())]
    left_out = sorted(one["name"] for one in told if "skip_reason" in one)
    lines = [f"{len(told) - len(left_out)} of {len(told)} packages audited, {len(weak)} known weaknesses", *weak]
    if left_out:
        more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        lines.append(f"not audited, since the advisory service told nothing: {', '.join(left_out[:SHOWN])}{more}")
    if not told:
        lines.append("not audited: nothing is pinned")
    return Verdict(WEAK if weak else UNKNOWN if left_out or not told else CLEAN, tuple(lines))


def _weakness(package: Mapping[str, Any], found: Mapping[str, Any]) -> str:  # Any: whatever pip-audit tells
    mended = ", ".join(found.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']}: {found['id']}, mended in {mended}"


def main() -> int:
    """Audits what constraints.txt pins."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), *COMMAND, "--progress-spinner", "off", "--requirement", str(ROOT / "constraints.txt")]
    ended = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  # all of it is written above
    verdict = judge(ended.stdout, ended.stderr)
    for line in verdict.lines:
        print(line)
    return verdict.code


if __name__ == "__main__":
    sys.exit(main())
