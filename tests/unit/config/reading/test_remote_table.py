"""How a server is reached by URL, in every spelling."""

from __future__ import annotations

import pytest

from mcpd.config.reading.findings import Findings
from mcpd.config.reading.tables import OF_PROCESS, Read, server
from mcpd.config.remote import AuthConfig, RemoteConfig

URL = "https://x.example/mcp"


def read(content: object) -> tuple[Read, list[str]]:
    findings = Findings("", None)
    found = server(content, ("servers", "s"), "s", findings)
    return found, [str(problem).replace("servers.s.", "") for problem in findings.problems]


def remote(**content: object) -> RemoteConfig:
    found, problems = read({"url": URL, **content})
    assert problems == []
    assert found.config is not None
    assert found.config.remote is not None
    return found.config.remote


def problems(**content: object) -> list[str]:
    found, said = read({"url": URL, **content})
    assert found.config is None
    return said


def test_defaults_are_those_of_the_schema() -> None:
    assert remote() == RemoteConfig(url=URL)


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl", "uri"])
def test_the_address_has_many_names(key: str) -> None:
    found, said = read({key: URL})
    assert said == []
    assert found.config is not None
    assert found.config.remote == RemoteConfig(url=URL)


def test_of_two_addresses_the_first_name_counts() -> None:
    found, said = read({"serverUrl": "https://other.example/", "url": URL})
    assert found.config is not None
    assert found.config.remote == RemoteConfig(url=URL)
    assert said == ["warning: serverUrl: means url, which is given too; url counts"]


@pytest.mark.parametrize("key", ["type", "transport", "transportType"])
@pytest.mark.parametrize(
    ("word", "transport"),
    [
        ("http", "http"),
        ("streamable-http", "http"),
        ("streamable_http", "http"),
        ("streamableHttp", "http"),
        ("HTTP", "http"),
        ("sse", "sse"),
        ("remote", "auto"),
        ("auto", "auto"),
        ("", "auto"),
        (None, "auto"),
    ],
)
def test_the_transport_has_many_names(key: str, word: object, transport: str) -> None:
    assert remote(**{key: word}).transport == transport


def test_two_transports_are_a_warning() -> None:
    assert read({"url": URL, "type": "http", "transport": "sse"})[1] == [
        "warning: transport: type is given too, and counts"
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"url": URL, "type": "stdio"}, 'error: type: "stdio" is a process, and url is given'),
        ({"type": "sse"}, "error: type: url is missing: expected the address of the server"),
        ({"type": "http", "url": ""}, "error: type: url is missing: expected the address of"),
        ({"url": URL, "type": "carrier-pigeon"}, "error: type: expected one of stdio, local, "),
        ({"url": 5}, "error: url: expected a string, not a number"),
        ({"url": URL, "command": "x"}, "error: command: url is given too"),
    ],
)
def test_what_contradicts_the_address_is_an_error(content: object, says: str) -> None:
    found, said = read(content)
    assert found.config is None
    assert [each for each in said if each.startswith(says)] == said


FILLED = {
    "command": "x",
    "args": ["x"],
    "env": {"A": "b"},
    "cwd": "/",
    "inherit_env": "none",
    "env_file": "x",
    "stop_scope": "group",
    "memory_max": 100,
}


@pytest.mark.parametrize("key", OF_PROCESS)
def test_a_key_about_processes_is_an_error_that_names_it(key: str) -> None:
    [said] = problems(**{key: FILLED[key]})
    assert said.startswith(f"error: {key}: ")


def test_empty_keys_about_processes_are_as_good_as_absent() -> None:
    """
    Some clients write all keys that they know.
    """
    assert remote(command="", args=[], env={}, cwd=None) == RemoteConfig(url=URL)


@pytest.mark.parametrize(
    "key", ["headers", "auth", "oauth", "proxy", "client_key", "http_headers", "allow_insecure"]
)
def test_a_key_about_remote_servers_is_an_error_at_a_command(key: str) -> None:
    value: object = {"a": "b"} if key in ("headers", "http_headers", "oauth") else "none"
    found, said = read({"command": "x", key: value})
    assert found.config is None
    assert said[0].startswith(f"error: {key}: is about a server that is reached by URL")


