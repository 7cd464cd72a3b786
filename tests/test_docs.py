"""The reference pages know every setting, status, event, log line, module and decision there is."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from mcpd import cli, exits
from mcpd.api import status
from mcpd.config.remote import OF_KIND, AuthConfig, RemoteConfig
from mcpd.config.schema import DaemonConfig, HttpConfig, RestartConfig, ServerConfig, ToolsConfig
from mcpd.daemon_start.environment import EPHEMERAL_PATTERNS
from mcpd.doctor.check.daemon import UNREACHABLE
from tests.size import clients, servers
from tests.size.rows import ROWS

assert clients
assert servers

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "tests" / "README.md"])
IN_WORDS = {
    "command",
    "cwd",
    "tools",
    "restart",
    "listen",
    "url",
}  # their defaults are told, not quoted


def settings() -> Iterator[tuple[str, str, str]]:
    """Each key, with its section of the page and its default as the page should show it."""
    tables: list[tuple[str, str, type[msgspec.Struct]]] = [
        ("Servers", "", ServerConfig),
        ("Servers", "tools.", ToolsConfig),
        ("Servers", "restart.", RestartConfig),
        ("Remote servers", "", RemoteConfig),
        ("The daemon", "", DaemonConfig),
        ("HTTP", "", HttpConfig),
    ]
    for section, prefix, schema in tables:
        for field in msgspec.structs.fields(schema):
            if field.name in ("remote", "policy"):  # a section, and a page, of their own
                continue
            default = field.default
            if isinstance(field.default_factory, type):
                default = field.default_factory()
            if isinstance(default, float) and default.is_integer():
                default = int(default)
            if isinstance(default, AuthConfig):
                default = default.kind
            name = f"{prefix}{field.name}"
            shown = "" if name in IN_WORDS else json.dumps(msgspec.to_builtins(default))
            yield section, name, shown


def section_of(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize(("section", "name", "default"), list(settings()))
def test_a_setting_is_documented_with_its_default(section: str, name: str, default: str) -> None:
    page = section_of((DOCS / "configuration.md").read_text(), section)
    row = re.search(rf"^\| `{re.escape(name)}`(?: †)? \| (.*?) \|", page, re.MULTILINE)
    assert row, f"docs/configuration.md has no row for {name}"
    if default:
        assert row[1] == f"`{default}`"


@pytest.mark.parametrize("kind", ["bearer", "api-key", "basic", "oauth"])
def test_a_kind_of_auth_is_documented_with_its_keys(kind: str) -> None:
    page = section_of((DOCS / "configuration.md").read_text(), "Remote servers")
    row = re.search(rf'^\| `type = "{kind}"` \| (.*?) \|', page, re.MULTILINE)
    assert row
    assert [key for key in OF_KIND[kind] if f"`{key}`" not in row[1]] == []


def test_the_variables_of_a_terminal_are_documented() -> None:
    page = (DOCS / "configuration.md").read_text()
    shown = re.search(r"<!-- patterns:.*?-->\n(.*?)\n\n", page, re.DOTALL)
    assert shown
    assert shown[1].split() == list(EPHEMERAL_PATTERNS)


def statuses(module: ModuleType) -> list[int]:
    return sorted({v for k, v in vars(module).items() if k.isupper() and type(v) is int})


@pytest.mark.parametrize(("title", "module"), [("mcpctl", exits), ("mcpd", cli)])
def test_the_exit_statuses_of_a_program_are_documented(title: str, module: ModuleType) -> None:
    page = (DOCS / "errors.md").read_text()
    table = page.partition(f"\n## Exit statuses of {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([0-9, ]+) \|", table, re.MULTILINE)
    assert [int(status) for row in rows for status in row.split(",")] == statuses(module)


@functools.cache
def calls() -> list[tuple[str, ast.Call]]:
    """Return every call in the source, with what is called as it is written."""
    trees = (ast.parse(path.read_text()) for path in sorted((ROOT / "mcpd").rglob("*.py")))
    found = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [(ast.unparse(call.func), call) for call in found]


def kinds() -> set[str]:
    """What the source calls failures."""
    made = [call for function, call in calls() if function.endswith("Failure")]
    values = [call.args[0] for call in made if call.args]
    values += [k.value for call in made for k in call.keywords if k.arg == "kind"]
    return {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}


@pytest.mark.parametrize("kind", sorted(kinds() | {*exits.BY_KIND}))
def test_a_kind_of_error_is_documented(kind: str) -> None:
    page = (DOCS / "errors.md").read_text()
    assert re.search(rf"^\| `{kind}` \|", page, re.MULTILINE)


@pytest.mark.parametrize(("kind", "status"), exits.BY_KIND.items())
def test_a_kind_of_error_is_documented_with_its_exit_status(kind: str, status: int) -> None:
    page = (DOCS / "errors.md").read_text()
    assert re.search(rf"^\| {status} \|.*`{kind}`", page, re.MULTILINE)


def said(*functions: str) -> dict[str, tuple[str, set[str]]]:
    """What the source gives to these functions: what happened, with its level and its fields."""
    found: dict[str, tuple[str, set[str]]] = {}
    for function, call in calls():
        words = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
        if function.endswith(functions) and words and re.fullmatch(r"[a-z]+\.[a-z_]+", words[-1]):
            level = words[0] if len(words) > 1 else function.rpartition(".")[2]
            fields = {k.arg for k in call.keywords if k.arg} - {"exc_info", "extra"}
            found[words[-1]] = level, fields | found.get(words[-1], ("", set[str]()))[1]
    return found


def row_of(page: str, title: str, name: str) -> list[str]:
    table = page.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    row = re.search(rf"^\| `{re.escape(name)}` \| (.*) \|$", table, re.MULTILINE)
    assert row, f"docs/protocol.md has no row for {name} under {title}"
    return row[1].split(" | ")


LEVELS = ("debug", "info", "warning", "error")
LINES = said(
    *(f"{logger}.{level}" for logger in ("log", "logger") for level in LEVELS), "write_directly"
)
EVENTS = said("self._event", "journal.add")
calls.cache_clear()  # as large as all tests together


def test_the_source_says_what_happens() -> None:
    """
    Else the tests below would find nothing wrong.
    """
    assert {"daemon.started", "server.ready", "session.closed", "task.crashed"} <= {*LINES}
    assert {"server.ready", "session.closed", "config.reloaded", "daemon.draining"} <= {*EVENTS}


@pytest.mark.parametrize("name", LINES)
def test_a_log_line_is_documented_with_its_level_and_its_fields(name: str) -> None:
    level, fields = LINES[name]
    row = row_of((DOCS / "protocol.md").read_text(), "The daemon's log", name)
    assert row[0] == level
    assert fields <= set(re.findall(r"`(\w+)`", row[1]))


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_documented_with_its_members(name: str) -> None:
    row = row_of((DOCS / "protocol.md").read_text(), "Events", name)
    assert EVENTS[name][1] - {"server"} <= set(re.findall(r"`(\w+)`", row[0]))


def findings() -> set[str]:
    """What the doctor calls what it finds; names that are made of parts are tested below."""
    found = set()
    for path in (ROOT / "mcpd" / "doctor" / "check").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in _SEVERITIES and call.args:
                ident = call.args[0]
                found |= {ident.value} if isinstance(ident, ast.Constant) else set()
    return {ident for ident in found if isinstance(ident, str)}


_SEVERITIES = {"error": "error", "warning": "warning", "note": "note", "fine": "ok"}


@pytest.mark.parametrize("ident", sorted(findings() | {*UNREACHABLE, "state_not_writable"}))
def test_a_finding_of_the_doctor_is_documented(ident: str) -> None:
    page = (DOCS / "doctor.md").read_text()
    assert re.search(rf"^\| (?:`\w+`(?: \\\*)?, )*`{ident}`", page, re.MULTILINE)


@pytest.mark.parametrize("ident", sorted(UNREACHABLE))
def test_what_makes_the_daemon_unusable_is_marked(ident: str) -> None:
    assert rf"`{ident}` \*" in (DOCS / "doctor.md").read_text()


def members() -> set[str]:
    kinds = [k for k in vars(status).values() if getattr(k, "__module__", "") == status.__name__]
    return {name for kind in kinds if kind is not status.Status for name in kind.__annotations__}


@pytest.mark.parametrize("name", sorted(members()))
def test_a_member_of_the_status_is_documented(name: str) -> None:
    page = (DOCS / "protocol.md").read_text()
    section = page.partition("\n### Status\n")[2].partition("\n#")[0]
    assert re.search(rf'[`"]{name}["`]', section)


LIMITS = (DOCS / "limits.md").read_text()
UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20}


def limits() -> list[tuple[str, str, str | None]]:
    """Return each constant and setting with the value that the page of limits gives it."""
    return re.findall(r"`([\w.]+)` = ([\d,.]*\d)(?: (KiB|MiB))?", LIMITS)


@pytest.mark.parametrize(("name", "value", "unit"), limits())
def test_a_limit_is_what_the_page_says(name: str, value: str, unit: str | None) -> None:
    module, _, constant = name.rpartition(".")
    if module:
        found = getattr(importlib.import_module(f"mcpd.{module}"), constant)
    else:
        found = getattr(DaemonConfig(), name)
    assert found == float(value.replace(",", "")) * UNITS[unit or None]


def test_each_limit_has_a_test_and_each_test_a_limit() -> None:
    rows = re.findall(r"^\| (?!What|---)(.*?) \| .* \| (.*?) \|$", LIMITS, re.MULTILINE)
    named = [set(re.findall(r"`(\w+)`", tests)) for _, tests in rows]
    assert rows
    assert not [what for (what, _), names in zip(rows, named, strict=True) if not names]
    assert set().union(*named) == set(ROWS)


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=str)
def test_a_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    paths = set(re.findall(r"`((?:mcpd|mcpctl|docs|tests)/[\w/]*(?:/|\.\w+))`", text))
    dotted = re.findall(r"`((?:mcpd|mcpctl|core|listeners|supervise|upstreams)\.[\w.]+)`", text)
    for name in dotted:
        inside = name if name.startswith("mcp") else f"mcpd.{name}"
        paths.add(inside.replace(".", "/"))
    missing = [p for p in paths if not (ROOT / p).exists() and not (ROOT / f"{p}.py").exists()]
    assert paths
    assert not missing


def test_every_package_is_on_the_map() -> None:
    page = (DOCS / "architecture.md").read_text()
    packages = {f"{p.parent.relative_to(ROOT)}/" for p in (ROOT / "mcpd").rglob("__init__.py")}
    assert {p for p in packages if f"`{p}`" not in page} == {"mcpd/", "mcpd/core/"}


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (DOCS / "adr" / "README.md").read_text())
    assert listed == sorted(p.name for p in (DOCS / "adr").glob("0*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target if target else page).read_text()
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}
