"""A package runner on the ``PATH`` of a box: it installs what it is told to, then runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.daemon import Box

SCRIPT = """\
#!/bin/sh
# npx -y PACKAGE COMMAND...: what it has installed when it is killed is lost.
home=$(cd "$(dirname "$0")/../npx" && pwd)
package=$2
shift 2
echo "begin $package" >> "$home/journal"
if [ ! -e "$home/$package.installed" ]; then
    echo "npm warn deprecated inflight@1.0.6: it leaks" >&2
    sleep "$(cat "$home/$package.takes")"
    : > "$home/$package.installed"
fi
echo "installed $package" >> "$home/journal"
if [ -e "$home/$package.script" ]; then
    . "$home/$package.script"
fi
exec "$@"
"""


class FakeNpx:
    """Servers that come in packages; each is a fake server once its package is installed."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.home = box.root / "npx"
        self.home.mkdir()
        program = box.root / "bin" / "npx"
        program.parent.mkdir()
        program.write_text(SCRIPT)
        program.chmod(0o700)
        box.env["PATH"] = f"{program.parent}:{box.env['PATH']}"

    def package(self, package: str, *, takes: float = 0.0, script: str = "") -> None:
        """Have a package take some seconds to install, and its server begin with a script."""
        self.file(f"{package}.takes").write_text(str(takes))
        if script:
            self.file(f"{package}.script").write_text(script)

    def fake(self, name: str, package: str, *flags: object, **entry: Any) -> None:
        """Add a fake server of a package, as ``Box.fake`` adds one."""
        self.box.fake(name, *flags, **entry)
        launch = self.box.servers[name]
        launch["args"] = ["-y", package, launch["command"], *launch["args"]]
        launch["command"] = "npx"

    def file(self, name: str) -> Path:
        """Return a file beside its cache."""
        return self.home / name

    def journal(self, package: str) -> list[str]:
        """Return what was done with a package so far: ``begin`` and ``installed``."""
        path = self.file("journal")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[0] for line in lines if line.split()[1:] == [package]]
