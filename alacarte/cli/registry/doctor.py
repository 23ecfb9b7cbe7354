"""`alacarte doctor`: whether rows, objects and the log agree, and mending what does not."""

from typing import Annotated

import typer

from alacarte.cli.errors import EXIT_FAILURE
from alacarte.cli.local_options import opened
from alacarte.cli.options import Json
from alacarte.cli.output import document_of, format_value, print_json, print_list, print_message, print_table


def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out reading every object to compare its digest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for objects without rows, rows without objects, damaged bytes and a broken log; exit 1 if there are any."""
    from registry.access.caller import OPERATOR
    from registry.fsck.repair import repair as mend
    from registry.fsck.scan import scan

    with opened() as registry:
        findings = list(scan(registry, deep=not quick))
        mended = list(mend(registry, OPERATOR, findings)) if repair else []
    found = [document_of(finding, "kind", "subject", "detail", "is_repairable", "is_fault") for finding in findings]
    repairs = [
        {"subject": one.finding.subject, "kind": one.finding.kind, "action": one.action}
        for one in mended
        if one.finding.is_repairable
    ]
    if as_json:
        print_json({"findings": found, "repaired": repairs})
    else:
        if found:
            print_list("findings", found, ("kind", "subject", "detail"), as_json=False)
        if repairs:
            print_table(
                ("repaired", "how"), [(format_value(one["subject"]), format_value(one["action"])) for one in repairs]
            )
        print_message("All is well." if not found else _advice(len(found), repair=repair))
    left = [finding for finding in findings if finding.is_fault and not (repair and finding.is_repairable)]
    if left:
        raise typer.Exit(EXIT_FAILURE)


def _advice(findings: int, *, repair: bool) -> str:
    return f"{findings} found." + ("" if repair else " `alacarte doctor --repair` mends what can be mended.")
