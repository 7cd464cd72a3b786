"""Commands that run a server in a container are recognised, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.policy.containers import advice, container_run


@pytest.mark.parametrize(
    ("line", "before", "image"),
    [
        ("docker run -i --rm mcp/time", "", "mcp/time"),
        ("/usr/local/bin/docker run -i --rm mcp/time", "", "mcp/time"),
        ("podman run -i mcp/time", "", "mcp/time"),
        ("nerdctl run -i mcp/time --run", "", "mcp/time"),
        ("docker container run -i mcp/time", "", "mcp/time"),
        ("docker -H ssh://box --context c run -i mcp/time", "-H ssh://box --context c", "mcp/time"),
        ("docker --debug run -i mcp/time", "--debug", "mcp/time"),
        ("docker -D --log-level=debug container run i", "-D --log-level=debug", "i"),
        ("podman --remote --url unix:///x run i", "--remote --url unix:///x", "i"),
        ("docker --brand-new run -i mcp/time", "--brand-new", "mcp/time"),
        ("docker run -it -e K -eA=b -v /a:/b --network=host -p 1:2 i arg", "", "i"),
        ("docker run --memory-swap -1 --mount type=bind,src=a,dst=b i", "", "i"),
        ("docker run --pull always --privileged --init -- i -d --rm", "", "i"),
        ("docker run", "", None),
    ],
)
def test_what_is_run_is_found_behind_any_options(line: str, before: str, image: str | None):
    command, *args = line.split()
    run = container_run(command, args)
    assert run is not None
    assert run.globals == tuple(before.split())
    assert run.image == image
    assert args[run.at - 1] == "run"


@pytest.mark.parametrize(
    "line",
    [
        "docker exec -i box server",
        "docker start -ai box",
        "docker compose run --rm time",
        "docker mcp gateway run",
        "docker",
        "npx docker run i",
        "/opt/docker/bin/time run -i",
        "docker-compose run time",
    ],
)
def test_nothing_else_is_taken_for_one(line: str):
    """
    Such containers are not mcpd's to stop.
    """
    command, *args = line.split()
    assert container_run(command, args) is None


@pytest.mark.parametrize(
    ("options", "cidfile", "removes", "detaches"),
    [
        ("--rm", None, True, False),
        ("--rm=true --name=a", None, True, False),
        ("--rm=false -d", None, False, True),
        ("--cidfile /x --name a", "/x", False, False),
        ("--cidfile=/x -dit", "/x", False, True),
        ("--brand-new --cidfile /x", "/x", False, False),
        ("--brand-new value --cidfile /x --rm", "/x", True, False),
        ("-e --rm", None, False, False),
        ("--name a --name b", None, False, False),
        ("-i=true -t=false", None, False, False),
    ],
)
def test_what_matters_is_found_among_the_options(
    options: str, cidfile: str | None, removes: bool, detaches: bool
):
    run = container_run("docker", ["run", *options.split(), "image", "--rm", "-d", "--name", "no"])
    assert run is not None
    assert run.cidfile == cidfile
    assert (run.removes, run.detaches) == (removes, detaches)


def test_what_is_added_stands_before_what_the_user_wrote():
    """
    Of an option that is given twice the last one counts.
    """
    args = ["--context", "c", "run", "--cidfile", "/theirs", "i"]
    run = container_run("docker", args)
    assert run is not None
    added = run.with_options(args, "--label=x=y", "--cidfile", "/ours")
    assert added == (*args[:3], "--label=x=y", "--cidfile", "/ours", *args[3:])


WORDS = st.sampled_from(
    ["run", "container", "-i", "-it", "-e", "--rm", "--", "-", "--x", "--x=y", "", "=", "-=", "a"]
)


@given(st.lists(WORDS | st.text(max_size=4)))
def test_no_command_line_is_too_odd_to_be_read(args: list[str]):
    """
    Nor is a word of the user's lost or moved.
    """
    run = container_run("docker", args)
    advice("docker", args)
    if run is not None:
        assert args[run.at - 1] == "run"
        added = run.with_options(args, "NEW")
        assert [*added[: run.at], *added[run.at + 1 :]] == args


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("docker run -i img", ["--rm"]),
        ("docker run -i --rm img", []),
        ("docker run --rm img", ["without -i"]),
        ("docker run -it --rm img", ["-t is"]),
        ("docker run -d --rm img", ["-d lets"]),
        ("docker exec img", []),
    ],
)
def test_what_goes_wrong_with_containers_is_told(line: str, words: list[str]):
    """B009: without ``--rm`` they pile up."""
    command, *args = line.split()
    said = advice(command, args)
    assert len(said) == len(words)
    assert all(word in sentence for word, sentence in zip(words, said, strict=True))
