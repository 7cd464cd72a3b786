"""Log lines about the daemon's own parts. What happens to servers and sessions are facts."""

from __future__ import annotations

from mcpd.errors import PathRefused
from mcpd.ids import SessionId
from mcpd.logfiles.quota import Removed
from mcpd.observe.pipeline import Logger
from mcpd.supervise.cleanup.sweep import SweepReport
from mcpd.supervise.loginenv.loginpath import LoginResult


class Notices:
    """Writes these lines. Each method is a callback of the part that it is about."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def clock_jumped(self, seconds: float) -> None:
        """Log that the clock left out a time in which the daemon did not run."""
        self._log.info("clock.jumped", seconds=seconds)

    def connection_broken(self, session: SessionId, reason: str) -> None:
        """Log that a connection ended otherwise than by its client's closing it."""
        self._log.info("connection.closed", session=session, reason=reason)

    def connection_refused(self, reason: str) -> None:
        """Log that a client was not let in."""
        self._log.warning("connection.refused", reason=reason)

    def socket_refused(self, path: str, refusal: PathRefused) -> None:
        """Log that the directory of the socket cannot be used."""
        reason = refusal.message
        self._log.error("place.refused", socket=path, reason=reason, hint=refusal.hint)

    def place_trouble(self, reason: str) -> None:
        """Log that ``place.json`` cannot be written."""
        self._log.warning("place.trouble", reason=reason)

    def http_listening(self, address: str) -> None:
        """Log that clients can use an address."""
        self._log.info("http.listening", address=address)

    def http_trouble(self, problem: str) -> None:
        """Log why an address is not open."""
        self._log.error("http.trouble", problem=problem)

    def http_refused(self, requests: int) -> None:
        """Log that requests came without a token that is valid."""
        self._log.warning("http.refused", requests=requests)

    def http_sessions_trouble(self, error: OSError | None) -> None:
        """Log that sessions cannot be kept for the next daemon, or can again."""
        if error is not None:
            self._log.warning("http.sessions_trouble", error=error)
        else:
            self._log.info("http.sessions_resumed")

    def ledger_trouble(self, path: str, error: OSError) -> None:
        """Log that the record of processes cannot be written."""
        self._log.error("ledger.trouble", path=path, error=error)

    def audit_trouble(self, reason: str, *, is_required: bool) -> None:
        """Log that calls cannot be recorded."""
        self._log.error("audit.trouble", reason=reason, required=is_required)

    def audit_resumed(self) -> None:
        """Log that calls are recorded again."""
        self._log.info("audit.resumed")

    def audit_gap(self, rows: int, hashes: int) -> None:
        """Log that rows, or hashes of calls, are missing."""
        self._log.warning("audit.gap", rows=rows, hashes=hashes)

    def audit_set_aside(self, path: str, reason: str) -> None:
        """Log that a broken file was moved, and that another one was begun."""
        self._log.error("audit.set_aside", path=path, reason=reason)

    def cache_trouble(self, error: OSError) -> None:
        """Log that the lists of servers cannot be written."""
        self._log.warning("cache.trouble", error=error)

    def budget_trouble(self, error: OSError) -> None:
        """Log that what servers have had sampled today cannot be written."""
        self._log.warning("budget.trouble", error=error)

    def pins_trouble(self, error: OSError) -> None:
        """Log that what is approved of servers cannot be written."""
        self._log.error("pins.trouble", error=error)

    def pins_lost(self, server: str, what: str) -> None:
        """Log that what was approved of a server cannot be read, and what was done."""
        self._log.error("pins.lost", server=server, what=what)

    def log_trouble(self, path: str, error: OSError | None, lost: int) -> None:
        """Log that the log of a server cannot be written, or can again."""
        if error is not None:
            self._log.warning("log.trouble", path=path, error=error)
        else:
            self._log.info("log.resumed", path=path, lost=lost)

    def logs_removed(self, removed: Removed) -> None:
        """Log that old logs were removed for the sake of ``logs_max_bytes``."""
        self._log.info("logs.removed", files=removed.files, bytes=removed.bytes)

    def sign_in_trouble(self, server: str, reason: str) -> None:
        """Log that the sign-in to a server cannot be read or kept."""
        self._log.warning("server.sign_in_trouble", server=server, reason=reason)

    def guardian_trouble(self, text: str) -> None:
        """Log that the guardian ended, or cannot be started."""
        self._log.warning("guardian.trouble", text=text)

    def login_path(self, login: LoginResult) -> None:
        """Log that the login shell was asked for its ``PATH``."""
        took = round(login.took_s, 3)
        if login.failure is not None:
            self._log.warning(
                "env.login_path_failed",
                shell=login.shell,
                reason=login.failure,
                took_s=took,
            )
        else:
            self._log.info("env.login_path", shell=login.shell, added=login.added, took_s=took)

    def swept(self, report: SweepReport, left: str) -> None:
        """Log that what dead daemons had left running was ended, except ``left``."""
        self._log.warning(
            "ledger.swept",
            daemons=report.dead,
            processes=report.reaped,
            containers=report.containers or None,
            left=left or None,
            set_aside=", ".join(report.set_aside) or None,
        )
