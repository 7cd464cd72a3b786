#!/usr/bin/env python3
"""The server that the conformance suite expects, over stdio: revisions 2024-11-05 to 2026-07-28.

The suite prescribes every name and text here. A tool asks its client with ``Call.ask``: a client of
2026-07-28 gets an ``InputRequiredResult``, an older one a request. ``Call.go_on`` continues as a
task for clients that declare the extension.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
META = "io.modelcontextprotocol/"
INFO = {"name": "conformance-fixture", "version": "1.0.0"}
CAPABILITIES = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
TASKS = META + "tasks"
CACHED = {"ttlMs": 0, "cacheScope": "private"}
NEEDED = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}
"""The capability that a client has to declare before it is sent a request."""

KEY = b"signs what a client keeps for the server between two rounds"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

RECONNECTION_S = 3.0
"""How long ``test_reconnection`` takes: one and a half times what the front keeps a stream open."""


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Instead(Exception):
    """A request is answered with something that leads to its result."""

    def __init__(self, kind: str, **result: Any) -> None:
        super().__init__()
        self.result = {"resultType": kind, **result}


def signed(answers: Json) -> str:
    """Return earlier answers as a ``requestState``."""
    text = base64.urlsafe_b64encode(json.dumps(answers).encode()).decode()
    return f"{text}.{hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()}"


def unsigned(state: str | None) -> Json:
    """Return the answers in a ``requestState``; raises ``Refused`` where it is not ours."""
    if state is None:
        return {}
    text, _, signature = state.partition(".")
    if not hmac.compare_digest(signature, hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()):
        raise Refused(-32602, "requestState was changed")
    answers: Json = json.loads(base64.urlsafe_b64decode(text))
    return answers


# -- what tools and prompts are given --------------------------------------------------------------


class Call:
    """One request: what it brings, and what its handler can send before the result."""

    def __init__(self, server: Server, ident: Any, params: Json) -> None:
        self.ident = ident
        self.params = params
        self.meta: Json = params.get("_meta") or {}
        self.arguments: Json = params.get("arguments") or {}
        self.is_modern = META + "protocolVersion" in self.meta
        self.server = server
        declared = self.meta.get(META + "clientCapabilities", {})
        self.capabilities: Json = declared if self.is_modern else server.capabilities
        self._answers = unsigned(params.get("requestState"))
        given = params.get("inputResponses", {})
        if not isinstance(given, dict) or not all(isinstance(v, dict) for v in given.values()):
            raise Refused(-32602, "inputResponses is not an object of results")
        self._answers |= given

    def log(self, text: str) -> None:
        """Send a log message of level ``info``, where the client wants it."""
        level = self.meta.get(META + "logLevel") if self.is_modern else self.server.level
        if level is not None and LEVELS.index("info") >= LEVELS.index(level):
            self.server.notify("message", {"level": "info", "data": text})

    def progress(self, done: int) -> None:
        """Send progress of 100, where the client wants it."""
        if "progressToken" in self.meta:
            token = {"progressToken": self.meta["progressToken"]}
            self.server.notify("progress", {**token, "progress": done, "total": 100})

    async def ask(self, **requests: Json) -> list[Json]:
        """Return the client's answers to these requests, in their order."""
        if not self.is_modern:
            return await asyncio.gather(*map(self.server.ask, requests.values()))
        missing = {key: each for key, each in requests.items() if key not in self._answers}
        for each in missing.values():
            self.require(NEEDED[each["method"]])
        if missing:
            state = signed(self._answers)
            raise Instead("input_required", inputRequests=missing, requestState=state)
        return [self._answers[key] for key in requests]

    def require(self, capability: str) -> None:
        """Raise ``Refused`` where the client has not declared a capability."""
        if capability not in self.capabilities:
            self._refuse(capability, {capability: {}})

    @property
    def takes_tasks(self) -> bool:
        """Whether the client declares the extension."""
        return TASKS in self.capabilities.get("extensions", {})

    def require_tasks(self) -> None:
        """Raise ``Refused`` where the client has not declared the extension."""
        if not self.takes_tasks:
            self._refuse(TASKS, {"extensions": {TASKS: {}}})

    async def go_on(self, work: Work) -> list[Json]:
        """Do the rest of a call as a task, or here for a client that takes none."""
        if not self.takes_tasks:
            return await work(None)
        task = Task(f"task-{len(self.server.tasks)}", work)
        self.server.tasks[task.ident] = task
        raise Instead("task", **task.described())

    def _refuse(self, what: str, needed: Json) -> None:
        why = f"the client does not declare {what}"
        raise Refused(-32021, why, {"requiredCapabilities": needed})


