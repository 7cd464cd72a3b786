"""What a package runner is told to run, and how it says that its cache is broken."""

from __future__ import annotations

import time

import pytest

from mcpd.core.policy.runners import broken_cache, runner_package

OF_NODE = """\
node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module 'zod'
Require stack:
- /home/ada/.npm/_npx/15b07286cbcc3329/node_modules/@scope/server/dist/index.js
    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)
  code: 'MODULE_NOT_FOUND',
"""
OF_MODULES = """\
Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from file:///home/ada/.npm/_npx/0aff/node_modules/x/i.js
    at Object.getPackageJSONURL (node:internal/modules/package_json_reader:268:9)
"""
OF_NPM = """\
npm error code ENOTEMPTY
npm error path /var/cache/npm/_npx/0aff/node_modules/x
"""
OF_UV = """\
  File "/home/ada/.cache/uv/archive-v0/yGk2x/lib/python3.12/site-packages/x/__init__.py", line 1, in <module>
    import pydantic
ModuleNotFoundError: No module named 'pydantic'
"""


@pytest.mark.parametrize(
    ("line", "runner", "name"),
    [
        ("npx -y @scope/pkg@1.2 --port 3", "npx", "@scope/pkg@1.2"),
        ("npx pkg", "npx", "pkg"),
        ("/opt/node/bin/npx --yes pkg /src", "npx", "pkg"),
        ("npx.cmd -y pkg", "npx", "pkg"),
        ("npx -y -p @scope/pkg cmd", "npx", "@scope/pkg"),
        ("npx --package=@scope/pkg@2 -c cmd", "npx", "@scope/pkg@2"),
        ("npx --registry https://r.example -y pkg", "npx", "pkg"),
        ("npm exec --yes -- pkg --flag", "npx", "pkg"),
        ("npm x pkg", "npx", "pkg"),
        ("bunx pkg@1", "bunx", "pkg@1"),
        ("bun x pkg", "bunx", "pkg"),
        ("pnpm dlx pkg", "pnpm", "pkg"),
        ("yarn dlx -q pkg", "yarn", "pkg"),
        ("uvx mcp-server-git --repository /src", "uv", "mcp-server-git"),
        ("uvx --python 3.12 --with x pkg==1", "uv", "pkg==1"),
        ("uvx --from git+https://h.example/r cmd", "uv", "git+https://h.example/r"),
        ("uv tool run pkg", "uv", "pkg"),
        ("uv run --directory /src/it server.py", "uv", "/src/it"),
        ("uv run --with mcp server.py", "uv", "server.py"),
        ("pipx run --spec pkg==1 cmd", "pipx", "pkg==1"),
        ("pipx run pkg", "pipx", "pkg"),
        ("deno run -A npm:pkg@1", "deno", "npm:pkg@1"),
        ("docker run -i --rm -e TOKEN mcp/git:1 --x", "docker", "mcp/git:1"),
        ("podman run -i --name a --network=none mcp/git", "docker", "mcp/git"),
    ],
)
def test_what_is_fetched_is_found_as_the_runner_is_told_of_it(line: str, runner: str, name: str):
    command, *args = line.split()
    assert runner_package(command, args) == (runner, name)


@pytest.mark.parametrize(
    "line",
    [
        "node server.js",
        "npm start",
        "npx",
        "npx -y",
        "uv sync",
        "uv tool install pkg",
        "deno run server.ts",
        "docker ps",
        "python3 npx pkg",
        "my-npx pkg",
    ],
)
def test_nothing_else_is_taken_for_a_runner(line: str):
    command, *args = line.split()
    assert runner_package(command, args) is None


def test_equal_caches_are_one_however_it_is_asked_for():
    assert runner_package("npx", ["-y", "pkg"]) == runner_package("npm", ["exec", "--", "pkg"])
    assert runner_package("npx", ["pkg"]) != runner_package("bunx", ["pkg"])


def test_images_may_be_fetched_side_by_side():
    for line, is_exclusive in (("docker run x", False), ("npx x", True), ("uvx x", True)):
        command, *args = line.split()
        package = runner_package(command, args)
        assert package is not None
        assert package.is_exclusive is is_exclusive


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (OF_NODE, "/home/ada/.npm/_npx/15b07286cbcc3329"),
        (OF_MODULES, "/home/ada/.npm/_npx/0aff"),
        (OF_NPM, "/var/cache/npm/_npx/0aff"),
        (OF_UV, "/home/ada/.cache/uv/archive-v0/yGk2x"),
    ],
)
def test_a_broken_cache_is_known_by_what_is_missing_and_where(said: str, place: str):
    """
    B028.
    """
    assert broken_cache(said.splitlines()) == place


@pytest.mark.parametrize(
    "said",
    [
        "Error: Cannot find module '/home/ada/src/server.js'",
        "started from /home/ada/.npm/_npx/0aff/node_modules/x",
        "ModuleNotFoundError: No module named 'mine'",
        "see /srv/_npx/ and _npx/0aff: MODULE_NOT_FOUND",
        "",
    ],
)
def test_nothing_else_is_blamed_on_a_cache(said: str):
    assert broken_cache(said.splitlines()) is None


@pytest.mark.parametrize(
    "place",
    ["/a/_npx/..", "/a/../b/_npx/0aff", "/$HOME/_npx/0aff", "/a;rm/_npx/0aff", "/a b/_npx/0aff"],
)
def test_a_server_cannot_have_a_person_remove_just_anything(place: str):
    """
    What is said is put before a person as something to type.
    """
    assert broken_cache([f"MODULE_NOT_FOUND {place}/x"]) is None


def test_however_long_a_line_is_it_is_looked_at_once():
    """
    A hostile server must not hold the loop.
    """
    lines = ["/" * 65536, "/_npy" * 13107, "a" * 65536, "/a" * 32768, "MODULE_NOT_FOUND"]
    began = time.monotonic()
    assert broken_cache(lines * 8) is None
    assert time.monotonic() - began < 2
