"""A daemon in the loop of the test, with one remote server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.far import Far
from tests.support.remoteserver import RemoteServer


@pytest.fixture
async def server() -> AsyncIterator[RemoteServer]:
    made = await RemoteServer().start()
    yield made
    await made.stop()


@pytest.fixture
async def make(tmp_path: Path, server: RemoteServer) -> AsyncIterator[Any]:
    made: list[Far] = []

    def make_one(settings: Any = None, **entry: Any) -> Far:
        made.append(Far(tmp_path, {"url": server.url, **entry}, settings))
        return made[-1]

    yield make_one
    for each in made:
        await each.close()


@pytest.fixture
async def far(make: Any) -> Far:
    found: Far = make()
    return found
