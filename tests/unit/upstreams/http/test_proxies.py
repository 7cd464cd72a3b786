"""Which proxy a request goes through."""

from __future__ import annotations

import pytest

from mcpd.upstreams.http.proxies import proxy_for

URL = "https://far.test:8443/mcp"
PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "setting", "environment", "proxy"),
    [
        (URL, "env", {}, None),
        (URL, "env", {"HTTPS_PROXY": PROXY}, PROXY),
        (URL, "env", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        (URL, "env", {"HTTP_PROXY": PROXY}, None),
        (URL, "env", {"ALL_PROXY": PROXY}, PROXY),
        (URL, "env", {"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
        ("http://far.test/", "env", {"HTTP_PROXY": PROXY}, PROXY),
        (URL, "none", {"HTTPS_PROXY": PROXY}, None),
        (URL, PROXY, {}, PROXY),
        ("http://127.0.0.1:1/", "env", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None),
        ("http://[::1]:1/", "env", {"HTTP_PROXY": PROXY}, None),
        ("http://localhost/", "env", {"HTTP_PROXY": PROXY}, None),
        ("http://127.0.0.1:1/", PROXY, {}, PROXY),
        (URL, "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.test,far.test"}, None),
        (URL, "env", {"HTTPS_PROXY": PROXY, "no_proxy": ".test"}, None),
        (URL, "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "far.test:8443"}, None),
        (URL, "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "far.test:1"}, PROXY),
        (URL, "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ar.test"}, PROXY),
        (URL, "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("https://10.1.2.3/", "env", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
    ],
)
def test_proxies(url, setting, environment, proxy):
    assert proxy_for(url, setting, environment) == proxy
