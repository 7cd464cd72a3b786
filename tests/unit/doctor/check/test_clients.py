"""Entries of clients that have to do with mcpd."""

from __future__ import annotations

from mcpd.doctor.check.clients import check
from mcpd.doctor.facts import ClientEntry, Clients
from mcpd.doctor.finding import Finding

ENTRY = {"client": "cursor", "title": "Cursor", "path": "/c.json", "name": "files"}


def found(**more) -> list[Finding]:
    return list(check(Clients(entries=(ClientEntry(**{**ENTRY, **more}),))))


def test_without_facts_and_without_entries_nothing_is_said() -> None:
    assert list(check(None)) == list(check(Clients())) == []


def test_an_mcpctl_that_is_gone_is_an_error() -> None:
    (finding,) = found(program="/gone/mcpctl", is_gone=True, server="files")
    assert (finding.id, finding.severity) == ("client_mcpctl_gone", "error")
    assert "/gone/mcpctl" in finding.message
    assert "/c.json" in finding.message
    assert finding.remedy == "mcpctl adopt cursor"


def test_a_server_that_is_gone_is_an_error() -> None:
    (finding,) = found(program="/bin/mcpctl", server="files", is_missing=True)
    assert (finding.id, finding.severity) == ("client_server_gone", "error")
    assert finding.remedy == "mcpctl release cursor"


def test_a_copy_is_a_warning() -> None:
    (finding,) = found(program=None, name="a b", server="files")
    assert (finding.id, finding.severity) == ("client_copy", "warning")
    assert finding.remedy == "mcpctl adopt cursor --server 'a b'"


def test_entries_that_are_in_order_are_counted() -> None:
    (finding,) = found(program="/bin/mcpctl", server="files")
    assert (finding.id, finding.severity) == ("clients", "ok")
    assert finding.message.endswith("1 of Cursor")