class Task:
    """Work that goes on after its call was answered."""

    def __init__(self, ident: str, work: Work) -> None:
        self.ident = ident
        self._created = self._changed = now()
        self._status = "working"
        self._outcome: Json = {}
        self._questions: Json = {}
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._work = asyncio.create_task(self._do(work))

    async def _do(self, work: Work) -> None:
        try:
            self._settle("completed", result={"content": await work(self)})
        except RuntimeError as error:
            self._settle("completed", result={"content": [text(str(error))], "isError": True})
        except Refused as refused:
            self._settle("failed", error=refused.error)

    def _settle(self, status: str, **outcome: Any) -> None:
        self._status, self._outcome, self._changed = status, outcome, now()

    async def ask(self, **requests: Json) -> list[Json]:
        """Return the answers that ``tasks/update`` brings to these requests."""
        loop = asyncio.get_running_loop()
        self._questions = requests
        self._answers = {key: loop.create_future() for key in requests}
        return await asyncio.gather(*self._answers.values())

    def answer(self, responses: Json) -> None:
        """Take answers to questions that are open; others are ignored."""
        for key in responses.keys() & self._questions.keys():
            del self._questions[key]
            self._answers[key].set_result(responses[key])

    def cancel(self) -> None:
        """End it, unless it has ended."""
        if self._status == "working":
            self._work.cancel()
            self._settle("cancelled")
            self._questions = {}

    def described(self) -> Json:
        """Return what a client is told where the task is created."""
        return {
            "taskId": self.ident,
            "status": "input_required" if self._questions else self._status,
            "createdAt": self._created,
            "lastUpdatedAt": self._changed,
            "ttlMs": 600_000,
            "pollIntervalMs": 100,
        }

    def detailed(self) -> Json:
        """Return what a client is told that asks for the task."""
        questions = {"inputRequests": dict(self._questions)} if self._questions else {}
        return {**self.described(), **questions, **self._outcome}


def now() -> str:
    """Return the time as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Work = Callable[[Task | None], Awaitable[list[Json]]]
Tool = Callable[[Call], Awaitable[list[Json]]]
TOOLS: dict[str, tuple[Tool, Json]] = {}
"""Handlers, and the schemas of their arguments."""


def tool(schema: Json | None = None, **properties: Json) -> Callable[[Tool], Tool]:
    """Register a tool under the function's name, with arguments that are all required."""

    def register(handler: Tool) -> Tool:
        plain: Json = {"type": "object", "properties": properties, "required": [*properties]}
        TOOLS[handler.__name__] = handler, plain if schema is None else schema
        return handler

    return register


