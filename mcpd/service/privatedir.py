"""Creates and checks directories that only this user can write to."""

from __future__ import annotations

import os
import stat

from mcpd import paths
from mcpd.errors import PathRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported before the daemon's lock is taken: nothing that costs time
    from collections.abc import Collection, Mapping

MOVE_IT_AWAY = f"move it away, or choose another place: {paths.SOCKET_ELSEWHERE}"
"""What to do about a foreign file at the path of one of ours."""


def prepare(socket: str, env: Mapping[str, str] = os.environ) -> None:
    """Create or check the directory of ``socket``; see ``ensure_private``."""
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
    """Create ``directory`` with mode 0700 or check an existing one; raise ``PathRefused``.

    The mode of an existing directory becomes 0700 if it is one of mcpd's default directories
    (``own``), or if it contains only files named in ``ours``. Any other directory keeps its mode,
    and is refused if other users could replace our files in it. Missing parents are created, but
    never in a directory of another user. Links are not followed. ``elsewhere`` says in messages how
    to choose another path.
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
    """Raise the errors of ``ensure_private`` for an existing directory, and change nothing."""
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
    """Return the error for an operation ``do`` on ``path`` that failed."""
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
    """Return whether to set mode 0700; raise if other users could replace files in it."""
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
    """Create ``directory`` and its missing parents; one created in the meantime is accepted."""
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
    """Return whether a directory has no other files; false for a sticky one such as /tmp."""
    return not mode & stat.S_ISVTX and set(os.listdir(directory)) <= set(ours)
