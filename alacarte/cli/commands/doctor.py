"""`alacarte doctor`: check that rows, objects and the log agree, and repair what does not."""

from typing import Annotated

import typer

from alacarte.cli.errors import EXIT_FAILURE
from alacarte.cli.local.registry import open_local_registry
from alacarte.cli.options import Json
from alacarte.cli.output import print_json, print_list, print_message, print_table


def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Do not read every object to compare its digest.")] = False,
    as_json: Json = False,
) -> None:
    """Find objects without rows, rows without objects, damaged bytes and a broken log; exit 1 if there are any."""
    from registry.access.caller import OPERATOR
    from registry.fsck.repair import repair as repair_findings
    from registry.fsck.scan import scan

    with open_local_registry() as registry:
        findings = list(scan(registry, deep=not quick))
        results = list(repair_findings(registry, OPERATOR, findings)) if repair else []
    columns = ("kind", "subject", "detail", "is_repairable", "is_fault")
    found = [{name: getattr(finding, name) for name in columns} for finding in findings]
    repaired = [
        {"subject": result.finding.subject, "kind": result.finding.kind, "action": result.action}
        for result in results
        if result.finding.is_repairable
    ]
    if as_json:
        print_json({"findings": found, "repaired": repaired})
    else:
        if found:
            print_list("findings", found, columns[:3], as_json=False)
        if repaired:
            print_table(("repaired", "how"), [(str(one["subject"]), str(one["action"])) for one in repaired])
        hint = "" if repair else " `alacarte doctor --repair` repairs what can be repaired."
        print_message(f"{len(found)} found.{hint}" if found else "Nothing is wrong.")
    if any(finding.is_fault and not (repair and finding.is_repairable) for finding in findings):
        raise typer.Exit(EXIT_FAILURE)
