"""What tools, resources and prompts give, as text; what has none is named on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from mcpctl import exits, render

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Answer


def show_result(app: App, name: str, answer: Answer) -> int:
    """Print a tool's result and return the exit status."""
    result = answer.value if isinstance(answer.value, dict) else {}
    is_error = result.get("isError") is True
    status = exits.REPORTED if is_error else exits.DONE
    if app.as_json:
        app.document(answer.value, answer.text)
        return status
    items = result.get("content")
    texts = [_text(app, item) for item in items] if isinstance(items, list) else []
    shown = [text for text in texts if text is not None]
    if not items and "structuredContent" in result:
        shown = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    if is_error:
        app.note(f"{name} reported an error: " + "\n".join(shown))
        return status
    for text in shown:
        app.say(text)
    return status


def show_resource(app: App, answer: Answer) -> None:
    """Print a resource as it is: nothing added in a pipe."""
    if app.as_json:
        app.document(answer.value, answer.text)
        return
    for item in _dicts(answer.value, "contents"):
        if isinstance(item.get("text"), str):
            text = item["text"]
            is_open = render.is_terminal(sys.stdout) and not text.endswith("\n")
            app.say(text, end="\n" if is_open else "")
        else:
            _show_blob(app, item)


def show_prompt(app: App, answer: Answer) -> None:
    """Print a prompt's messages, each with its role where there are several."""
    if app.as_json:
        app.document(answer.value, answer.text)
        return
    found = _dicts(answer.value, "messages")
    for message in found:
        if len(found) > 1:
            app.say(f"[{message.get('role')}]")
        item = message.get("content")
        for one in item if isinstance(item, list) else [item]:
            text = _text(app, one)
            if text is not None:
                app.say(text)


def _dicts(result: Any, member: str) -> list[dict[str, Any]]:
    """Return a member's objects; a server may have put anything there."""
    found = result.get(member) if isinstance(result, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(app: App, item: Any) -> str | None:
    """Return the text of a content item; ``None``, and a note, where it has none."""
    if not isinstance(item, dict):
        return json.dumps(item)
    match item.get("type"):
        case "text":
            return str(item.get("text", ""))
        case "resource_link":
            return str(item.get("uri", ""))
        case "resource" if isinstance(item.get("resource"), dict):
            inner = item["resource"]
            if isinstance(inner.get("text"), str):
                return str(inner["text"])
            kind, data = inner.get("mimeType"), inner.get("blob")
        case _:
            kind, data = item.get("mimeType") or item.get("type"), item.get("data")
    amount = f", {_decoded_size(data)}" if isinstance(data, str) else ""
    app.note(f"not shown: {kind}{amount}; --json prints it")
    return None


def _show_blob(app: App, item: dict[str, Any]) -> None:
    import base64
    import binascii

    blob = item.get("blob")
    if not isinstance(blob, str):
        return
    if render.is_terminal(sys.stdout):
        kind = item.get("mimeType") or "binary data"
        app.note(f"not shown: {kind}, {_decoded_size(blob)}; redirect it, or --json")
        return
    try:
        data = base64.b64decode(blob, validate=True)
    except binascii.Error:
        app.note(f"{item.get('uri')} is not valid base64; --json prints it as it came")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def _decoded_size(data: str) -> str:
    return render.size(len(data) * 3 // 4 - data[-2:].count("="))
