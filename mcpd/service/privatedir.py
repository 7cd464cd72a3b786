"""Directories that nobody but us can write in."""

from __future__ import annotations

import os
import stat

from mcpd import paths
from mcpd.errors import PathRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported before the daemon's lock is taken: nothing that costs time
    from collections.abc import Collection, Mapping

MOVE_IT_AWAY = f"move it away, or choose another place: {paths.SOCKET_ELSEWHERE}"
"""What to do about something else in the place of a file of ours."""


def prepare(socket: str, env: Mapping[str, str] = os.environ) -> None:
    """Make the directory of ``socket``, or refuse it; see ``ensure_private``."""
    files = (socket, paths.lock_path(socket), paths.start_lock_path(socket))
    ensure_private(
        os.path.dirname(socket),
        own=paths.is_default_directory(socket, env),
        ours={os.path.basename(file) for file in files},
    )


def ensure_private(
    directory: str,
    *,
    own: bool,
    ours: Collection[str] = (),
    elsewhere: str = paths.SOCKET_ELSEWHERE,
) -> None:
    """Make ``directory`` for ourselves alone, or raise ``PathRefused`` with the reason.

    One that exists is tightened to 0700 if it is mcpd's by its name (``own``), or if it holds
    nothing but the files named in ``ours``. Any other is somebody's place for other things too
    and is left as it is: others must not be able to put something in our files' place there.
    What is missing is made 0700, never in a stranger's directory. Links are not followed.
    ``elsewhere`` is how a person chooses another one.
    """
    try:
        fd = _open(directory, elsewhere)
    except FileNotFoundError:
        _make(directory, elsewhere)
        fd = _open(directory, elsewhere)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if _is_to_tighten(fd, directory, own, ours, elsewhere) and mode != 0o700:
            os.fchmod(fd, 0o700)
    except OSError as error:
        raise cannot("use", directory, error, elsewhere) from None
    finally:
        os.close(fd)


def check(directory: str, *, own: bool, elsewhere: str) -> None:
    """Raise as ``ensure_private`` does for a directory that is there, and change nothing."""
    try:
        fd = _open(directory, elsewhere)
    except FileNotFoundError:
        return
    try:
        _is_to_tighten(fd, directory, own, (), elsewhere)
    finally:
        os.close(fd)


def not_owned(path: str, uid: int, elsewhere: str = paths.SOCKET_ELSEWHERE) -> PathRefused:
    """Return the error for a path that belongs to another user."""
    hint = f"choose another place: {elsewhere}"
    return PathRefused(f"not yours: {path} belongs to {uid}", hint=hint)


def cannot(
    do: str, path: str, error: OSError, elsewhere: str = paths.SOCKET_ELSEWHERE
) -> PathRefused:
    """Return the error for what the system did not let us ``do`` with ``path``."""
    hint = f"mend that, or choose another place: {elsewhere}"
    return PathRefused(f"cannot {do} {path}: {error.strerror}", hint=hint, errno=error.errno)


def _open(directory: str, elsewhere: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(directory, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        if os.path.islink(directory):
            raise PathRefused(
                f"{directory} is a link, and a directory of mcpd's must not be one",
                hint="give the directory that it leads to",
            ) from None
        raise cannot("use", directory, error, elsewhere) from None


def _is_to_tighten(
    fd: int, directory: str, own: bool, ours: Collection[str], elsewhere: str
) -> bool:
    """Tell whether a directory is ours to make 0700; refuse one in which others could interfere."""
    found = os.fstat(fd)
    if found.st_uid not in (os.geteuid(), 0):
        raise not_owned(directory, found.st_uid, elsewhere)
    if found.st_uid == os.geteuid() and (own or _holds_only(fd, ours, found.st_mode)):
        return True
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise PathRefused(
            f"others can write in {directory} (mode {stat.S_IMODE(found.st_mode):04o}) and "
            "could put something of theirs in the place of mcpd's",
            hint=f"chmod go-w {directory}, or choose another place: {elsewhere}",
        )
    return False


def _make(directory: str, elsewhere: str) -> None:
    """Make ``directory`` and what is missing above it; whoever made it meanwhile is looked at."""
    parent = os.path.dirname(directory)
    if not os.path.lexists(parent):
        _make(parent, elsewhere)
    try:
        owner = os.stat(parent).st_uid
        if owner not in (os.geteuid(), 0):
            raise not_owned(parent, owner, elsewhere)
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    except OSError as error:
        raise cannot("make", directory, error, elsewhere) from None


def _holds_only(directory: int, ours: Collection[str], mode: int) -> bool:
    """Tell whether nothing else is there; never so of a shared one, as an empty /tmp is."""
    return not mode & stat.S_ISVTX and set(os.listdir(directory)) <= set(ours)
