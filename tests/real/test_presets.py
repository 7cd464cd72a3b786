"""The packages that presets name are in the registries that they name."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from mcpd.onboarding import presets

PRESETS = presets.read()
NPM = {name: one.npm for name, one in PRESETS.items() if one.npm}
PYPI = {name: one.pypi for name, one in PRESETS.items() if one.pypi}
KNOWN = {"npm": "@modelcontextprotocol/sdk", "pypi": "mcp"}
"""A package that each registry has, if it can be reached."""

NEWEST_PYTHON = "3.13"
"""``uvx`` brings the Python that a package wants."""


def asked(registry: str, package: str) -> subprocess.CompletedProcess[str]:
    """Ask a registry for the versions of a package."""
    if registry == "npm":
        command = ["npm", "view", package, "version"]
    else:
        command = [sys.executable, "-m", "pip", "index", "versions", package]
        command += ["--python-version", NEWEST_PYTHON, "--only-binary=:all:"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module", params=list(KNOWN))
def registry(request: pytest.FixtureRequest) -> str:
    """A registry that can be reached from here."""
    name: str = request.param
    if name == "npm" and shutil.which("npm") is None:
        pytest.skip("npm is missing: install Node.js")
    done = asked(name, KNOWN[name])
    if done.returncode:
        pytest.skip(f"{name} cannot be reached: {done.stderr.strip()[-200:]}")
    return name


def test_a_registry_has_the_packages_of_all_presets(registry: str) -> None:
    """
    A preset whose package is gone is an entry that cannot start.
    """
    packages = NPM if registry == "npm" else PYPI
    done = {name: asked(registry, package) for name, package in packages.items()}
    missing = {name: one.stderr[-200:] for name, one in done.items() if one.returncode}
    assert packages
    assert missing == {}