def test_all_other_keys_mean_the_same() -> None:
    found, said = read(
        {
            "url": URL,
            "timeout": 30,
            "sharing": "session",
            "era": "legacy",
            "tools": {"deny": ["x"]},
            "restart": {"backoff": 1},
            "disabled": True,
        }
    )
    assert said == []
    assert found.config is not None
    assert not found.enabled
    assert (found.config.call_timeout, found.config.sharing) == (30, "session")
    assert found.config.tools.deny == ("x",)


def test_durations_counts_and_files() -> None:
    assert remote(
        connect_timeout="5s",
        ping_interval=30,
        retryAttempts=5,
        proxy="none",
        ca_file="ca.pem",
        client_cert="c.pem",
        client_key="k.pem",
        allow_insecure=True,
    ) == RemoteConfig(
        url=URL,
        connect_timeout=5,
        ping_interval=30,
        retry_attempts=5,
        proxy="none",
        ca_file="ca.pem",
        client_cert="c.pem",
        client_key="k.pem",
        allow_insecure=True,
    )
    assert problems(connect_timeout=0) == ["error: connect_timeout: expected more than 0 seconds"]


@pytest.mark.parametrize(
    "content",
    [
        {"headers": {"X-A": "${V}"}},
        {"http_headers": {"X-A": "${V}"}},
        {"env_http_headers": {"X-A": "V"}},
        {"requestInit": {"headers": {"X-A": "${V}"}}},
        {"requestOptions": {"headers": {"X-A": "${V}"}}},
    ],
)
def test_headers_have_many_spellings(content: dict[str, object]) -> None:
    assert remote(**content).headers == {"X-A": "${V}"}


def test_a_header_that_is_given_twice_is_a_warning() -> None:
    found, said = read({"url": URL, "headers": {"X-A": "1"}, "http_headers": {"x-a": "2"}})
    assert found.config is not None
    assert found.config.remote == RemoteConfig(url=URL, headers={"X-A": "1"})
    assert said == ["warning: http_headers.x-a: this header is given twice; the first one counts"]


def test_headers_of_the_transport_are_left_out_with_a_warning() -> None:
    """
    READMEs have them: the server would not understand another value.
    """
    found, said = read({"url": URL, "headers": {"Accept": "text/html", "mcp-session-id": "1"}})
    assert found.config is not None
    assert found.config.remote == RemoteConfig(url=URL)
    assert [each.partition(": ")[2].partition(":")[0] for each in said] == [
        "headers.Accept",
        "headers.mcp-session-id",
    ]


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"headers": {"X A": "b"}}, 'headers."X A"'),
        ({"headers": {"": "b"}}, 'headers.""'),
        ({"headers": {"X-A": 5}}, "headers.X-A"),
        ({"headers": ["X-A: b"]}, "headers"),
        ({"requestInit": {"headers": {"X-A": None}}}, "requestInit.headers.X-A"),
        ({"env_http_headers": {"X-A": "${V}"}}, "env_http_headers.X-A"),
        ({"bearer_token_env_var": "Bearer x"}, "bearer_token_env_var"),
    ],
)
def test_a_bad_header_is_an_error_at_its_place(content: dict[str, object], key: str) -> None:
    [said] = problems(**content)
    assert said.startswith(f"error: {key}: expected ")


