"""Real servers in one box: what is installed, the place they work in, a daemon that runs them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.ground import Ground, Site
from tests.real.popular import NPM, PYPI, popular
from tests.real.servers import REFERENCE, Server, reference
from tests.support.daemon import Box, Peer

pytest.register_assert_rewrite("tests.real.cells")

FROM_NPM = (*REFERENCE[:3], *NPM)
NAMES = (*REFERENCE, *NPM, *PYPI)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker that is of this directory alone."""
    config.addinivalue_line(
        "markers", "matrix: a cell that `make matrix` tests, and no change does"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is below this directory needs what `make real` installs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.timeout(180))  # several of them start in one test


@pytest.fixture(scope="session")
def real() -> Path:
    """Where `make real` has installed the peers."""
    place = os.environ.get("MCPD_REAL")
    if not place:
        pytest.skip("MCPD_REAL is not set: `make real` installs the peers and sets it")
    return Path(place)


@pytest.fixture(scope="session")
def npm(real: Path) -> Path:
    """Where the programs of npm are."""
    programs = real / "node_modules" / ".bin"
    if not programs.is_dir():
        missing = "" if shutil.which("npm") else ": npm is missing"
        pytest.skip(f"no packages of npm in {real}{missing}; install Node.js, then `make real`")
    return programs


@pytest.fixture(scope="session")
def agents(real: Path, npm: Path) -> Path:
    """Where the agents of npm are."""
    programs = real / "programs" / "node_modules" / ".bin"
    if not programs.is_dir():
        pytest.skip(f"no agents in {real / 'programs'}; `make real` installs them")
    return programs


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The site that the fetching server fetches from."""
    served = Site()
    yield served
    served.close()


def _box(real: Path) -> Box:
    """Return a box in which the programs of npm run on the Node that came with them."""
    made = Box()
    made.env["PATH"] = f"{real / 'node_modules' / '.bin'}{os.pathsep}{made.env['PATH']}"
    return made


@pytest.fixture(scope="module")
def box(real: Path) -> Iterator[Box]:
    """A box for all tests of a module: starting these servers takes seconds."""
    made = _box(real)
    yield made
    made.close()


@pytest.fixture
def make_box(real: Path) -> Iterator[Callable[[], Box]]:
    """Make a box of the test's own."""
    with contextlib.ExitStack() as stack:

        def make() -> Box:
            made = _box(real)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="module")
def ground(box: Box) -> Ground:
    """What the servers work on."""
    return Ground(box.root / "ground")


@pytest.fixture(scope="module")
def servers(real: Path, ground: Ground, site: Site) -> dict[str, Server]:
    """Every real server that is installed, by name."""
    there = [n for n in NAMES if n not in FROM_NPM or (real / "node_modules" / ".bin").is_dir()]
    return {
        name: (reference if name in REFERENCE else popular)(name, real, ground, site.url)
        for name in there
    }


@pytest.fixture(scope="module")
def house(box: Box, servers: dict[str, Server]) -> Box:
    """A daemon with all real servers and the fake one."""
    box.servers |= {name: each.entry for name, each in servers.items()}
    return box.fake().up()


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest, real: Path) -> str:
    """Each server in turn; skips those of npm where there is none."""
    if request.param in FROM_NPM:
        request.getfixturevalue("npm")
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def direct(box: Box) -> Iterator[Callable[[Server], Peer]]:
    """Start a server as a client without mcpd does, and return the initialized session."""
    started: list[Peer] = []

    def start(chosen: Server) -> Peer:
        entry, pipe = chosen.entry, subprocess.PIPE
        process = subprocess.Popen(
            [entry["command"], *entry["args"]],
            env={**box.env, **entry["env"]},
            cwd=box.env["HOME"],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        started.append(Peer.over(process))
        return started[-1]

    yield start
    for peer in started:
        peer.close()
