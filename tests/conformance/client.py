"""Is the client that the official suite asks for: a daemon, with the suite's URL as a remote server.

``python -m tests.conformance.client LOCK URL``, as the suite runs it, which says in the environment
what the client is to do. The suite starts all clients at once; ``LOCK`` is a file by which they do
their work one after the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Box, Json, Peer, RpcError
from tests.support.fakeauth import browse
from tests.support.waiting import scaled

WORK_S: Final = 90.0
REQUEST_S: Final = 30.0
MOST_SIGN_INS: Final = 3
"""How often a person signs in for a request until they give up."""

STATELESS: Final = "2026-07-28"
DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"
"""What the suite takes for the metadata document of the client. Nobody fetches it."""

CAPABILITIES: Final[Json] = {"elicitation": {"applyDefaults": True}, "roots": {}, "sampling": {}}


class Person:
    """Somebody with a client on the daemon's socket, who signs in where that is asked for."""

    def __init__(self, box: Box, revision: str) -> None:
        self._box = box
        self._is_stateless = revision == STATELESS
        self._revision = revision
        self._peer: Peer | None = None

    def request(self, method: str, params: Json | None = None) -> Json:
        """Return the result of a request; raises ``RpcError``."""
        for _ in range(MOST_SIGN_INS):
            try:
                return self._once(method, params or {})
            except RpcError as error:
                print(f"{method}: {error}", file=sys.stderr)
                if error.kind not in ("login_required", "forbidden"):
                    raise
            self._sign_in()
        return self._once(method, params or {})

    def tools(self) -> list[Json]:
        """Return the tools of the server."""
        listed: list[Json] = self.request("tools/list")["tools"]
        return listed

    def call(self, tool: str, /, **more: Any) -> Json:
        """Call a tool; ``more`` extends the parameters."""
        return self.request("tools/call", {"name": tool, "arguments": {}, **more})

    def _once(self, method: str, params: Json) -> Json:
        if self._peer is None:
            self._peer = self._connected()
        if self._is_stateless:
            params = {**params, "_meta": self._meta()}
        ident = self._peer.start(method, params)

        def concerns_us(message: Json) -> bool:
            is_question = "method" in message and "id" in message
            return is_question or ("method" not in message and message.get("id") == ident)

        while True:
            message = self._peer.take(concerns_us, REQUEST_S, f"answer to {method}")
            if "method" in message:
                self._peer.send(id=message["id"], result=answer(message))
            elif "error" in message:
                raise RpcError(message["error"])
            else:
                result: Json = message["result"]
                return result

    def _connected(self) -> Peer:
        """Return a session on the server, after the handshake where there is one."""
        return self._box.session(
            "suite",
            handshake=not self._is_stateless,
            version=self._revision,
            capabilities=CAPABILITIES,
        )

    def _meta(self) -> Json:
        own = {
            "protocolVersion": self._revision,
            "clientInfo": {"name": "tests", "version": "1"},
            "clientCapabilities": CAPABILITIES,
        }
        return {f"io.modelcontextprotocol/{name}": value for name, value in own.items()}

    def _sign_in(self) -> None:
        """Sign in as ``mcpctl login`` does, with a browser that follows redirects.

        Raises ``RpcError`` where it fails, and ``AssertionError`` where there is nothing to open.
        """
        with self._box.peer() as control:
            begun = control.request("mcpd/login", {"server": "suite"}, REQUEST_S)
            assert "url" in begun, begun
            browse(begun["url"])
            control.request("mcpd/login_wait", {"server": "suite"}, REQUEST_S)


def answer(question: Json) -> Json:
    """Accept a form with its defaults."""
    fields = question["params"]["requestedSchema"]["properties"]
    content = {name: each["default"] for name, each in fields.items() if "default" in each}
    return {"action": "accept", "content": content}


# -- what each scenario asks for -------------------------------------------------------------------


def lists(person: Person, _: Json) -> None:
    person.tools()


def discovers(person: Person, _: Json) -> None:
    """Ask what the server has; ``tools/list`` does not reach one that says it has no tools."""
    if "tools" in person.request("server/discover")["capabilities"]:
        person.tools()


def calls_the_first(person: Person, _: Json) -> None:
    for tool in person.tools()[:1]:
        person.call(tool["name"], arguments={"a": 2, "b": 3})


