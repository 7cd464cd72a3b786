"""A remote server with its variables resolved: what is sent, what is shown, what is refused."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from mcpd.config.entry import ServerEntry, entry_from_json, masked
from mcpd.config.remote import RemoteConfig
from mcpd.redact import Redactor

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.config.conftest import Place

URL = "https://x.example/mcp"
SECRET = "hunter2-hunter2"
ENV = {"HOME": "/home/ada", "T": SECRET, "PART": "partpart", "EMPTY": "", "LINES": "a\r\nX-B: b"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"


def entry(**content: object) -> ServerEntry:
    return entry_from_json({"url": URL, **content}, name="s", env=ENV, cwd="/work")


def resolved(**content: object) -> RemoteConfig:
    found = entry(**content)
    assert found.remote is not None, found.error
    return found.remote


def test_variables_are_resolved_in_every_text() -> None:
    found = resolved(
        url="https://${PART}.example/$PART?key=${T}",
        headers={"X-A": "${env:T}", "X-B": "a ${NO:-b} $$c"},
        proxy="http://u:${T}@proxy.example",
        auth={"type": "basic", "username": "$PART", "password": "${T}"},
    )
    assert found.url == f"https://partpart.example/partpart?key={SECRET}"
    assert found.headers == {"X-A": SECRET, "X-B": "a b $c"}
    assert found.proxy == f"http://u:{SECRET}@proxy.example"
    assert (found.auth.username, found.auth.password) == ("partpart", SECRET)


def test_a_remote_server_has_no_command() -> None:
    found = entry()
    assert (found.launch, found.shown) == (None, None)
    assert found.remote == RemoteConfig(url=URL)
    assert found.is_resolved


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"url": "https://${NO}/"}, "url"),
        ({"serverUrl": "https://${NO}/", "url": ""}, "serverUrl"),
        ({"headers": {"X-A": "${NO}"}}, "headers.X-A"),
        ({"requestInit": {"headers": {"X-A": "$NO"}}}, "requestInit.headers.X-A"),
        ({"env_http_headers": {"X-A": "NO"}}, "env_http_headers.X-A"),
        ({"bearer_token_env_var": "NO"}, "bearer_token_env_var"),
        ({"auth": "Bearer ${NO}"}, "auth"),
        ({"auth": {"type": "bearer", "token": "$NO"}}, "auth.token"),
        ({"authentication": {"type": "bearer", "token": "$NO"}}, "authentication.token"),
        ({"headers": {"Authorization": "Bearer $NO"}}, "headers.Authorization"),
        ({"oauth": {"clientSecret": "$NO"}}, "oauth.clientSecret"),
        ({"oauth": {"authorizeParams": {"a": "$NO"}}}, "oauth.authorizeParams.a"),
        ({"proxy": "http://$NO/"}, "proxy"),
        ({"ca_file": "$NO"}, "ca_file"),
    ],
)
def test_a_variable_that_is_not_set_is_named_at_its_place(
    content: dict[str, object], key: str
) -> None:
    found = entry(**content)
    assert found.config is not None
    assert found.remote is None
    assert found.error is not None
    assert found.error.startswith(f"error: command.{key}: the variable NO is not set")
    assert found.unset == "NO"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"url": "${EMPTY}"}, "url"),
        ({"url": "http://${PART}.example/"}, "url"),
        ({"url": "https://ada:${T}@x.example/"}, "url"),
        ({"url": "${workspaceFolder}/mcp"}, "url"),
        ({"headers": {"X-A": "${workspaceFolderBasename}"}}, "headers.X-A"),
        ({"headers": {"X-A": "${LINES}"}}, "headers.X-A"),
        ({"headers": {"X-A": "a\nb"}}, "headers.X-A"),
        ({"auth": {"type": "bearer", "token": "${LINES}"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "${EMPTY}"}}, "auth.token"),
        ({"auth": {"type": "basic", "username": "a:b", "password": "c"}}, "auth.username"),
        ({"oauth": {"client_metadata_url": "https://x.example/"}}, "oauth.client_metadata_url"),
        ({"oauth": {"authorize_params": {"a": "${EMPTY}"}}}, "oauth.authorize_params.a"),
        ({"oauth": {"authorize_params": {"a": "${LINES}"}}}, "oauth.authorize_params.a"),
        ({"proxy": "socks5://${PART}"}, "proxy"),
        ({"client_key": "k.pem"}, "client_key"),
        ({"ca_file": "${workspaceFolder}/ca.pem"}, "ca_file"),
    ],
)
def test_what_a_text_must_not_come_to_is_an_error_without_it(
    content: dict[str, object], key: str
) -> None:
    found = entry(**content)
    assert found.remote is None
    assert str(found.error).startswith(f"error: command.{key}: ")
    assert SECRET not in str(found.error)
    assert "partpart" not in str(found.error)


def test_a_password_may_be_anything() -> None:
    auth = {"type": "basic", "username": "ada", "password": "${LINES}"}
    assert resolved(auth=auth).auth.password == "a\r\nX-B: b"


def test_of_a_disabled_server_a_fault_is_a_warning() -> None:
    found = entry(headers={"X-A": "${NO}"}, ca_file="/there/is/none.pem", disabled=True)
    assert found.error is None
    assert found.remote is None
    assert [each.key for each in found.problems] == ["command.headers.X-A"]


SHORT = "s3cr"


@pytest.mark.parametrize(
    "content",
    [
        {"url": f"{URL}?api_key={SECRET}"},
        {"url": f"{URL}?x=${{T}}"},
        {"headers": {"X-Api-Key": SECRET}},
        {"headers": {"Authorization": f"Basic {SECRET}"}},
        {"headers": {"X-Team": "${T}"}},
        {"auth": f"Bearer {SECRET}"},
        {"auth": {"type": "bearer", "token": SECRET}},
        {"auth": {"type": "api-key", "key": SECRET}},
        {"auth": {"type": "basic", "username": "ada", "password": SECRET}},
        {"oauth": {"client_id": "c", "client_secret": SECRET}},
        {"oauth": {"authorize_params": {"id_token_hint": SECRET, "a": "${T}"}}},
        {"proxy": f"http://u:{SECRET}@proxy.example"},
        {"url": f"https://x.example/{SECRET}/mcp", "headers": {"X-Key": SECRET}},
    ],
)
def test_secrets_are_known_and_never_shown(content: dict[str, object]) -> None:
    found = entry(**content)
    assert found.remote is not None, found.error
    assert SECRET not in json.dumps(masked(found))
    assert SECRET not in Redactor(found.secrets).mask(f"the server said {SECRET}!")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("api/mcp/s/ZTk3MjRhYTMtOGU0Ny00MDk2/mcp", "api/mcp/s/***/mcp"),
        ("u/1c6d7a0e-9f1b-4f6e-8d1a-2b3c4d5e6f70/sse", "u/***/sse"),
        ("v1/0123456789abcdef0123456789abcdef?x=1", "v1/***?x=1"),
        ("v2/model-context-protocol-server-for-trackers", None),
        ("mcp/v1.2.3/teams", None),
        ("2025/12/31", None),
    ],
)
def test_a_key_in_the_path_of_an_address_is_a_secret(path: str, shown: str | None) -> None:
    found = entry(url=f"https://x.example/{path}")
    assert masked(found)["url"] == f"https://x.example/{shown or path}"
    assert bool(found.secrets) is (shown is not None)


def test_a_short_secret_is_not_shown_in_the_entry_either() -> None:
    assert SHORT not in json.dumps(masked(entry(auth={"type": "bearer", "token": SHORT})))


def test_what_basic_authentication_sends_is_a_secret() -> None:
    found = entry(auth={"type": "basic", "username": "ada", "password": SHORT})
    sent = base64.b64encode(f"ada:{SHORT}".encode()).decode()
    assert sent not in Redactor(found.secrets).mask(f"Basic {sent}")


def test_what_is_shown_has_the_form_of_an_entry() -> None:
    found = masked(
        entry(
            url="https://${PART}/mcp?key=abcdefgh&x=1",
            headers={"X-A": "b", "X-Token": "abcdefgh", "X-T": "${T}"},
            auth={"type": "basic", "username": "ada", "password": "${T}"},
            idle_timeout=5,
        )
    )
    assert found["url"] == "https://${PART}/mcp?key=***&x=1"
    assert found["headers"] == {"X-A": "b", "X-Token": "***", "X-T": "${T}"}
    assert found["auth"] == {"type": "basic", "username": "ada", "password": "${T}"}
    assert (found["transport"], found["proxy"], found["idle_timeout"]) == ("auto", "env", 5)
    assert not {"command", "args", "env", "cwd", "remote", "stop_scope"} & found.keys()
    assert masked(entry())["auth"] == "auto"


def test_keys_of_a_sign_in_are_shown_where_they_are_not_the_usual_ones() -> None:
    params = {"access_type": "offline", "login_hint": "${PART}", "token": "abcdefgh"}
    found = entry(auth={"type": "oauth", "callback_host": "localhost", "authorize_params": params})
    assert masked(found)["auth"] == {
        "type": "oauth",
        "callback_host": "localhost",
        "authorize_params": {**params, "token": "***"},
    }
    assert found.remote is not None
    assert found.remote.auth.authorize_params == {**params, "login_hint": "partpart"}


def test_an_entry_with_a_command_shows_nothing_of_a_remote_one() -> None:
    found = masked(entry_from_json({"command": "x"}, name="s", env=ENV, cwd="/"))
    assert not {"remote", "url", "headers", "auth"} & found.keys()


# -- files -----------------------------------------------------------------------------------------


def put(place: Place, name: str, content: str, mode: int = 0o600) -> Path:
    place.user.mkdir(parents=True, exist_ok=True)
    path = place.user / name
    path.write_text(content)
    path.chmod(mode)
    return path


def load(place: Place, **content: object) -> ServerEntry:
    place.write("mcp.json", {"mcpServers": {"s": {"url": URL, **content}}})
    return place.load().entries["s"]


def test_files_are_relative_to_the_configuration(place: Place) -> None:
    ca = put(place, "ca.pem", CERTIFICATE, 0o644)
    certificate = put(place, "me.pem", CERTIFICATE, 0o644)
    key = put(place, "me.key", KEY)
    found = load(place, ca_file="ca.pem", client_cert="~/.config/mcpd/me.pem", client_key="me.key")
    assert found.remote is not None, found.error
    assert found.remote.ca_file == str(ca)
    assert found.remote.client_cert == str(certificate)
    assert found.remote.client_key == str(key)
    assert place.load().named_files == {str(ca), str(certificate), str(key)}


@pytest.mark.parametrize("key", ["client_key", "key_file"])
def test_a_key_that_others_can_read_is_refused(place: Place, key: str) -> None:
    put(place, "me.pem", CERTIFICATE)
    path = put(place, "me.key", KEY, 0o640)
    oauth = {"type": "oauth", "client_id": "c", "key_file": "me.key"}
    content = {"auth": oauth} if key == "key_file" else {"client_key": "me.key"}
    found = (
        load(place, client_cert="me.pem", **content)
        if key == "client_key"
        else load(place, **content)
    )
    assert found.remote is None
    assert f"{key}: {path}: refused: others can read" in str(found.error)
    assert f"chmod go= {path}" in str(found.error)
    path.chmod(0o600)
    assert place.load().entries["s"].remote is not None


def test_a_certificate_with_its_key_must_be_private(place: Place) -> None:
    path = put(place, "both.pem", CERTIFICATE + KEY, 0o644)
    assert f"client_cert: {path}: refused" in str(load(place, client_cert="both.pem").error)
    path.chmod(0o600)
    assert load(place, client_cert="both.pem").remote is not None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        ("", "expected a private key in PEM"),
        (CERTIFICATE, "expected a private key in PEM"),
        (KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), "without a passphrase"),
        (KEY.replace("MIIB", "Proc-Type: 4,ENCRYPTED"), "without a passphrase"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error(
    place: Place, content: str | None, says: str
) -> None:
    put(place, "me.pem", CERTIFICATE)
    if content is not None:
        put(place, "me.key", content)
    found = load(place, client_cert="me.pem", client_key="me.key")
    assert found.remote is None
    assert says in str(found.error)


def test_authorities_are_certificates(place: Place) -> None:
    put(place, "ca.pem", "MIIB", 0o644)
    assert "ca.pem: expected a certificate in PEM" in str(load(place, ca_file="ca.pem").error)
    assert "there is no such file" in str(load(place, ca_file="none.pem").error)


def test_the_error_has_file_line_and_key(place: Place) -> None:
    file = place.write(
        "config.toml",
        f'[servers.far]\nurl = "{URL}"\n\n[servers.far.auth]\ntype = "bearer"\ntoken = "${{NO}}"\n',
    )
    error = str(place.load().entries["far"].error)
    assert error.startswith(f"{file}, line 6, column 9: error: servers.far.auth.token: ")


def test_the_error_of_a_parameter_has_its_own_line(place: Place) -> None:
    file = place.write(
        "config.toml",
        f'[servers.far]\nurl = "{URL}"\n\n[servers.far.auth]\ntype = "oauth"\n'
        'authorize_params.access_type = "offline"\nauthorize_params.state = "x"\n',
    )
    error = str(place.load().entries["far"].error)
    key = "servers.far.auth.authorize_params.state"
    assert error.startswith(f"{file}, line 7, column 26: error: {key}: expected another parameter")
