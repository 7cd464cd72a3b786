"""Fixtures and settings for all tests: a home directory that is nobody's, a box with a daemon."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from tests.support.daemon import Box

hypothesis.settings.register_profile("default", max_examples=100, deadline=None)
hypothesis.settings.register_profile("nightly", max_examples=10_000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("MCPD_HYPOTHESIS", "default"))

# A shell that runs pytest in the background leaves SIGINT ignored, and children inherit that;
# a handler, unlike SIG_IGN, is reset by exec.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips", action="store_true", help="a skipped test fails the run (what CI asks for)"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``--no-skips``, say which tests were skipped and fail."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter is not None:
        skipped = reporter.stats.get("skipped", [])
        if skipped:
            reporter.write_line(f"--no-skips: {len(skipped)} skipped", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def nobodys_home() -> Iterator[None]:
    """No test reads or writes the home directory of whoever runs it."""
    home = tempfile.mkdtemp(prefix="mcpd-home-", dir="/tmp")
    kept = {name: value for name, value in os.environ.items() if _is_ours(name)}
    for name in kept:
        del os.environ[name]
    real_home = os.environ.get("HOME")
    os.environ["HOME"] = home
    yield
    os.environ.update(kept)
    if real_home is None:
        del os.environ["HOME"]
    else:
        os.environ["HOME"] = real_home
    shutil.rmtree(home, ignore_errors=True)


def _is_ours(name: str) -> bool:
    ours = name.startswith(("XDG_", "MCPD_")) and not name.startswith("MCPD_TEST_")
    kept = ("MCPD_BIN", "MCPD_CONFORMANCE", "MCPD_REAL", "MCPD_REWRITE_TRANSCRIPTS")
    return ours and name not in kept


@pytest.fixture
def box() -> Iterator[Box]:
    """A private installation; everything in it ends with the test."""
    made = Box()
    try:
        yield made
    finally:
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the daemon's log with a failed test."""
    report = yield
    box = getattr(item, "funcargs", {}).get("box")
    if report.when == "call" and report.failed and isinstance(box, Box):
        with contextlib.suppress(OSError):
            report.sections.append(("mcpd's log (end)", box.tail(6000)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the tests themselves out of every collection of garbage: they last, and are most of it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Collect garbage after tests with processes: a leak is blamed on the test that leaked.

    Elsewhere this would double the suite's time for nothing.
    """
    try:
        return (yield)
    finally:
        if "integration" in item.path.parts or "faults" in item.path.parts:
            gc.collect()
