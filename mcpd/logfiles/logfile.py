"""A file that lines are appended to, and that never takes more than its share of the disk."""

from __future__ import annotations

import contextlib
import os

from mcpd import privatefiles

BLOCK_BYTES = 64 * 1024


class LogFile:
    """One private file and its older parts, ``NAME.1`` the youngest of them.

    Invariant: no part is larger than ``max_bytes`` and there are ``backups`` of them besides the
    file itself, across daemons and crash loops. Another daemon with the same state directory may
    append to it and rotate it, and a person may remove it: it is looked at before every write.
    """

    def __init__(self, path: str, *, max_bytes: int, backups: int) -> None:
        self._directory, self._name = os.path.split(os.path.abspath(path))
        self._path = path
        self.max_bytes = max_bytes
        self.backups = backups
        self.trouble: OSError | None = None
        """Why the last lines are not in the file; ``None`` when they are."""
        self._fd = -1
        self._size = 0

    def append(self, lines: list[bytes]) -> int:
        """Write lines, each with its newline; return how many of them the disk took.

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
        return last_lines(self._path, count, self.backups)

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _reopen_if_replaced(self) -> None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            self.close()
        else:
            self._size = found.st_size
            if self._fd >= 0 and os.path.samestat(found, os.fstat(self._fd)):
                return
            self.close()
        directory = privatefiles.open_directory(self._directory)
        try:
            self._open(directory)
        finally:
            os.close(directory)

    def _open(self, directory: int) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._fd = privatefiles.open_file(self._name, flags, directory=directory)
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
        directory = privatefiles.open_directory(self._directory)
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


def last_lines(path: str, count: int, backups: int) -> list[bytes]:
    """Return the newest ``count`` lines of a file and its older parts, as far as there are any.

    They are without their newlines, the oldest first.
    """
    folder, name = os.path.split(os.path.abspath(path))
    found: list[bytes] = []
    with contextlib.suppress(OSError):
        directory = privatefiles.open_checked(folder)
        try:
            for number in range(backups + 1):
                if len(found) < count:
                    found = _last_of(_part(name, number), count - len(found), directory) + found
        finally:
            os.close(directory)
    return found


def _part(name: str, number: int) -> str:
    return f"{name}.{number}" if number else name


def _last_of(name: str, count: int, directory: int) -> list[bytes]:
    """Return the last ``count`` lines of a file, read from its end; none if it cannot be read."""
    try:
        fd = privatefiles.open_file(name, os.O_RDONLY, directory=directory)
    except OSError:
        return []
    try:
        at = os.fstat(fd).st_size
        blocks: list[bytes] = []
        newlines = 0
        while at > 0 and newlines <= count:
            start = max(0, at - BLOCK_BYTES)
            blocks.append(os.pread(fd, at - start, start))
            newlines += blocks[-1].count(b"\n")
            at = start
    finally:
        os.close(fd)
    lines = b"".join(reversed(blocks)).split(b"\n")
    if at > 0:
        del lines[0]  # the end of a line whose beginning was not read
    if lines and not lines[-1]:
        del lines[-1]
    return lines[-count:]