def text(said: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": said}


def image() -> Json:
    """Return a picture of one point."""
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def resource(uri: str, kind: str, said: str) -> Json:
    """Return a resource as a part of a result."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


def elicit(message: str, **properties: Json) -> Json:
    """Return a question to the user."""
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sample(prompt: str, most: int) -> Json:
    """Return a question to the client's model."""
    messages = [{"role": "user", "content": text(prompt)}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": most},
    }


ROOTS: Json = {"method": "roots/list", "params": {}}
STRING = {"type": "string"}


def outcome(answer: Json) -> list[Json]:
    """Return what the user said, as the result of a tool."""
    said = json.dumps(answer.get("content", {}))
    return [text(f"Elicitation completed: action={answer['action']}, content={said}")]


# -- tools -----------------------------------------------------------------------------------------


@tool()
async def test_simple_text(call: Call) -> list[Json]:
    return [text("This is a simple text response for testing.")]


@tool()
async def test_image_content(call: Call) -> list[Json]:
    return [image()]


@tool()
async def test_audio_content(call: Call) -> list[Json]:
    return [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]


@tool()
async def test_embedded_resource(call: Call) -> list[Json]:
    said = "This is an embedded resource content."
    return [resource("test://embedded-resource", "text/plain", said)]


@tool()
async def test_multiple_content_types(call: Call) -> list[Json]:
    said = '{"test":"data","value":123}'
    mixed = resource("test://mixed-content-resource", "application/json", said)
    return [text("Multiple content types test:"), image(), mixed]


@tool()
async def test_tool_with_logging(call: Call) -> list[Json]:
    call.log("Tool execution started")
    await asyncio.sleep(0.05)
    call.log("Tool processing data")
    await asyncio.sleep(0.05)
    call.log("Tool execution completed")
    return [text("Tool with logging executed successfully")]


@tool()
async def test_logging_tool(call: Call) -> list[Json]:
    call.log("This is for a client that asked for it")
    return [text("Logged where the client wants it")]


@tool()
async def test_tool_with_progress(call: Call) -> list[Json]:
    for done in (0, 50, 100):
        call.progress(done)
        await asyncio.sleep(0.05)
    return [text("Tool with progress executed successfully")]


@tool()
async def test_error_handling(call: Call) -> list[Json]:
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(prompt=STRING)
async def test_sampling(call: Call) -> list[Json]:
    (answer,) = await call.ask(sampled=sample(call.arguments["prompt"], 100))
    return [text(f"LLM response: {answer['content'].get('text')}")]


@tool(message=STRING)
async def test_elicitation(call: Call) -> list[Json]:
    asked = elicit(call.arguments["message"], username=STRING, email=STRING)
    return outcome(*await call.ask(user=asked))


@tool()
async def test_streaming_elicitation(call: Call) -> list[Json]:
    call.progress(50)
    return outcome(*await call.ask(user=elicit("What is your name?", name=STRING)))


@tool()
async def test_elicitation_sep1034_defaults(call: Call) -> list[Json]:
    status = {"enum": ["active", "inactive", "pending"], "default": "active"}
    asked = elicit(
        "Please provide user information",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", **status},
        verified={"type": "boolean", "default": True},
    )
    return outcome(*await call.ask(user=asked))


@tool()
async def test_elicitation_sep1330_enums(call: Call) -> list[Json]:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    named = {"enum": plain, "enumNames": ["Option One", "Option Two", "Option Three"]}
    asked = elicit(
        "Please select values",
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", **named},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return outcome(*await call.ask(user=asked))


@tool()
async def test_reconnection(call: Call) -> list[Json]:
    call.log("Before disconnect")
    await asyncio.sleep(RECONNECTION_S)
    call.log("After reconnect")
    return [text("Reconnection test completed")]


@tool()
async def test_missing_capability(call: Call) -> list[Json]:
    call.require("sampling")
    return [text("The client declares sampling")]


@tool()
async def test_trigger_tool_change(call: Call) -> list[Json]:
    call.server.toggle("tools")
    return [text("There is a tool more, or less")]


@tool()
async def test_trigger_prompt_change(call: Call) -> list[Json]:
    call.server.toggle("prompts")
    return [text("There is a prompt more, or less")]


@tool(region={"type": "string", "x-mcp-header": "Region"})
async def test_x_mcp_header(call: Call) -> list[Json]:
    return [text(f"region={call.arguments['region']}")]


@tool()
async def test_input_required_result_elicitation(call: Call) -> list[Json]:
    (answer,) = await call.ask(user_name=elicit("What is your name?", name=STRING))
    return [text(f"Hello, {answer.get('content', {}).get('name')}!")]


@tool()
async def test_input_required_result_sampling(call: Call) -> list[Json]:
    asked = sample("What is the capital of France?", 100)
    (answer,) = await call.ask(capital_question=asked)
    return [text(f"The model says: {answer['content'].get('text')}")]


@tool()
async def test_input_required_result_list_roots(call: Call) -> list[Json]:
    (answer,) = await call.ask(client_roots=ROOTS)
    return [text(f"The client has {len(answer['roots'])} root(s)")]


@tool()
async def test_input_required_result_request_state(call: Call) -> list[Json]:
    await call.ask(confirm=elicit("Please confirm", ok={"type": "boolean"}))
    return [text("state-ok")]


@tool()
async def test_input_required_result_tampered_state(call: Call) -> list[Json]:
    await call.ask(confirm=elicit("Please confirm", ok={"type": "boolean"}))
    return [text("state-ok")]


@tool()
async def test_input_required_result_multiple_inputs(call: Call) -> list[Json]:
    await call.ask(
        user_name=elicit("What is your name?", name=STRING),
        greeting=sample("Generate a greeting", 50),
        client_roots=ROOTS,
    )
    return [text("All inputs received")]


@tool()
async def test_input_required_result_multi_round(call: Call) -> list[Json]:
    (name,) = await call.ask(step1=elicit("Step 1: What is your name?", name=STRING))
    asked = elicit("Step 2: What is your favorite color?", color=STRING)
    (color,) = await call.ask(step2=asked)
    return [text(f"{name.get('content')} likes {color.get('content')}")]


@tool()
async def test_input_required_result_capabilities(call: Call) -> list[Json]:
    asked = {"sampling": sample("Say hello", 50), "elicitation": elicit("Who?", name=STRING)}
    await call.ask(**{key: each for key, each in asked.items() if key in call.capabilities})
    return [text("Everything was asked that the client can answer")]


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": STRING, "city": STRING},
            }
        },
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(call: Call) -> list[Json]:
    return [text("Its schema is what matters")]


