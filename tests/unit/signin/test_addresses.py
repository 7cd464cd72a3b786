"""Which discovered addresses may be used, by where the server is."""

from __future__ import annotations

import pytest

from mcpd.signin.addresses import AddressRefused, Policy

PUBLIC = Policy("https://mcp.example.com/mcp", ["93.184.216.34"])
LOCAL = Policy("http://127.0.0.1:8000/mcp")
OFFICE = Policy("https://mcp.corp.example/mcp", ["10.1.2.3"])

PRIVATE = [
    "https://10.1.2.3/token",
    "https://172.31.0.1/token",
    "https://192.168.7.7/token",
    "https://169.254.169.254/latest",
    "https://[fd00::7]/token",
    "https://[fe80::1]/token",
    "https://[::ffff:10.0.0.1]/token",
    "https://100.64.0.1/token",
    "https://0.0.0.0/token",
]


@pytest.mark.parametrize("url", PRIVATE)
@pytest.mark.parametrize("policy", [PUBLIC, LOCAL])
def test_private_addresses_are_refused_to_servers_elsewhere(policy: Policy, url: str) -> None:
    """
    Loopback is not private: a server on this machine may name only this machine and the public.
    """
    with pytest.raises(AddressRefused):
        policy.check_url(url)


def test_a_server_in_a_private_network_may_name_addresses_there() -> None:
    OFFICE.check_url("https://10.9.9.9/token")
    OFFICE.check_address("10.9.9.9", "login.corp.example")
    with pytest.raises(AddressRefused):
        OFFICE.check_url("https://127.0.0.1/token")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.9.9.9"])
def test_loopback_is_for_servers_on_loopback(host: str) -> None:
    LOCAL.check_url(f"http://{host}:99/token")
    for policy in (PUBLIC, OFFICE):
        for scheme in ("http", "https"):
            with pytest.raises(AddressRefused):
                policy.check_url(f"{scheme}://{host}:99/token")


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example.com/token",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "smb://host/share",
        "-flag",
        "",
        "https://",
        "https://user:password@as.example.com/",
        "http://[bad/",
    ],
)
@pytest.mark.parametrize("policy", [PUBLIC, LOCAL, OFFICE])
def test_only_https_elsewhere(policy: Policy, url: str) -> None:
    with pytest.raises(AddressRefused) as raised:
        policy.check_url(url)
    assert "password" not in str(raised.value)


def test_the_servers_own_origin_was_configured() -> None:
    Policy("http://lan.example:8080/mcp").check_url("http://lan.example:8080/register")


def test_a_name_is_checked_where_it_leads() -> None:
    PUBLIC.check_url("https://as.example.com/token")
    PUBLIC.check_address("93.184.216.34", "as.example.com")
    for leads in ("127.0.0.1", "10.0.0.1", "::1", "fe80::1%eth0"):
        with pytest.raises(AddressRefused, match=r"as\.example\.com"):
            PUBLIC.check_address(leads, "as.example.com")


def test_a_name_with_addresses_of_both_kinds_is_public() -> None:
    with pytest.raises(AddressRefused):
        Policy("https://mcp.example.com", ["93.184.216.34", "10.0.0.1"]).check_url(PRIVATE[0])
