"""Printing the content of tools, resources and prompts; what is not text is named on stderr."""

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
"""Members of a tool's result that are not printed when it has no content."""

KINDS = {str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "an array"}


def show_result(app: App, name: str, answer: Answer) -> int:
    """Print a tool's result and return the exit status; report on stderr what is missing."""
    result = answer.value
    is_error = isinstance(result, dict) and result.get("isError") is True
    status = exits.FAILED if is_error else exits.DONE
    if app.as_json:
        app.print_document(result, answer.text)
        return status
    shown = _result(app, name, result)
    if is_error:
        said = "\n".join(shown)
        app.note(f"{name} reported an error" + (f": {said}" if said else " without a text"))
        return status
    for text in shown:
        app.print(text)
    return status


def show_resource(app: App, uri: str, answer: Answer) -> None:
    """Print a resource, unchanged where stdout is not a terminal."""
    if app.as_json:
        app.print_document(answer.value, answer.text)
        return
    for item in _objects(app, uri, answer.value, "contents"):
        if isinstance(item.get("text"), str):
            text = item["text"]
            is_open = render.is_terminal(sys.stdout) and not text.endswith("\n")
            app.print(text, end="\n" if is_open else "")
        else:
            _show_blob(app, item)


def show_prompt(app: App, name: str, answer: Answer) -> None:
    """Print a prompt's messages, with their roles if there are several."""
    if app.as_json:
        app.print_document(answer.value, answer.text)
        return
    found = _objects(app, name, answer.value, "messages")
    for message in found:
        if len(found) > 1:
            role = message.get("role")
            app.print_line(f"[{role if isinstance(role, str) else 'no role'}]")
        item = message.get("content")
        for one in item if isinstance(item, list) else [item]:
            text = _text(app, one)
            if text is not None:
                app.print(text)


def _result(app: App, name: str, result: Any) -> list[str]:
    """Return the texts of a tool's result, or its other members as JSON if it has none."""
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
    """Return a result that is not an object, as text; report that on stderr."""
    kind = "null" if result is None else KINDS[type(result)]
    app.note(f"the result of {name} is {kind}, where MCP wants an object")
    if result is None:
        return []
    return [result if isinstance(result, str) else _json(result)]


def _objects(app: App, name: str, result: Any, member: str) -> list[dict[str, Any]]:
    """Return the objects in a member of a result; report on stderr if there are none."""
    if not isinstance(result, dict):
        for text in _no_object(app, name, result):
            app.print(text)
        return []
    found = result.get(member)
    objects = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if not objects:
        app.note(f"the result of {name} has no {member}; --json prints it")
    return objects


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).translate(render.BREAKS)


def _text(app: App, item: Any) -> str | None:
    """Return the text of a content item, or ``None``, with a note on stderr, if it has none."""
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
    """Return the MIME type of an item, or its type."""
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