# -- tools that go on as tasks ---------------------------------------------------------------------


@tool(name=STRING)
async def greet(call: Call) -> list[Json]:
    return [text(f"Hello, {call.arguments['name']}!")]


@tool(seconds={"type": "number"}, label=STRING)
async def slow_compute(call: Call) -> list[Json]:
    async def work(_: Task | None) -> list[Json]:
        await asyncio.sleep(call.arguments["seconds"])
        return [text(f"{call.arguments['label']} is done")]

    return await call.go_on(work)


@tool()
async def failing_job(call: Call) -> list[Json]:
    async def work(_: Task | None) -> list[Json]:
        raise RuntimeError("This job always fails")

    call.require_tasks()
    return await call.go_on(work)


@tool()
async def protocol_error_job(call: Call) -> list[Json]:
    async def work(_: Task | None) -> list[Json]:
        raise Refused(-32603, "This job breaks the server")

    call.require_tasks()
    return await call.go_on(work)


@tool(filename=STRING)
async def confirm_delete(call: Call) -> list[Json]:
    async def work(task: Task | None) -> list[Json]:
        asked = elicit(f"Delete {call.arguments['filename']}?", confirm={"type": "boolean"})
        return outcome(*await (task or call).ask(confirm=asked))

    return await call.go_on(work)


@tool()
async def multi_input(call: Call) -> list[Json]:
    async def work(task: Task | None) -> list[Json]:
        asked = elicit("What is your name?", name=STRING)
        await (task or call).ask(one=asked, two=asked)
        return [text("All inputs received")]

    return await call.go_on(work)


@tool()
async def test_tool_with_task(call: Call) -> list[Json]:
    (name,) = await call.ask(user_name=elicit("What is your name?", name=STRING))

    async def work(_: Task | None) -> list[Json]:
        return [text(f"Hello, {name.get('content', {}).get('name')}!")]

    return await call.go_on(work)


# -- prompts and resources -------------------------------------------------------------------------

PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
"""The names of their arguments."""