def calls_everything(person: Person, _: Json) -> None:
    """Use every tool, resource and prompt that is listed."""
    for tool in person.tools():
        fields = tool["inputSchema"].get("properties", {})
        person.call(tool["name"], arguments=dict.fromkeys(fields, "us west"))


def uses_everything(person: Person, context: Json) -> None:
    calls_everything(person, context)
    for resource in person.request("resources/list")["resources"]:
        person.request("resources/read", {"uri": resource["uri"]})
    for prompt in person.request("prompts/list")["prompts"]:
        person.request("prompts/get", {"name": prompt["name"]})


def calls_as_told(person: Person, context: Json) -> None:
    person.tools()
    for told in context["toolCalls"]:
        person.call(told["name"], arguments=told["arguments"])


def gives_a_schema_back(person: Person, _: Json) -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in person.tools()}
    person.call("json_schema_echo", arguments={"schema": schemas["json_schema_2020_12_tool"]})


def answers_in_results(person: Person, _: Json) -> None:
    """Answer the questions of one call after another call has been made."""
    person.tools()
    for tool in ("test_mrtr_echo_state", "test_mrtr_no_state"):
        asked = person.call(tool)
        assert asked["resultType"] == "input_required", asked
        person.call("test_mrtr_unrelated")
        questions = asked["inputRequests"]
        content = {"action": "accept", "content": {"confirmed": True}}
        more = {"inputResponses": dict.fromkeys(questions, content)}
        if "requestState" in asked:
            more["requestState"] = asked["requestState"]
        person.call(tool, **more)
    person.call("test_mrtr_no_result_type")


def uses_what_needs_a_sign_in(person: Person, _: Json) -> None:
    person.tools()
    person.call("test-tool")


Work = Callable[[Person, Json], None]

WORK: Final[dict[str, Work]] = {
    "initialize": lists,
    "tools_call": calls_the_first,
    "elicitation-sep1034-client-defaults": calls_the_first,
    "sse-retry": calls_the_first,
    "request-metadata": discovers,
    "http-standard-headers": uses_everything,
    "http-custom-headers": calls_as_told,
    "http-invalid-tool-headers": calls_everything,
    "sep-2322-client-request-state": answers_in_results,
    "json-schema-ref-no-deref": lists,
    "json-schema-2020-12-preservation": gives_a_schema_back,
}

UNSUPPORTED: Final = (
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
)
"""Extensions that the product does not have."""


def auth_of(scenario: str, context: Json, folder: Path) -> Json:
    """Return ``auth`` of the entry."""
    auth: Json = {"type": "oauth", "client_metadata_url": DOCUMENT}
    if "client_id" in context:
        del auth["client_metadata_url"]
        auth["client_id"] = context["client_id"]
    if "client_secret" in context:
        auth["client_secret"] = context["client_secret"]
    if "private_key_pem" in context:
        key = folder / "key.pem"
        key.touch(0o600)
        key.write_text(context["private_key_pem"])
        auth |= {"key_file": str(key), "key_algorithm": context["signing_algorithm"]}
    if scenario.startswith("auth/client-credentials-"):
        auth["grant"] = "client_credentials"
    return auth


def main() -> None:
    """Do what the suite asks; the exit status is 1 where that failed."""
    lock, url = sys.argv[1:]
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if scenario in UNSUPPORTED:
        sys.exit(f"{scenario}: not supported")
    work = WORK.get(scenario)
    if work is None:
        assert scenario.startswith("auth/"), f"{scenario}: unknown"
        work = uses_what_needs_a_sign_in
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by the suite"))
        signal.signal(signal.SIGALRM, lambda *_: sys.exit("this takes too long"))
        signal.alarm(int(scaled(WORK_S)))
        box = Box()
        box.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
        entry: Json = {"url": url, "roots": [box.root.as_uri()]}
        if scenario.startswith("auth/"):
            entry["auth"] = auth_of(scenario, context, box.root)
        box.servers["suite"] = entry
        try:
            box.up()
            work(Person(box, revision), context)
        except (RpcError, AssertionError, OSError, EOFError) as error:
            sys.exit(f"{type(error).__name__}: {error}\n{box.tail()}")
        finally:
            signal.alarm(0)
            box.close()


if __name__ == "__main__":
    main()
