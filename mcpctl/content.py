"""What tools, resources and prompts give, as text; what has none is named on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from mcpctl import render
from mcpd import exits

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Answer

NO_CONTENT = ("_meta", "isError", "content", "structuredContent", "resultType")
"""Members of a tool's result that are nothing to print where it has no content."""

KINDS = {str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "an array"}


def show_result(app: App, name: str, answer: Answer) -> int:
    """Print a tool's result and return the exit status; stderr says what it lacks."""
    result = answer.value
    is_error = isinstance(result, dict) and result.get("isError") is True
    status = exits.FAILED if is_error else exits.DONE
    if app.as_json:
        app.document(result, answer.text)
        return status
    shown = _result(app, name, result)
    if is_error:
        said = "\n".join(shown)
        app.note(f"{name} reported an error" + (f": {said}" if said else " without a text"))
        return status
    for text in shown:
        app.say(text)
    return status


def show_resource(app: App, uri: str, answer: Answer) -> None:
    """Print a resource as it is: nothing added in a pipe."""
    if app.as_json:
        app.document(answer.value, answer.text)
        return
    for item in _objects(app, uri, answer.value, "contents"):
        if isinstance(item.get("text"), str):
            text = item["text"]
            is_open = render.is_terminal(sys.stdout) and not text.endswith("\n")
            app.say(text, end="\n" if is_open else "")
        else:
            _show_blob(app, item)


def show_prompt(app: App, name: str, answer: Answer) -> None:
    """Print a prompt's messages, each with its role where there are several."""
    if app.as_json:
        app.document(answer.value, answer.text)
        return
    found = _objects(app, name, answer.value, "messages")
    for message in found:
        if len(found) > 1:
            role = message.get("role")
            app.line(f"[{role if isinstance(role, str) else 'no role'}]")
        item = message.get("content")
        for one in item if isinstance(item, list) else [item]:
            text = _text(app, one)
            if text is not None:
                app.say(text)


def _result(app: App, name: str, result: Any) -> list[str]:
    """Return the texts of a tool's result; where it has none, what else there is in it."""
    if not isinstance(result, dict):
        return _no_object(app, name, result)
    items = result.get("content")
    texts = [_text(app, item) for item in items] if isinstance(items, list) else []
    shown = [text for text in texts if text is not None]
    structured = result.get("structuredContent")
    if structured is not None and not any(shown):
        return [_json(structured)]
    is_told = len(shown) < len(texts) or result.get("isError") is True
    if not isinstance(items, list):
        others = {key: value for key, value in result.items() if key not in NO_CONTENT}
        shown = [_json(others)] if others else []
        app.note(f"the result of {name} has no content")
    elif not (any(shown) or is_told):
        app.note(f"the result of {name} is empty")
    return shown


def _no_object(app: App, name: str, result: Any) -> list[str]:
    """Return what a server answered where the protocol wants an object, and say so."""
    kind = "null" if result is None else KINDS[type(result)]
    app.note(f"the result of {name} is {kind}, where MCP wants an object")
    if result is None:
        return []
    return [result if isinstance(result, str) else _json(result)]


def _objects(app: App, name: str, result: Any, member: str) -> list[dict[str, Any]]:
    """Return a member's objects; say so where there are none, or something else."""
    if not isinstance(result, dict):
        for text in _no_object(app, name, result):
            app.say(text)
        return []
    found = result.get(member)
    objects = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if not objects:
        app.note(f"the result of {name} has no {member}; --json prints it")
    return objects


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).translate(render.BREAKS)


def _text(app: App, item: Any) -> str | None:
    """Return the text of a content item; ``None``, and a note, where it has none."""
    if not isinstance(item, dict):
        app.note("not shown: content that is no object; --json prints it")
        return None
    inner = item.get("resource")
    source = inner if isinstance(inner, dict) else item
    text = item.get("uri") if item.get("type") == "resource_link" else source.get("text")
    if isinstance(text, str):
        return text
    data = source.get("data") or source.get("blob")
    amount = f", {_decoded_size(data)}" if isinstance(data, str) else ""
    app.note(f"not shown: {_kind(source, item)}{amount}; --json prints it")
    return None


def _kind(*items: dict[str, Any]) -> str:
    """Return what an item says that it is, its MIME type before its type."""
    told = [item.get(member) for member in ("mimeType", "type") for item in items]
    names = [name for name in told if isinstance(name, str) and name]
    return render.one_line(names[0]) if names else "content without a type"


def _show_blob(app: App, item: dict[str, Any]) -> None:
    import base64
    import binascii

    blob = item.get("blob")
    if not isinstance(blob, str):
        app.note("not shown: contents without text or blob; --json prints them")
        return
    if render.is_terminal(sys.stdout):
        kind = render.one_line(str(item.get("mimeType") or "binary data"))
        app.note(f"not shown: {kind}, {_decoded_size(blob)}; redirect it, or --json")
        return
    try:
        data = base64.b64decode(blob, validate=True)
    except binascii.Error:
        uri = render.one_line(str(item.get("uri") or "the resource"))
        app.note(f"{uri} is not valid base64; --json prints it as it came")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def _decoded_size(data: str) -> str:
    return render.size(len(data) * 3 // 4 - data[-2:].count("="))
