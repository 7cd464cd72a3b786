"""Package runners, which fetch a package and run it: the package that they run, their caches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mcpd.core.policy.containers import container_run

_PROGRAM: Final = re.compile(r"\.(?:exe|cmd|bat|ps1)$")

_RUNNERS: Final = {
    ("npx",): "npx",
    ("npm", "exec"): "npx",
    ("npm", "x"): "npx",
    ("bunx",): "bunx",
    ("bun", "x"): "bunx",
    ("pnpx",): "pnpm",
    ("pnpm", "dlx"): "pnpm",
    ("yarn", "dlx"): "yarn",
    ("uvx",): "uv",
    ("uv", "tool", "run"): "uv",
    ("uv", "run"): "uv",
    ("pipx", "run"): "pipx",
    ("deno", "run"): "deno",
}
"""The first words of a command that runs a package, and the runner whose cache it uses."""

_NAMES: Final = {
    "npx": ("-p", "--package"),
    "bunx": ("-p", "--package"),
    "pnpm": ("-p", "--package"),
    "yarn": ("-p", "--package"),
    "uv": ("--from", "--directory", "--project"),
    "pipx": ("--spec",),
}
"""Options that name the package; without one, the first word that is no option does."""

_VALUES: Final = {
    "npx": frozenset({
        "-c", "--call", "-w", "--workspace", "--cache", "--registry", "--prefix", "--userconfig",
        "--node-options", "--loglevel",
    }),
    "uv": frozenset({
        "--with", "--with-editable", "--with-requirements", "-p", "--python", "--index",
        "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
        "--cache-dir", "--refresh-package", "-P", "--upgrade-package",
        "--reinstall-package", "--index-strategy", "--keyring-provider", "--resolution",
        "--prerelease", "--exclude-newer", "--link-mode", "-C", "--config-setting",
        "--env-file", "--color", "--config-file", "-c", "--constraints", "--overrides",
        "--python-platform", "--extra", "--group", "--only-group", "--allow-insecure-host",
        "-m", "--module",
    }),
    "pipx": frozenset({"--python", "--index-url", "-i", "--pip-args", "--with"}),
    "deno": frozenset({
        "-c", "--config", "--import-map", "--lock", "--cert", "--location", "--seed",
    }),
}  # fmt: skip
"""Other options with a value that is a separate word."""

_IMAGES: Final = "docker"
"""The runner of all container images: several may fetch images at a time."""

_BETWEEN: Final = re.compile(r"[\s'\"`:,()]+")
_CACHE: Final = re.compile(r"_npx|(?:archive|environments|builds)-v[0-9]+")
"""The cache directories of npm and uv that have a subdirectory for each package."""

_PLAIN: Final = re.compile(r"\.?[\w@+-][\w@+.-]*")
"""A part of a path that needs no quotes in a shell."""

_MISSING: Final = re.compile(
    r"\b(?:ERR_)?MODULE_NOT_FOUND\b|\bCannot find (?:module|package)\b|\bModuleNotFoundError\b"
    r"|\bENOTEMPTY\b|\bERR_INVALID_PACKAGE_CONFIG\b"
)


class Package(NamedTuple):
    """A package as the command line names it, and the runner whose cache it is in."""

    runner: str
    name: str

    @property
    def is_exclusive(self) -> bool:
        """Whether one process at a time may fetch it: the runner's cache is not safe for two."""
        return self.runner != _IMAGES


def runner_package(command: str, args: Sequence[str]) -> Package | None:
    """Return the package that a command line fetches and runs, or ``None``."""
    words = (_PROGRAM.sub("", command.rpartition("/")[2]), *args)
    length = next((n for n in (3, 2, 1) if words[:n] in _RUNNERS), 0)
    if not length:
        container = container_run(command, args)
        image = None if container is None else container.image
        return None if image is None else Package(_IMAGES, image)
    runner = _RUNNERS[words[:length]]
    name = _named(runner, words[length:])
    if name is None or (runner == "deno" and not name.startswith(("npm:", "jsr:", "https:"))):
        return None
    return Package(runner, name)


def _named(runner: str, words: Sequence[str]) -> str | None:
    names, values = _NAMES.get(runner, ()), _VALUES.get(runner, frozenset())
    first: str | None = None
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if word == "--":
            first = next(rest, None)
            break
        if option in names:
            return value if has_value else next(rest, None)
        if word in values:
            next(rest, None)
        elif not word.startswith("-"):
            first = word
            break
    return first


def broken_cache(stderr: Iterable[str]) -> str | None:
    """Return the directory in a package runner's cache where a part of a package is missing.

    ``stderr`` has the lines that the server wrote before it ended. Return ``None`` if they name no
    such directory.
    """
    is_missing, place = False, None
    for line in stderr:
        is_missing = is_missing or _MISSING.search(line) is not None
        place = place or _cache_in(line)
    return place if is_missing else None


def cache_remedy(cache: str, server: str) -> str:
    """Return the hint for a broken cache. mcpd does not remove it, because others may use it."""
    return f"to fetch the package again: rm -r {cache} && mcpctl restart {server}"


def _cache_in(line: str) -> str | None:
    for word in _BETWEEN.split(line):
        path = word.lstrip("/")
        if path == word:
            continue  # a relative path, or the end of an absolute one with a space in it
        parts = path.split("/")
        for index, part in enumerate(parts[:-1], start=1):
            if _CACHE.fullmatch(part):
                if all(map(_PLAIN.fullmatch, parts[: index + 1])):
                    return "/" + "/".join(parts[: index + 1])
                break
    return None
