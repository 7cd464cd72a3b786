"""Cases from the field: a daemon that lives and does not answer."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.faults.ground import tree, wait_gone
from tests.support.daemon import Box
from tests.support.waiting import scaled, wait_until

HANGS = """
import signal, time
from mcpd import cli
from mcpd.daemon import watchdog
watchdog.Watchdog.__init__.__kwdefaults__.update(every=0.2, patience=0.3, misses=3)
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(600))
cli.main()
"""
"""The daemon, more watchful than usual, with a way to have its loop hang."""


def up_hanging(box: Box) -> subprocess.Popen[bytes]:
    """Start a daemon whose loop hangs from SIGUSR1 on."""
    box.write()
    script = box.root / "mcpd"  # as a daemon is called
    script.write_text(HANGS)
    with box.log.open("ab") as log:
        box.daemon = box._start([sys.executable, str(script)], stdout=log, stderr=log)
    wait_until(box.says_hello, 20, what=box.tail)
    return box.daemon


def test_a_daemon_whose_loop_hangs_ends_and_everything_begins_anew(box: Box):
    """
    B114: it held the lock and the socket for as long as nobody killed it by hand.
    """
    box.fake("polite").fake("deaf", "--ignore-eof", "--ignore-term", "--setsid-child")
    daemon = up_hanging(box)
    pids = tree(box, "polite", "deaf")
    daemon.send_signal(signal.SIGUSR1)
    assert daemon.wait(scaled(20)) == -signal.SIGKILL
    log = box.tail(20_000)
    assert " error   loop.hung reason=" in log
    assert f'File "{box.root}/mcpd"' in log
    wait_gone(pids, 10)
    done = box.ctl("call", "polite", "echo", "text=on we go")
    assert (done.returncode, done.stdout) == (0, "on we go\n")
    assert box.ctl("down").returncode == 0