RESOURCES: dict[str, Json] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}
TEMPLATE = "test://template/{id}/data"


async def prompt(call: Call) -> list[Json]:
    """Return the contents of a prompt's messages."""
    given = call.arguments
    match call.params["name"]:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            one, two = given["arg1"], given["arg2"]
            return [text(f"Prompt with arguments: arg1='{one}', arg2='{two}'")]
        case "test_prompt_with_embedded_resource":
            said = "Embedded resource content for testing."
            embedded = resource(given["resourceUri"], "text/plain", said)
            return [embedded, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            return [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            asked = elicit("What context should the prompt use?", context=STRING)
            (answer,) = await call.ask(user_context=asked)
            return [text(f"Use this context: {answer.get('content')}")]
        case name:
            raise Refused(-32602, f"there is no prompt {name}")


def read(call: Call) -> Json:
    """Return the content of a resource; raises ``Refused``."""
    uri = call.params["uri"]
    if uri in RESOURCES:
        return {"uri": uri, **RESOURCES[uri]}
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        ident = uri[len(before) : -len(after)]
        said = {"id": ident, "templateTest": True, "data": f"Data for ID: {ident}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(said)}
    raise Refused(-32602 if call.is_modern else -32002, "Resource not found", {"uri": uri})


# -- the protocol ----------------------------------------------------------------------------------


class Server:
    """Reads messages, and answers each request in a task of its own."""

    def __init__(self) -> None:
        self.level = "info"
        self.capabilities: Json = {}
        """What the client declared in ``initialize``."""
        self._listens: dict[Any, Json] = {}
        """Subscriptions by the ids of their requests: which notifications each is for."""
        self.tasks: dict[str, Task] = {}
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._calls: dict[Any, asyncio.Task[None]] = {}
        self._extra = {"tools": False, "prompts": False}
        """Whether there is one more than usually."""

    def send(self, **message: Any) -> None:
        """Write one message."""
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def notify(self, name: str, params: Json) -> None:
        """Write a notification."""
        self.send(method=f"notifications/{name}", params=params)

    async def ask(self, request: Json) -> Json:
        """Send a request to a client of an older revision, and return its result."""
        ident = f"ask-{len(self._asked)}"
        self._asked[ident] = asyncio.get_running_loop().create_future()
        self.send(id=ident, **request)
        return await self._asked[ident]

    def toggle(self, kind: str) -> None:
        """Change a list, and say so to everybody who listens."""
        self._extra[kind] = not self._extra[kind]
        name = f"{kind}/list_changed"
        if not self._listens:
            self.notify(name, {})
        for ident, wanted in self._listens.items():
            if wanted.get(f"{kind}ListChanged"):
                self.notify(name, {"_meta": {META + "subscriptionId": ident}})

    async def serve(self) -> None:
        """Serve until the end of input."""
        reader = asyncio.StreamReader(limit=1 << 24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            message = json.loads(line)
            method, ident = message.get("method"), message.get("id")
            if method is None:
                self._settle(message)
            elif ident is not None:
                call = self._answer(ident, method, message.get("params") or {})
                task = self._calls[ident] = asyncio.create_task(call)
                task.add_done_callback(lambda _, ident=ident: self._calls.pop(ident, None))
            elif method == "notifications/cancelled":
                given_up = message["params"]["requestId"]
                self._listens.pop(given_up, None)
                if given_up in self._calls:
                    self._calls[given_up].cancel()

    def _settle(self, message: Json) -> None:
        future = self._asked.get(message.get("id", ""))
        if future is None or future.done():
            return
        if "result" in message:
            future.set_result(message["result"])
        else:
            future.set_exception(RuntimeError(message["error"]["message"]))

    async def _answer(self, ident: Any, method: str, params: Json) -> None:
        try:
            call = Call(self, ident, params)
            if method == "subscriptions/listen" and call.is_modern:
                self._listen(call)
                return
            result = await self._result(method, call)
        except Instead as instead:
            result = instead.result
        except Refused as refused:
            self.send(id=ident, error=refused.error)
            return
        if META + "protocolVersion" in (params.get("_meta") or {}):
            about = {META + "serverInfo": INFO}
            result = {"resultType": "complete", "_meta": about, **result}
        self.send(id=ident, result=result)

    def _listen(self, call: Call) -> None:
        wanted = self._listens[call.ident] = call.params["notifications"]
        about = {META + "subscriptionId": call.ident}
        self.notify("subscriptions/acknowledged", {"notifications": wanted, "_meta": about})

    async def _result(self, method: str, call: Call) -> Json:
        cached = CACHED if call.is_modern else {}
        match method:
            case "tools/list":
                return {"tools": self._tools(), **cached}
            case "tools/call":
                return await self._call(call)
            case "prompts/list":
                return {"prompts": self._prompts(), **cached}
            case "prompts/get":
                messages = [{"role": "user", "content": each} for each in await prompt(call)]
                return {"messages": messages}
            case "resources/list":
                return {"resources": self._resources(), **cached}
            case "resources/templates/list":
                found = {"uriTemplate": TEMPLATE, "name": "template", "description": "By id"}
                return {"resourceTemplates": [found], **cached}
            case "resources/read":
                return {"contents": [read(call)], **cached}
            case "completion/complete":
                return {"completion": {"values": ["paris", "park", "party"], "hasMore": False}}
        modern = self._modern if call.is_modern else self._legacy
        result = modern(method, call)
        if result is None:
            raise Refused(-32601, "Method not found")
        return result

    def _modern(self, method: str, call: Call) -> Json | None:
        if method == "server/discover":
            offered = {**CAPABILITIES, "extensions": {TASKS: {}}}
            return {"supportedVersions": [MODERN], "capabilities": offered, **CACHED}
        if method not in ("tasks/get", "tasks/update", "tasks/cancel"):
            return None
        call.require_tasks()
        task = self.tasks.get(call.params["taskId"])
        if task is None:
            raise Refused(-32602, "there is no such task")
        if method == "tasks/get":
            return task.detailed()
        if method == "tasks/update":
            task.answer(call.params["inputResponses"])
        else:
            task.cancel()
        return {}

    def _legacy(self, method: str, call: Call) -> Json | None:
        match method:
            case "initialize":
                asked = call.params["protocolVersion"]
                self.capabilities = call.params["capabilities"]
                version = asked if asked in LEGACY else LEGACY[-1]
                about = {"capabilities": CAPABILITIES, "serverInfo": INFO}
                return {"protocolVersion": version, **about}
            case "logging/setLevel":
                self.level = call.params["level"]
                return {}
            case "ping" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        return None

    def _tools(self) -> list[Json]:
        found = [
            {"name": name, "description": f"The suite's {name}", "inputSchema": schema}
            for name, (_, schema) in TOOLS.items()
        ]
        if self._extra["tools"]:
            found.append({**found[0], "name": "test_dynamic_tool"})
        return found

    def _prompts(self) -> list[Json]:
        found = [
            {
                "name": name,
                "description": f"The suite's {name}",
                "arguments": [{"name": each, "required": True} for each in arguments],
            }
            for name, arguments in PROMPTS.items()
        ]
        if self._extra["prompts"]:
            found.append({**found[0], "name": "test_dynamic_prompt"})
        return found

    def _resources(self) -> list[Json]:
        return [
            {
                "uri": uri,
                "name": uri.removeprefix("test://"),
                "description": f"The suite's {uri}",
                "mimeType": content["mimeType"],
            }
            for uri, content in RESOURCES.items()
        ]

    async def _call(self, call: Call) -> Json:
        name = call.params["name"]
        if name not in TOOLS:
            raise Refused(-32602, f"there is no tool {name}")
        handler, _ = TOOLS[name]
        try:
            return {"content": await handler(call)}
        except RuntimeError as error:
            return {"content": [text(str(error))], "isError": True}


if __name__ == "__main__":
    asyncio.run(Server().serve())
