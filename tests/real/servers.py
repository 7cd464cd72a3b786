"""The reference servers: how each is started, and a call of every one of its tools.

A tool that is not called stands in ``left_out`` with the reason: one in neither list fails the
tests. What differs from run to run is made equal by the ``mask`` of its call, and nothing else is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.real.ground import GIT_IDENTITY, Ground

Json = dict[str, Any]

CAPABILITIES: Final[Json] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
"""What mcpd declares to every server; a direct client must, too, or it is shown fewer tools."""

REFERENCE: Final = ("everything", "filesystem", "memory", "time", "git", "fetch", "old")


@dataclass(frozen=True)
class Call:
    """One call of one tool."""

    tool: str
    arguments: Json = field(default_factory=dict)
    mask: Callable[[str], str] | None = None
    """Is given every text of the result."""


@dataclass(frozen=True)
class Server:
    """One real server."""

    program: str
    """The argument that tells its process from others."""
    entry: Json
    """Its entry in mcpd's configuration."""
    calls: tuple[Call, ...]
    """In this order: one may need what another left. Many can make the first at the same time."""
    requests: tuple[tuple[str, Json], ...] = ()
    """Some of what is no call: method and parameters."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The tools that are not called, and why."""

    @property
    def at_once(self) -> Call:
        """The call that many can make at the same time, with the same result."""
        return self.calls[0]


def reference(name: str, real: Path, ground: Ground, site: str) -> Server:
    """Return the reference server of that name, of those installed below ``real``."""
    programs = {
        **{n: real / "node_modules/.bin" / f"mcp-server-{n}" for n in REFERENCE[:3]},
        **{n: real / "servers/bin" / f"mcp-server-{n}" for n in REFERENCE[3:6]},
        "old": Path(__file__).with_name("oldserver.py"),
    }
    program = str(programs[name])
    entry: Json = {"command": program, "args": [], "env": {}, "stop_grace": 1}
    calls: tuple[Call, ...]
    match name:
        case "everything":
            calls = EVERYTHING
        case "filesystem":
            calls = _filesystem(ground)
            entry["args"] = [str(ground.files), str(ground.still)]
        case "memory":
            calls = MEMORY
            entry["env"] = {"MEMORY_FILE_PATH": str(ground.memory)}
        case "time":
            calls = TIME
        case "git":
            calls = _git(ground)
            entry["args"] = ["--repository", str(ground.repository)]
            entry["env"] = GIT_IDENTITY
        case "fetch":
            calls = (Call("fetch", {"url": f"{site}/page.txt", "max_length": 60}),)
            entry["args"] = ["--allow-private-ips"]
            entry["env"] = {"NO_PROXY": "127.0.0.1"}
        case _:
            calls = OLD
            entry |= {"command": str(real / "old/bin/python"), "args": [program]}
    left_out = LEFT_OUT if name == "everything" else {}
    return Server(program, entry, calls, _requests(name, site), left_out)


def masking(pattern: str, by: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text)


def _without_our_tag(text: str) -> str:
    """Take out the variable by which mcpd finds its processes again."""
    kept = {k: v for k, v in json.loads(text).items() if k != "MCPD_INSTANCE"}
    return json.dumps(kept, sort_keys=True)


_CLOCK = masking(r"\d{1,2}:\d\d:\d\d [AP]M", "TIME")
_DAY = r"\d{4}-\d\d-\d\d|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"

EVERYTHING = (
    Call("echo", {"message": "naïve ☃ \\u2028 \u2028"}),
    Call("get-annotated-message", {"messageType": "error", "includeImage": True}),
    Call("get-env", mask=_without_our_tag),
    Call("get-resource-links", {"count": 4}),
    Call("get-resource-reference", {"resourceType": "Text", "resourceId": 7}, mask=_CLOCK),
    Call("get-structured-content", {"location": "Chicago"}),
    Call("get-sum", {"a": 2.5, "b": -40}),
    Call("get-tiny-image"),
    Call("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,packed"}),
    # Twice each, so that whoever comes next finds it as it was.
    Call("toggle-simulated-logging"),
    Call("toggle-simulated-logging"),
    Call("toggle-subscriber-updates"),
    Call("toggle-subscriber-updates"),
    Call("trigger-long-running-operation", {"duration": 0.1, "steps": 2}),
    # It wants tasks, which mcpd does not offer: the refusal is the server's own.
    Call("simulate-research-query", {"topic": "sharing"}),
)
LEFT_OUT = {
    "trigger-elicitation-request": "asks the user (elicitation/create) in the middle of the call",
    "trigger-url-elicitation": "asks the user to open a page (elicitation/create)",
    "trigger-sampling-request": "asks the client for a completion (sampling/createMessage)",
}

