"""``mcpctl secret``, and the offer of a keyring where secrets are met in the clear."""

from __future__ import annotations

import json
import stat

import pytest

from tests.support.daemon import Box
from tests.support.rings import LOCKED, kept, ring
from tests.support.terminal import typed

SECRET = "SENTINEL-of-somebody"


@pytest.fixture
def named(box: Box) -> Box:
    box.trust["keyring"] = "file"
    return box.fake(env={"TOKEN": "${keyring:gh}"}).write()


def listed(box: Box) -> dict[str, object]:
    found = json.loads(box.ctl("secret", "list", "--json").stdout)
    return {each["name"]: (each["places"], each["servers"]) for each in found["secrets"]}


def test_a_secret_is_typed_and_not_shown(named: Box) -> None:
    """
    T41
    """
    status, shown = typed(named, "secret", "set", "gh", answers={"gh (not shown)": SECRET})
    assert status == 0, shown
    assert SECRET not in shown and "in the clear" in shown and "secrets.json" in shown
    file = named.state / "secrets.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["secrets"] == {"gh": SECRET}


def test_a_secret_is_read_from_stdin_without_its_last_line_break(named: Box) -> None:
    done = named.ctl("secret", "set", "key", "--stdin", "--json", stdin="a b\nc\n\n")
    assert json.loads(done.stdout) == {"name": "key", "place": "file", "servers": []}
    secrets = json.loads((named.state / "secrets.json").read_text())["secrets"]
    assert secrets == {"key": "a b\nc\n"}


def test_a_secret_is_never_an_argument(named: Box) -> None:
    """
    T41
    """
    for args in (("gh", SECRET), ("gh", SECRET, "--stdin"), ("gh", SECRET, "--json")):
        done = named.ctl("secret", "set", *args, stdin=SECRET)
        assert done.returncode == 2 and "--stdin" in done.stderr + done.stdout
        assert SECRET not in done.stdout + done.stderr
    assert not (named.state / "secrets.json").exists()


def test_without_a_terminal_the_value_is_asked_for_on_stdin(named: Box) -> None:
    done = named.ctl("secret", "set", "gh")
    assert done.returncode == 2 and "mcpctl secret set gh --stdin" in done.stderr


@pytest.mark.parametrize("args", [("a b",), ("../x",), ("",)])
def test_a_name_that_cannot_be(named: Box, args: tuple[str, ...]) -> None:
    assert named.ctl("secret", "set", *args, "--stdin", stdin="x").returncode == 2
    assert named.ctl("secret", "rm", *args).returncode == 2


def test_secrets_are_listed_moved_and_removed(named: Box) -> None:
    assert listed(named) == {"gh": ([], ["fake"])}
    assert "missing" in named.ctl("secret", "list").stdout
    for name in ("gh", "spare"):
        named.ctl("secret", "set", name, "--stdin", stdin=SECRET)
    assert listed(named) == {"gh": (["file"], ["fake"]), "spare": (["file"], [])}
    assert named.ctl("secret", "move").returncode == 2, "keyring = file"
    ring(named)
    named.trust["keyring"] = "auto"
    named.write()
    assert "gh, spare" in named.ctl("secret", "move").stdout
    assert kept(named) == {"mcpd/gh": SECRET, "mcpd/spare": SECRET}
    assert json.loads((named.state / "secrets.json").read_text())["secrets"] == {}
    assert listed(named) == {"gh": (["keyring"], ["fake"])}, "a keyring lists nothing"
    assert "the keyring" in named.ctl("secret", "rm", "gh").stdout
    assert named.ctl("secret", "rm", "gh").returncode == 2
    assert kept(named) == {"mcpd/spare": SECRET}


def test_a_locked_keyring_takes_nothing_and_the_file_neither(named: Box) -> None:
    ring(named, LOCKED)
    named.trust["keyring"] = "auto"
    named.write()
    done = named.ctl("secret", "set", "gh", "--stdin", stdin=SECRET)
    assert done.returncode == 1 and "locked" in done.stderr
    assert not (named.state / "secrets.json").exists()


def test_what_is_off_keeps_nothing(named: Box) -> None:
    named.trust["keyring"] = "off"
    named.write()
    done = named.ctl("secret", "set", "gh", "--stdin", stdin=SECRET)
    assert done.returncode == 2 and 'keyring = "auto"' in done.stderr
    assert not (named.state / "secrets.json").exists()


