"""A file that lines are appended to, and that never takes more than its share of the disk."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

from mcpd import privatefiles
from mcpd.logfiles.reading import newest_lines


class LogFile:
    """One private file and its older parts, ``NAME.1`` the youngest of them.

    Invariant: no part is larger than ``max_bytes`` and there are ``backups`` of them besides the
    file itself, across daemons and crash loops. Another daemon with the same state directory may
    append to the file and rotate it, and a person may move or remove it: each write checks that
    the descriptor is still that of the file at the path.
    """

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int,
        backups: int,
        fd: int | None = None,
        open_directory: Callable[[str], int] = privatefiles.open_directory,
    ) -> None:
        """Prepare; without ``fd`` the file is opened by the first write.

        ``fd`` is a descriptor that stays open and keeps its number: after a rotation it is one of
        the new file. ``open_directory`` returns a descriptor of the file's directory, and raises
        ``OSError`` where no file may be made in it.
        """
        self._directory, self._name = os.path.split(os.path.abspath(path))
        self._path = path
        self._open_directory = open_directory
        self.max_bytes = max_bytes
        self.backups = backups
        self.trouble: OSError | None = None
        """Why the last lines are not in the file; ``None`` when they are."""
        self._keeps_fd = fd is not None
        self._fd = -1 if fd is None else fd
        self._size = 0

    def append(self, lines: list[bytes]) -> int:
        """Write lines, each with its newline; return how many of them were written.

        A full disk, a missing directory or a link in the file's place raise nothing: the next
        write tries again.
        """
        stored = 0
        batch: list[bytes] = []
        batch_bytes = 0
        try:
            self._reopen_if_replaced()
            for line in lines:
                full = self._size + batch_bytes + len(line) > self.max_bytes
                if full and self._size + batch_bytes > 0:
                    self._write(b"".join(batch))
                    stored, batch, batch_bytes = stored + len(batch), [], 0
                    self._rotate()
                batch.append(line)
                batch_bytes += len(line)
            self._write(b"".join(batch))
            stored += len(batch)
            self.trouble = None
        except OSError as error:
            self.trouble = error
            self.close()
        return stored

    def last(self, count: int) -> list[bytes]:
        """Return the newest ``count`` lines, without their newlines, as far as there are any."""
        return [line for piece in self.pieces(count) for line in piece]

    def pieces(self, count: int, skip: int = 0) -> Iterator[list[bytes]]:
        """Yield the newest ``count`` lines but for the newest ``skip``, as of now.

        The oldest come first, a few milliseconds of work at a time, without their newlines.
        """
        names = [_part(self._name, number) for number in range(self.backups + 1)]
        try:
            directory = privatefiles.open_checked(self._directory)
        except OSError:
            return iter(())
        try:
            return newest_lines(directory, names, count, skip)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Close the file, unless its descriptor was passed in; the next write opens it again."""
        if self._fd >= 0 and not self._keeps_fd:
            os.close(self._fd)
            self._fd = -1

    def _reopen_if_replaced(self) -> None:
        if self._fd >= 0 and is_open_on(self._fd, self._path):
            self._size = os.fstat(self._fd).st_size
            return
        self.close()
        directory = self._open_directory(self._directory)
        try:
            self._open(directory)
        finally:
            os.close(directory)

    def _open(self, directory: int) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        fd = privatefiles.open_file(self._name, flags, directory=directory)
        if self._keeps_fd:
            try:
                os.dup2(fd, self._fd)
            finally:
                os.close(fd)
        else:
            self._fd = fd
        self._size = os.fstat(self._fd).st_size
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._write(b"\n")  # a daemon died in the middle of a line

    def _write(self, data: bytes) -> None:
        try:
            privatefiles.write_all(self._fd, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # no half line stays
            raise
        self._size += len(data)

    def _rotate(self) -> None:
        self.close()
        directory = self._open_directory(self._directory)
        try:
            for number in range(self.backups, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(
                        _part(self._name, number - 1),
                        _part(self._name, number),
                        src_dir_fd=directory,
                        dst_dir_fd=directory,
                    )
            if not self.backups:
                privatefiles.remove(self._name, directory=directory)
            self._open(directory)
        finally:
            os.close(directory)


def is_open_on(fd: int, path: str) -> bool:
    """Return whether a descriptor is one of the regular file at ``path``, which is no link."""
    try:
        found = os.fstat(fd)
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.lstat(path))
    except OSError:
        return False


def _part(name: str, number: int) -> str:
    return f"{name}.{number}" if number else name
