"""A fake authorization server, and the sign-ins of a daemon that is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.fakeauth import FakeAuth
from tests.support.signins import Home


@pytest.fixture
def auth() -> Iterator[FakeAuth]:
    with FakeAuth() as fake:
        yield fake


@pytest.fixture
async def home(tmp_path: Path, auth: FakeAuth) -> AsyncIterator[Home]:
    made = Home(tmp_path / "state", auth)
    yield made
    await made.signins.close()