def test_names_are_completed(named: Box) -> None:
    named.ctl("secret", "set", "spare", "--stdin", stdin=SECRET)
    named.env |= {
        "_MCPCTL_COMPLETE": "bash_complete",
        "COMP_WORDS": "mcpctl secret rm ",
        "COMP_CWORD": "3",
    }
    assert [line.rpartition(",")[2] for line in named.ctl().stdout.splitlines()] == ["gh", "spare"]


# -- where secrets are met in the clear --------------------------------------------------------------


def cursor(box: Box) -> None:
    folder = box.root / "home" / ".cursor"
    folder.mkdir(exist_ok=True)
    entry = {"command": "uvx", "args": ["hub"], "env": {"HUB_TOKEN": SECRET, "LEVEL": "info"}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hub": entry}}))


def hub(box: Box) -> dict[str, str]:
    env: dict[str, str] = json.loads(box.config.read_text())["mcpServers"]["hub"]["env"]
    return env


def test_an_import_offers_the_keyring_and_knows_the_server_again(box: Box) -> None:
    ring(box)
    box.write()
    cursor(box)
    answers = {"Keep them in the keyring": "y", "Write this": "y"}
    status, shown = typed(box, "import", "cursor", answers=answers)
    assert status == 0, shown
    assert SECRET not in shown and "hub (HUB_TOKEN)" in shown
    assert "${keyring:hub.HUB_TOKEN}" in shown, "what is written was shown"
    assert hub(box) == {"HUB_TOKEN": "${keyring:hub.HUB_TOKEN}", "LEVEL": "info"}
    assert kept(box) == {"mcpd/hub.HUB_TOKEN": SECRET}
    assert "mcpd has them already" in box.ctl("import", "cursor", "--yes").stdout


@pytest.mark.parametrize("answer", ["n", None])
def test_an_import_that_is_told_no_or_nothing_copies_it_as_it_is(
    box: Box, answer: str | None
) -> None:
    ring(box)
    box.write()
    cursor(box)
    if answer is None:
        assert box.ctl("import", "cursor", "--yes").returncode == 0
    else:
        answers = {"Keep them in the keyring": answer, "Write this": "y"}
        assert typed(box, "import", "cursor", answers=answers)[0] == 0
    assert hub(box)["HUB_TOKEN"] == SECRET and kept(box) == {}
    assert stat.S_IMODE(box.config.stat().st_mode) == 0o600


def test_what_is_not_written_is_not_kept(box: Box) -> None:
    ring(box)
    box.write()
    cursor(box)
    answers = {"Keep them in the keyring": "y", "Write this": "n"}
    assert typed(box, "import", "cursor", answers=answers)[0] == 0
    assert kept(box) == {} and "hub" not in box.config.read_text()


def test_without_a_keyring_none_is_offered(box: Box) -> None:
    box.write()
    cursor(box)
    assert typed(box, "import", "cursor", answers={"Write this": "y"})[0] == 0
    assert hub(box)["HUB_TOKEN"] == SECRET


def test_an_adoption_offers_the_keyring(box: Box) -> None:
    ring(box)
    box.write()
    cursor(box)
    answers = {"Keep them in the keyring": "y", "Write this": "y"}
    status, shown = typed(box, "adopt", "cursor", answers=answers)
    assert status == 0, shown
    assert kept(box) == {"mcpd/hub.HUB_TOKEN": SECRET}
    assert hub(box)["HUB_TOKEN"] == "${keyring:hub.HUB_TOKEN}"
    file = box.root / "home" / ".cursor" / "mcp.json"
    assert SECRET not in file.read_text()
    assert box.ctl("release", "cursor", "--yes").returncode == 0
    assert SECRET in file.read_text()


# -- tools for model providers -----------------------------------------------------------------------


def test_tools_are_printed_for_model_providers(box: Box) -> None:
    box.fake("my files").up()
    done = box.ctl("tools", "my files", "--format", "anthropic")
    tools = json.loads(done.stdout)
    back = json.loads(box.ctl("tools", "my files", "--format", "openai", "--names").stdout)
    assert [tool["name"] for tool in tools] == list(back)
    assert back["my_files__echo"] == {"server": "my files", "tool": "echo"}
    openai = json.loads(box.ctl("tools", "--format", "openai", "--search", "echo").stdout)
    assert openai[0]["function"]["name"] == "my_files__echo"
    assert openai[0]["function"]["parameters"]["type"] == "object"
    with box.session(None) as aggregate:
        assert aggregate.text("my_files__echo", text="x") == "x", "they are the aggregate's"
    assert box.ctl("tools", "--names").returncode == 2
