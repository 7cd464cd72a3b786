"""URLs of remote servers and of proxies."""

from __future__ import annotations

import pytest

from mcpd.config.urls import (
    document_fault_of,
    fault_of,
    is_loopback,
    proxy_fault_of,
    public_part,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/mcp",
        "HTTPS://MCP.example.com",
        "https://x.example:8443/a?b=c",
        "https://münchen.example/",
        "http://localhost:8080/mcp",
        "http://127.0.0.1:1/mcp",
        "http://127.8.9.10/",
        "http://[::1]:8080/mcp",
    ],
)
def test_https_and_what_stays_on_this_machine_can_be_used(url: str) -> None:
    assert fault_of(url, allow_insecure=False) is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://mcp.example.com/mcp", "allow_insecure"),
        ("http://10.0.0.1/mcp", "allow_insecure"),
        ("http://localhost.example.com/mcp", "allow_insecure"),
        ("http://127.0.0.1.example.com/", "allow_insecure"),
        ("http://2130706433/", "allow_insecure"),
        ("http://0.0.0.0/", "allow_insecure"),
        ("ftp://mcp.example.com/", "begins with https://"),
        ("unix:///run/x.sock", "begins with https://"),
        ("ws://localhost/", "begins with https://"),
        ("mcp.example.com/mcp", "begins with https://"),
        ("not a url", "without blanks"),
        ("https://x.example/\n", "without blanks"),
        ("http://localhost\\@evil.example/", "backslashes"),
        ("https://", "with a host"),
        ("https:///mcp", "with a host"),
        ("https://:443/mcp", "with a host"),
        ("https://x.example:99999/", "such as https://"),
        ("https://[::1/", "such as https://"),
        ("https://ada:secret@x.example/", "without credentials"),
        ("https://ada@x.example/", "without credentials"),
        ("https://@x.example/", "without credentials"),
        ("https://x.example/mcp#part", "without a fragment"),
        ("https://x.example/mcp#", "without a fragment"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_part_of_it(url: str, says: str) -> None:
    fault = fault_of(url, allow_insecure=False)
    assert fault is not None
    assert says in fault
    assert "ada" not in fault
    assert "secret" not in fault


def test_plain_http_to_another_machine_can_be_allowed() -> None:
    assert fault_of("http://mcp.example.com/mcp", allow_insecure=True) is None
    assert fault_of("ftp://mcp.example.com/mcp", allow_insecure=True) is not None


def test_a_proxy_may_have_credentials_and_plain_http() -> None:
    assert proxy_fault_of("http://ada:secret@proxy.example:3128") is None
    assert '"env"' in str(proxy_fault_of("socks5://proxy.example"))


@pytest.mark.parametrize(
    ("url", "is_usable"),
    [
        ("https://x.example/client.json", True),
        ("https://x.example/", False),
        ("http://x.example/client.json", False),
        ("https://u:p@x.example/client.json", False),
        ("x", False),
    ],
)
def test_a_client_metadata_document_is_at_a_path_of_https(url: str, is_usable: bool) -> None:
    assert (document_fault_of(url) is None) is is_usable


def test_names_other_than_localhost_could_lead_anywhere() -> None:
    assert is_loopback("localhost")
    assert not is_loopback("localhost.localdomain")
    assert not is_loopback("")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://x.example/mcp?key=abc&x=y", "https://x.example/mcp"),
        ("https://x.example/mcp#a?b", "https://x.example/mcp"),
        ("https://ada:s@x.example/a@b", "https://x.example/a@b"),
        ("https://x.example?a/@b", "https://x.example"),
        ("${WHOLE}", "${WHOLE}"),
    ],
)
def test_the_public_part_has_no_credentials_query_and_fragment(url: str, public: str) -> None:
    assert public_part(url) == public
