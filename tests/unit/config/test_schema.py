"""The schema, and that the readers know all of it."""

from __future__ import annotations

import msgspec
import pytest

from mcpd.config.policy import ProfileConfig, ServerPolicy, TrustConfig
from mcpd.config.reading import policy_table, remote_table, tables
from mcpd.config.remote import AuthConfig, RemoteConfig
from mcpd.config.schema import DaemonConfig, HttpConfig, RestartConfig, ServerConfig, ToolsConfig


@pytest.mark.parametrize(
    ("struct", "readers"),
    [
        (DaemonConfig, tables.DAEMON),
        (HttpConfig, tables.HTTP),
        (RestartConfig, tables.RESTART),
        (ToolsConfig, tables.TOOLS),
        (
            ServerConfig,
            {**tables.SERVER, "restart": None, "tools": None, "remote": None, "policy": None},
        ),
        (ServerPolicy, policy_table.SERVER),
        (TrustConfig, policy_table.TRUST),
        (ProfileConfig, policy_table.PROFILE),
        (
            RemoteConfig,
            {**remote_table.KEYS, "url": None, "transport": None, "headers": None, "auth": None},
        ),
        (AuthConfig, {**remote_table.AUTH, "kind": None}),
    ],
)
def test_every_key_of_the_schema_can_be_written(
    struct: type[msgspec.Struct], readers: dict[str, object]
) -> None:
    assert set(struct.__struct_fields__) == set(readers)


def test_an_outbox_holds_two_messages_unless_told_otherwise() -> None:
    assert DaemonConfig(max_message_bytes=5000).outbox_bytes == 10000
    assert DaemonConfig(max_outbox_bytes=7000).outbox_bytes == 7000
