"""The reference pages know every setting, every pattern and every decision there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mcpd.config.schema import DaemonConfig, RestartConfig, ServerConfig, ToolsConfig
from mcpd.launch import EPHEMERAL_PATTERNS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "tests" / "README.md"])
IN_WORDS = {"command", "cwd", "tools", "restart"}  # their defaults are told, not quoted


def settings() -> Iterator[tuple[str, str]]:
    """Each key with its default as the page should show it."""
    tables = {"": ServerConfig, "tools.": ToolsConfig, "restart.": RestartConfig, "daemon": None}
    for prefix, schema in tables.items():
        for field in msgspec.structs.fields(schema or DaemonConfig):
            default = field.default
            if isinstance(field.default_factory, type):
                default = field.default_factory()
            if isinstance(default, float) and default.is_integer():
                default = int(default)
            name = f"{prefix}{field.name}" if schema else field.name
            shown = "" if name in IN_WORDS else json.dumps(msgspec.to_builtins(default))
            yield name, shown


@pytest.mark.parametrize(("name", "default"), list(settings()))
def test_a_setting_is_documented_with_its_default(name: str, default: str) -> None:
    page = (DOCS / "configuration.md").read_text()
    row = re.search(rf"^\| `{re.escape(name)}`(?: †)? \| (.*?) \|", page, re.MULTILINE)
    assert row, f"docs/configuration.md has no row for {name}"
    if default:
        assert row[1] == f"`{default}`"


def test_the_variables_of_a_terminal_are_documented() -> None:
    page = (DOCS / "configuration.md").read_text()
    shown = re.search(r"<!-- patterns:.*?-->\n(.*?)\n\n", page, re.DOTALL)
    assert shown
    assert shown[1].split() == list(EPHEMERAL_PATTERNS)


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (DOCS / "adr" / "README.md").read_text())
    assert listed == sorted(p.name for p in (DOCS / "adr").glob("0*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
