"""The keyring of the operating system, in the process for signing in: it may block on a prompt."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any, Final

from mcpd.signin.protocol import KeyringOrder, Value

_LEAST_PRIORITY: Final = 1
"""Of a back end that is recommended; files in plain text have less."""

_CHOICE: Final = "PYTHON_KEYRING_BACKEND"
"""The variable of the ``keyring`` package by which a back end is chosen."""


def serve(order: KeyringOrder) -> Value:
    """Do what was asked; a keyring that cannot be used has nothing and keeps nothing."""
    import keyring
    from keyring.errors import KeyringError, KeyringLocked, NoKeyringError, PasswordDeleteError

    try:
        return _served(keyring.get_keyring(), order)
    except PasswordDeleteError:  # there is nothing
        return Value()
    except NoKeyringError:
        return Value(problem="none")
    except KeyringLocked:
        return Value(problem="locked")
    except (KeyringError, OSError, RuntimeError):
        return Value(problem="unavailable")


def _served(backend: Any, order: KeyringOrder) -> Value:
    match order.action:
        case "probe":
            return Value(is_done=_is_usable(backend, order.service))
        case "get":
            return Value(backend.get_password(order.service, order.name))
        case "find":
            values = {name: backend.get_password(order.service, name) for name in order.names}
            return Value(found={name: each for name, each in values.items() if each is not None})
        case "set":
            if not _is_recommended(backend):
                return Value(problem="none")
            backend.set_password(order.service, order.name, order.value)
            is_there = backend.get_password(order.service, order.name) == order.value
            return Value(is_done=is_there)
        case "delete":
            backend.delete_password(order.service, order.name)
            return Value(is_done=True)


def _is_recommended(backend: Any) -> bool:
    """Tell whether a back end is more than a file in plain text, or was chosen by a person."""
    return bool(backend.priority >= (0.1 if os.environ.get(_CHOICE) else _LEAST_PRIORITY))


def _is_usable(backend: Any, service: str) -> bool:
    """Tell whether what is written can be read back: some keep nothing, and say so too late."""
    if not _is_recommended(backend):
        return False
    name, value = "test", secrets.token_urlsafe(8)
    backend.set_password(service, name, value)
    is_there = backend.get_password(service, name) == value
    with contextlib.suppress(Exception):
        backend.delete_password(service, name)
    return bool(is_there)