@pytest.mark.parametrize(
    ("content", "auth"),
    [
        ({"auth": "auto"}, AuthConfig()),
        ({"auth": None}, AuthConfig()),
        ({"auth": "none"}, AuthConfig(kind="none")),
        ({"auth": "oauth"}, AuthConfig(kind="oauth")),
        ({"auth": "Bearer ${T}"}, AuthConfig(kind="bearer", token="${T}")),
        ({"authentication": "bearer x"}, AuthConfig(kind="bearer", token="x")),
        ({"auth": {"type": "bearer", "token": "t"}}, AuthConfig(kind="bearer", token="t")),
        ({"auth": {"type": "api_key", "key": "k"}}, AuthConfig(kind="api-key", key="k")),
        (
            {"auth": {"type": "apiKey", "key": "k", "header": "X-O"}},
            AuthConfig(kind="api-key", key="k", header="X-O"),
        ),
        (
            {"auth": {"type": "basic", "username": "a", "password": "b"}},
            AuthConfig(kind="basic", username="a", password="b"),
        ),
        ({"bearer_token_env_var": "T"}, AuthConfig(kind="bearer", token="${T}")),
        ({"bearerTokenEnvVar": "T"}, AuthConfig(kind="bearer", token="${T}")),
        ({"bearerTokenEnv": "T"}, AuthConfig(kind="bearer", token="${T}")),
        ({"headers": {"authorization": "Bearer ${T}"}}, AuthConfig(kind="bearer", token="${T}")),
        (
            {"auth": {"type": "oauth", "scopes": ["a", "b"]}},
            AuthConfig(kind="oauth", scopes=("a", "b")),
        ),
        (
            {"oauth": {"clientId": "c", "callbackPort": 8080, "scopes": "a b"}},
            AuthConfig(kind="oauth", client_id="c", redirect_port=8080, scopes=("a", "b")),
        ),
        (
            {"auth": {"type": "oauth", "callback_host": "localhost"}},
            AuthConfig(kind="oauth", callback_host="localhost"),
        ),
        ({"auth": {"type": "oauth", "callback_host": "127.0.0.1"}}, AuthConfig(kind="oauth")),
        (
            {"oauth": {"redirect_host": "localhost"}},
            AuthConfig(kind="oauth", callback_host="localhost"),
        ),
        (
            {"oauth": {"authorizeParams": {"access_type": "offline", "x-a.b": "c d"}}},
            AuthConfig(kind="oauth", authorize_params={"access_type": "offline", "x-a.b": "c d"}),
        ),
        ({"auth": {"type": "oauth", "authorize_params": {}}}, AuthConfig(kind="oauth")),
        ({"oauth": {"enabled": True, "scope": "a"}}, AuthConfig(kind="oauth", scopes=("a",))),
        ({"oauth": {"enabled": False, "clientId": "c"}}, AuthConfig(kind="none")),
        ({"oauth": {}}, AuthConfig(kind="oauth")),
        ({"oauth": True}, AuthConfig(kind="oauth")),
        ({"oauth": False}, AuthConfig(kind="none")),
        ({"auth": "oauth", "oauth": {"client_id": "c"}}, AuthConfig(kind="oauth", client_id="c")),
        (
            {"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s"}},
            AuthConfig(kind="oauth", client_id="c", client_secret="s"),
        ),
        ({"scopes": ["a"]}, AuthConfig(scopes=("a",))),
        (
            {"oauth": {"client_id": "c"}, "scopes": ["a"]},
            AuthConfig(kind="oauth", client_id="c", scopes=("a",)),
        ),
        (
            {
                "auth": {
                    "type": "oauth",
                    "grant": "client_credentials",
                    "client_id": "c",
                    "key_file": "k.pem",
                    "key_algorithm": "RS256",
                }
            },
            AuthConfig(
                kind="oauth",
                grant="client_credentials",
                client_id="c",
                key_file="k.pem",
                key_algorithm="RS256",
            ),
        ),
    ],
)
def test_auth_has_many_spellings(content: dict[str, object], auth: AuthConfig) -> None:
    found = remote(**content)
    assert found.auth == auth
    assert found.headers == {}


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"type": "bearer"}, ["auth: token is missing, which bearer needs"]),
        ({"type": "bearer", "token": ""}, ["auth: token is missing, which bearer needs"]),
        ({"type": "api-key"}, ["auth: key is missing, which api-key needs"]),
        (
            {"type": "basic"},
            [
                "auth: username is missing, which basic needs",
                "auth: password is missing, which basic needs",
            ],
        ),
        (
            {"type": "oauth", "grant": "client_credentials"},
            [
                "auth: client_id is missing, which oauth needs",
                "auth: client_secret is missing, which oauth needs",
            ],
        ),
        ({"type": "kerberos"}, ["auth.type: expected one of auto, none, bearer, api-key, "]),
        ({"token": "t"}, ["auth: type is missing: expected one of auto, none, bearer, api-key, "]),
        ({"type": "oauth", "redirect_port": 70000}, ["auth.redirect_port: expected a port from"]),
        *(
            (
                {"type": "oauth", "callback_host": value},
                ["auth.callback_host: expected one of 127.0.0.1, localhost"],
            )
            for value in ("::1", "0.0.0.0", "localhost:80", "LOCALHOST", "hunter2.example", 5)
        ),
        (
            {"type": "oauth", "authorize_params": "hunter2"},
            ["auth.authorize_params: expected a table of strings, not a string"],
        ),
        (
            {"type": "oauth", "authorize_params": {"a": True, "b": "hunter2", "c d": "", "e": " "}},
            [
                "auth.authorize_params.a: expected a string, not true or false: write it in quotes",
                'auth.authorize_params."c d": expected a name of a parameter',
                "auth.authorize_params.e: expected a string that is not empty",
            ],
        ),
        *(
            (
                {"type": "oauth", "authorize_params": {"access_type": "offline", name: "hunter2"}},
                [f"auth.authorize_params.{name}: expected another parameter: mcpd itself decides"],
            )
            for name in (
                *(
                    "client_id",
                    "client_secret",
                    "redirect_uri",
                    "state",
                    "code_challenge",
                    "code_challenge_method",
                ),
                *("response_type", "resource", "scope", "request", "request_uri", "response_mode"),
                "State",
            )
        ),
        ({"type": "oauth", "scopes": ['a"b']}, ["auth.scopes[0]: expected a scope"]),
        ("hunter2-hunter2", ["auth: expected auto, none, oauth, text that begins with"]),
        ("Bearer ", ["auth: expected auto, none, oauth, text that begins with"]),
        (5, ["auth: expected auto, none, oauth, text that begins with"]),
    ],
)
def test_auth_that_lacks_something_is_an_error(auth: object, said: list[str]) -> None:
    found = problems(auth=auth)
    assert len(found) == len(said)
    for one, wanted in zip(found, said, strict=True):
        assert one.startswith(f"error: {wanted}")
        assert "hunter2" not in one