MEMORY = (
    Call("read_graph"),
    Call(
        "create_entities",
        {
            "entities": [
                {"name": "mcpd", "entityType": "daemon", "observations": ["one process each"]},
                {"name": "mcpctl", "entityType": "program", "observations": []},
            ]
        },
    ),
    Call(
        "create_relations",
        {"relations": [{"from": "mcpctl", "to": "mcpd", "relationType": "controls"}]},
    ),
    Call(
        "add_observations",
        {"observations": [{"entityName": "mcpctl", "contents": ["typed", "scripted"]}]},
    ),
    Call("read_graph"),
    Call("search_nodes", {"query": "scripted"}),
    Call("open_nodes", {"names": ["mcpd"]}),
    Call(
        "delete_observations", {"deletions": [{"entityName": "mcpctl", "observations": ["typed"]}]}
    ),
    Call(
        "delete_relations",
        {"relations": [{"from": "mcpctl", "to": "mcpd", "relationType": "controls"}]},
    ),
    Call("delete_entities", {"entityNames": ["mcpctl"]}),
    Call("read_graph"),
)

TIME = (
    Call(
        "get_current_time",
        {"timezone": "Asia/Kathmandu"},
        mask=masking(rf"T\d\d:\d\d:\d\d|{_DAY}", "NOW"),
    ),
    Call(
        "convert_time",
        {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Kathmandu"},
        mask=masking(_DAY, "TODAY"),
    ),
    Call("get_current_time", {"timezone": "Nowhere/Land"}),
)

OLD = (
    Call("echo", {"text": "naïve ☃"}),
    Call("divide", {"a": 1, "b": 8}),
    Call("divide", {"a": 1, "b": 0}),
    Call("count", {"to": 3}),
)


def _requests(name: str, site: str) -> tuple[tuple[str, Json], ...]:
    match name:
        case "everything":
            manual = "demo://resource/static/document/architecture.md"
            prompt = {"type": "ref/prompt", "name": "completable-prompt"}
            department = {"name": "department", "value": "E"}
            return (
                ("ping", {}),
                ("prompts/get", {"name": "simple-prompt"}),
                ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Zürich"}}),
                ("prompts/get", {"name": "args-prompt"}),
                ("prompts/get", {"name": "no-such-prompt"}),
                ("resources/read", {"uri": manual}),
                ("resources/read", {"uri": "demo://no/such/thing"}),
                ("resources/read", {"uri": "demo://resource/dynamic/text/0"}),
                ("completion/complete", {"ref": prompt, "argument": department}),
                ("logging/setLevel", {"level": "error"}),
                ("tools/call", {"name": "no-such-tool", "arguments": {}}),
                ("tools/call", {"name": "get-sum", "arguments": {"a": "text"}}),
            )
        case "memory":
            return (
                ("resources/list", {}),
                ("resources/read", {"uri": "memory://knowledge-graph"}),
            )
        case "fetch":
            page = {"url": f"{site}/page.txt"}
            return (
                ("prompts/get", {"name": "fetch", "arguments": page}),
                ("prompts/get", {"name": "fetch"}),
                ("tools/call", {"name": "no-such-tool", "arguments": {}}),
                ("resources/read", {"uri": "no://such"}),
            )
    return ()


def _filesystem(ground: Ground) -> tuple[Call, ...]:
    files = str(ground.files)
    readme, notes = f"{files}/readme.md", f"{files}/below/notes.txt"
    edit = {"oldText": "two", "newText": "zwei"}
    return (
        Call("list_allowed_directories"),
        Call("read_file", {"path": readme}),
        Call("read_text_file", {"path": notes, "head": 2}),
        Call("read_media_file", {"path": f"{files}/pixel.png"}),
        Call("read_multiple_files", {"paths": [readme, notes, f"{files}/missing"]}),
        Call("write_file", {"path": f"{files}/written.txt", "content": "line\n\ttab ✓\n"}),
        Call("edit_file", {"path": notes, "edits": [edit], "dryRun": False}),
        Call("create_directory", {"path": f"{files}/fresh/deeper"}),
        Call("move_file", {"source": f"{files}/written.txt", "destination": f"{files}/moved.txt"}),
        Call("list_directory", {"path": files}),
        Call("list_directory_with_sizes", {"path": files, "sortBy": "size"}),
        Call("directory_tree", {"path": files}),
        Call("search_files", {"path": files, "pattern": "**/*.txt"}),
        Call("get_file_info", {"path": str(ground.still / "fixed.txt")}),
        Call("read_file", {"path": "/etc/hostname"}),
    )


def _git(ground: Ground) -> tuple[Call, ...]:
    def call(tool: str, **arguments: Any) -> Call:
        return Call(tool, {"repo_path": str(ground.repository), **arguments})

    return (
        call("git_status"),
        call("git_diff_unstaged"),
        call("git_diff", target="HEAD", context_lines=0),
        call("git_add", files=["a.txt"]),
        call("git_diff_staged"),
        call("git_reset"),
        call("git_add", files=["new.txt", "a.txt"]),
        call("git_commit", message="Add a line\n\nAnd a file."),
        call("git_log", max_count=2, start_timestamp="2026-01-01"),
        call("git_show", revision="HEAD"),
        call("git_create_branch", branch_name="side"),
        call("git_checkout", branch_name="side"),
        call("git_branch", branch_type="local"),
        call("git_show", revision="no-such-thing"),
    )
