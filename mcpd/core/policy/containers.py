"""Commands that run a server in a container, and the options added to find the container again.

A container is not a child process: it lives on when ``docker run`` is killed. So each gets a unique
label, and a file for its id unless its command line names one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

RUNTIMES: Final = ("docker", "podman", "nerdctl")

LABEL: Final = "mcpd.instance"
"""The label; its value is the tag in the environment of the ``docker run`` process."""

_FLAGS: Final = frozenset({
    # docker, without a command
    "debug", "tls", "tlsverify",
    # podman, nerdctl, without a command
    "remote", "syslog", "transient-store", "debug-full", "insecure-registry", "experimental",
    # run
    "detach", "disable-content-trust", "env-host", "help", "http-proxy", "init", "interactive",
    "no-healthcheck", "no-hostname", "no-hosts", "oom-kill-disable", "passwd", "privileged",
    "publish-all", "quiet", "read-only", "read-only-tmpfs", "replace", "rm", "rmi", "rootfs",
    "sig-proxy", "tls-verify", "tty", "unsetenv-all", "use-api-socket",
})  # fmt: skip
"""Options that never take the next word as their value."""

_SHORT: Final = {"d": "detach", "i": "interactive", "t": "tty", "P": "publish-all", "q": "quiet"}
"""Short options of ``run`` without a value; any other letter has one."""

_SHORT_GLOBAL: Final = {"D": "debug", "r": "remote"}


class ContainerRun(NamedTuple):
    """A command line of the kind ``docker [OPTION…] run [OPTION…] IMAGE [ARG…]``."""

    runtime: str
    """Which of ``RUNTIMES``."""

    globals: tuple[str, ...]
    """The options before ``run``, which select the engine: ``-H HOST``, ``--context C``."""

    at: int
    """The index of the options of ``run`` in the arguments."""

    image: str | None
    cidfile: str | None
    """The file for the container's id that the command line names."""

    removes: bool
    """``--rm``: the engine removes the container when it ends."""

    detaches: bool
    attaches_stdin: bool
    has_tty: bool

    def with_options(self, args: Sequence[str], *options: str) -> tuple[str, ...]:
        """Return the arguments with more options before the user's own.

        The last one of a repeated option counts, so the user's take precedence.
        """
        return (*args[: self.at], *options, *args[self.at :])


def container_run(command: str, args: Iterable[str]) -> ContainerRun | None:
    """Return the container run of a command line, or ``None`` if it runs no container.

    Whether an unknown option has a value is a guess. A wrong guess is harmless: the label finds the
    container, and the rest is for advice. ``docker compose run`` and ``docker exec`` are left out,
    because they use containers with a life of their own.
    """
    runtime = command.rpartition("/")[2]
    words = tuple(args)
    if runtime not in RUNTIMES:
        return None
    verb, _ = _first_word(words, 0, _SHORT_GLOBAL, verbs=("run", "container"))
    at = verb + 1
    if words[verb : verb + 2] == ("container", "run"):
        at += 1
    elif words[verb : verb + 1] != ("run",):
        return None
    image, options = _first_word(words, at, _SHORT)
    return ContainerRun(
        runtime=runtime,
        globals=words[:verb],
        at=at,
        image=words[image] if image < len(words) else None,
        cidfile=options.get("cidfile"),
        removes=_is_on(options, "rm"),
        detaches=_is_on(options, "detach"),
        attaches_stdin=_is_on(options, "interactive"),
        has_tty=_is_on(options, "tty"),
    )


def advice(command: str, args: Iterable[str]) -> list[str]:
    """Return the problems of a container run, each a sentence with its remedy."""
    run = container_run(command, args)
    if run is None:
        return []
    said = []
    if not run.removes:
        said.append(
            f"its containers stay when they have ended, and fill the disk: add --rm after `run` "
            f"({run.runtime} container prune removes those of old)"
        )
    if run.detaches:
        said.append("-d lets the container go, so nobody can talk to it: remove -d from its args")
    elif not run.attaches_stdin:
        said.append("without -i the container gets no input: add -i after `run`")
    if run.has_tty:
        said.append("-t is for terminals and garbles messages: remove -t from its args")
    return said


def _first_word(
    words: Sequence[str], start: int, short: dict[str, str], *, verbs: Sequence[str] = ()
) -> tuple[int, dict[str, str]]:
    """Return the index of the first word that is no option, and the options before it.

    An option without a value has ``true``; the last one of a repeated option counts. A word of
    ``verbs`` is never a value.
    """
    options: dict[str, str] = {}
    at = start
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        following = words[at] if at < len(words) else ""
        if not word.startswith("--"):
            at += _cluster(word[1:], following, short, options)
            continue
        name, has_value, value = word[2:].partition("=")
        if not has_value:
            value = "true"
            if not (name in _FLAGS or following.startswith("--") or following in verbs):
                value, at = following, at + 1
        options[name] = value
    return min(at, len(words)), options


def _cluster(letters: str, following: str, short: dict[str, str], options: dict[str, str]) -> int:
    """Read ``-it``, ``-e NAME`` or ``-eNAME=V``; return how many following words are its value."""
    for position, letter in enumerate(letters):
        rest = letters[position + 1 :]
        if letter not in short:
            options[letter] = rest or following
            return 0 if rest else 1
        if rest.startswith("="):
            options[short[letter]] = rest[1:]
            return 0
        options[short[letter]] = "true"
    return 0


def _is_on(options: dict[str, str], name: str) -> bool:
    return options.get(name, "false").lower() in ("true", "t", "1")