def test_a_key_of_another_kind_is_unknown() -> None:
    found, said = read({"url": URL, "auth": {"type": "bearer", "token": "t", "username": "a"}})
    assert found.config is not None
    assert said == ["warning: auth.username: unknown key, which changes nothing"]


def test_a_header_that_auth_sets_too_is_an_error() -> None:
    for auth, header in (
        ("Bearer x", "authorization"),
        ({"type": "basic", "username": "a", "password": "b"}, "Authorization"),
        ({"type": "api-key", "key": "k"}, "X-API-Key"),
    ):
        assert problems(auth=auth, headers={header: "y"}) == [
            f"error: headers.{header}: auth sets this header too: leave one of them out"
        ]


def test_another_scheme_in_a_header_leaves_nothing_to_sign_in_for() -> None:
    found = remote(headers={"Authorization": "Basic abc"})
    assert found.auth == AuthConfig(kind="none")
    assert found.headers == {"Authorization": "Basic abc"}


def test_what_auth_makes_superfluous_is_a_warning() -> None:
    found, said = read({"url": URL, "auth": "Bearer x", "oauth": True, "bearer_token_env_var": "T"})
    assert found.config is not None
    assert said == [
        "warning: bearer_token_env_var: changes nothing, because auth is given too",
        "warning: oauth: changes nothing, because auth is given too",
    ]


def test_where_a_text_is_written_is_known() -> None:
    found, _ = read(
        {
            "serverUrl": URL,
            "requestInit": {"headers": {"X-A": "b"}},
            "authentication": {"type": "oauth", "clientId": "c"},
            "env_http_headers": {"X-B": "V"},
        }
    )
    assert found.spelled == {
        ("url",): ("serverUrl",),
        ("headers", "X-A"): ("requestInit", "headers", "X-A"),
        ("headers", "X-B"): ("env_http_headers", "X-B"),
        ("auth", "client_id"): ("authentication", "clientId"),
    }
