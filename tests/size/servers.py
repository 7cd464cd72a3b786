"""What a hostile server makes many or large of."""

from __future__ import annotations

from typing import Any, Final

from tests.size.clients import MODERN
from tests.size.ground import BUFFERED_BYTES, HOLDS_MIB, MESSAGE_BYTES, MIB, Arena, outcome, skim
from tests.size.rows import row
from tests.support.daemon import Peer, RpcError

LARGE: Final = 24 * MIB
"""A large part of a line that is still taken."""


def run(
    arena: Arena, code: str, *, server: str = "puppet", timeout: float = 50.0, **more: Any
) -> Peer:
    """Have the puppet run something, as a call of a session that is returned."""
    peer = arena.session(server, **more)
    peer.finish(peer.start("tools/call", {"name": "run", "arguments": {"code": code}}), timeout)
    return peer


def note(method: str, params: str = "{}") -> str:
    """Return a notification, as a literal of bytes."""
    return repr(
        f'{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}\n'.encode()
    )


@row(120)
def elements_of_an_array(arena: Arena) -> None:
    """4 MiB of empty objects held everybody up for 43 s, and 16 MiB until the watchdog came."""
    for element in (b"{}", b"1", b'{"jsonrpc":"2.0","method":"x"}'):
        many = LARGE // (len(element) + 1)
        run(arena, f"out(b'[' + b','.join([{element!r}] * {many}) + b']\\n')")


@row(60)
def arrays_of_messages(arena: Arena) -> None:
    """Each of so few elements that a batch is taken where there is one."""
    one = b"[" + b",".join([b'{"jsonrpc":"2.0","method":"notifications/x"}'] * 1000) + b"]\n"
    run(arena, f"out({one!r} * 100)")


@row(300)
def members_of_a_result(arena: Arena) -> None:
    members = f"b','.join(b'\"%x\":1' % n for n in range({LARGE // 9}))"
    code = (
        f"m = {members}; silent = True;"
        'out(b\'{"jsonrpc":"2.0","id":%d,"result":{"content":[],%b}}\\n\' % (ident, m))'
    )
    peer = arena.session("puppet")
    peer.start("tools/call", {"name": "run", "arguments": {"code": code}})
    assert peer.read_line(30.0) is not None
    modern = arena.session("puppet", handshake=False)
    modern.start("tools/call", {"_meta": MODERN, "name": "run", "arguments": {"code": code}})
    assert modern.read_line(30.0) is not None
    run(arena, f'm = {members}; out(b\'{{"jsonrpc":"2.0","method":"x",%b}}\\n\' % m)')
    run(arena, f"m = {members}; out(b'{{%b}}\\n' % m)")
    note = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{%b}}\n'
    run(arena, f"m = {members}; out({note!r} % m)")


@row(200)
def depth_of_a_line(arena: Arena) -> None:
    for code in (
        f"out(b'[' * {LARGE} + b'\\n')",
        f"out(b'[' * {LARGE // 2} + b']' * {LARGE // 2} + b'\\n')",
        f"out(b'{{\"a\":' * {LARGE // 5} + b'\\n')",
        'out(b\'{"jsonrpc":"2.0","id":%d,"result":\' % ident + b\'[\' * '
        + str(LARGE)
        + " + b'\\n')",
    ):
        peer = arena.session("puppet")
        outcome(peer, peer.start("tools/call", {"name": "run", "arguments": {"code": code}}))


@row(250)
def blanks_in_a_line(arena: Arena) -> None:
    """32 MiB of them beside a lone surrogate: 2.8 s for everybody."""
    for body in ('b\'"\\\\ud800",%b"b":1\'', 'b\'1,%b"b":"\\\\ud800"\''):
        code = (
            f"silent = True; m = {body} % (b' ' * {LARGE});"
            'out(b\'{"jsonrpc":"2.0","id":%d,"result":{"a":%b}}\\n\' % (ident, m))'
        )
        peer = arena.session("puppet")
        outcome(peer, peer.start("tools/call", {"name": "run", "arguments": {"code": code}}))
    run(arena, f"out((b' ' * 1000 + b'\\n') * {LARGE // 1000})")


@row(300)
def escapes_in_a_line(arena: Arena) -> None:
    for member in ("content", "jsonrpc"):
        code = (
            f"silent = True; m = b'\\\\ud800' * {LARGE // 6};"
            f'out(b\'{{"jsonrpc":"2.0","id":%d,"result":{{"{member}":"%b"}}}}\\n\' % (ident, m))'
        )
        peer = arena.session("puppet")
        outcome(peer, peer.start("tools/call", {"name": "run", "arguments": {"code": code}}))
    code = f'out(b\'{{"jsonrpc":"2.0","method":"\' + b\'\\\\ud800\' * {LARGE // 6} + b\'"}}\\n\')'
    run(arena, code)


@row(60)
def lines_of_noise(arena: Arena) -> None:
    run(arena, "out(b'no JSON at all\\n' * 30_000)")
    run(arena, "out(b'[]\\n42\\n' * 15_000)")
    assert arena.box.log.stat().st_size < 4 * MIB


@row(MESSAGE_BYTES / MIB + 40)
def lines_too_long(arena: Arena) -> None:
    run(arena, f"out(b'x' * {2 * MESSAGE_BYTES} + b'\\n')")
    code = 'silent = True; out(b\'{"jsonrpc":"2.0","id":%d,"result":{"a":"\' % ident);'
    code += f"[out(b'x' * {MIB}) for _ in range({2 * MESSAGE_BYTES // MIB})]; out(b'\"}}}}\\n')"
    peer = arena.session("puppet")
    ident = peer.start(
        "tools/call", {"name": "run", "arguments": {"code": code.replace("}}}}", "}}")}}
    )
    assert outcome(peer, ident) == "message_too_large"


@row(60)
def answers_to_nobody(arena: Arena) -> None:
    run(
        arena,
        'out(b\'\'.join(b\'{"jsonrpc":"2.0","id":%d,"result":{}}\\n\' % (n + 10**6) for n in range(100_000)))',
    )


QUESTION: Final = (
    'b\'{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"%b",'
    '"requestedSchema":{"type":"object","properties":{}}}}\\n\''
)


@row(80)
def questions(arena: Arena) -> None:
    """One call opened 200,000 at its client."""
    code = f"out(b''.join({QUESTION} % (n, b'who') for n in range(20_000)))"
    peer = run(arena, code, capabilities={"elicitation": {}})
    asked = [m for m in peer.inbox if m.get("method") == "elicitation/create"]
    assert 1 <= len(asked) <= 32


@row(80)
def questions_of_many_calls(arena: Arena) -> None:
    """Of all calls of a process together."""
    peer = arena.session("puppet", capabilities={"elicitation": {}})
    for n in range(20):
        code = f"silent = True; out(b''.join({QUESTION} % (n + {1000 * n}, b'who') for n in range(40)))"
        peer.start("tools/call", {"name": "run", "arguments": {"code": code}}, ident=f"r{n}")
    peer.request("ping", timeout=30.0)
    other = run(arena, "pass")
    assert other.request("ping") == {}
    peer.request("ping", timeout=30.0)
    asked = [m for m in peer.inbox if m.get("method") == "elicitation/create"]
    assert len(asked) <= 256


@row(HOLDS_MIB)
def large_questions(arena: Arena) -> None:
    code = f"[out({QUESTION} % (n, b'x' * {4 * MIB})) for n in range(40)]"
    peer = arena.session("puppet", capabilities={"elicitation": {}})
    peer.start("tools/call", {"name": "run", "arguments": {"code": code}}, ident="flood")
    skim(peer, "flood")  # or it was closed: it did not read fast enough


@row(40)
def questions_outside_a_call(arena: Arena) -> None:
    """The completion, in which nobody can be asked either, is over when all were written."""
    setup = (
        "import threading\n"
        "def ask():\n"
        '    one = b\'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}\\n\'\n'
        "    out(b''.join(one % n for n in range(50_000)))\n"
        "def complete(message):\n"
        "    asking.join()\n"
        '    return b\'{"completion":{"values":[]}}\'\n'
        "answers['completion/complete'] = complete"
    )
    arena.bring("asker", setup)
    peer = arena.session("asker", capabilities={"roots": {}})
    code = "global asking; asking = threading.Timer(0.1, ask); asking.start()"
    peer.request("tools/call", {"name": "run", "arguments": {"code": code}}, 30.0)
    argument = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "v"}}
    peer.request("completion/complete", argument, 30.0)
    assert peer.request("ping", timeout=30.0) == {}


@row(HOLDS_MIB)
def parked_calls(arena: Arena) -> None:
    """1,777 were parked by one client. Each takes 30 ms, so that it is their bytes that are many."""
    arena.bring("asking", interactive="shared")
    peer = arena.session("asking", handshake=False)
    code = f"silent = True; out({QUESTION} % (ident, b'who'))"
    params = {"_meta": MODERN, "name": "run", "arguments": {"code": code, "blob": "x" * MIB}}
    many = 2 * BUFFERED_BYTES // MIB
    kinds = [outcome(peer, peer.start("tools/call", params)) for _ in range(many)]
    assert set(kinds) <= {"ok", "server_busy", "rate_limited"}
    assert kinds.count("ok") < many


@row(HOLDS_MIB)
def progress(arena: Arena) -> None:
    """To a client that reads nothing meanwhile."""
    peer = arena.session("puppet")
    code = (
        'm = b\'{"jsonrpc":"2.0","method":"notifications/progress","params":'
        '{"progressToken":%b,"progress":1,"message":"\' % token + b\'x\' * 1000 + b\'"}}\\n\';'
        "[out(m * 1000) for _ in range(100)]"
    )
    params = {"name": "run", "arguments": {"code": code}, "_meta": {"progressToken": "t"}}
    peer.start("tools/call", params, ident="flood")
    other = arena.session("puppet")
    assert other.request("tools/call", {"name": "run", "arguments": {"code": "pass"}}, 50.0)
    skim(peer, "flood")


@row(HOLDS_MIB)
def log_messages(arena: Arena) -> None:
    said = note("message", '{"level":"error","data":"' + "x" * 500 + '"}')
    run(arena, f"[out({said} * 1000) for _ in range(50)]")


@row(40)
def list_changes(arena: Arena) -> None:
    """The list is read once a second at most."""
    code = "; ".join(
        f"out({note(f'{name}/list_changed')} * 20_000)"
        for name in ("tools", "prompts", "resources")
    )
    run(arena, code)


@row(60)
def updates(arena: Arena) -> None:
    peer = arena.session("puppet")
    for n in range(500):
        peer.start("resources/subscribe", {"uri": f"puppet://{n}"}, ident=f"r{n}")
    for n in range(500):
        outcome(peer, f"r{n}")
    said = note("resources/updated", '{"uri":"puppet://1/2"}')
    run(arena, f"[out({said} * 1000) for _ in range(10)]")


@row(40)
def withdrawals(arena: Arena) -> None:
    said = note("cancelled", '{"requestId":"nobody"}')
    run(arena, f"out({note('elicitation/complete')} * 20_000); out({said} * 30_000)")


def listed(arena: Arena, setup: str, ask: str = "tools/list", **entry: Any) -> int:
    """Bring a server, and return how many entries the list has that it is asked for."""
    name = "lister"
    arena.bring(name, setup, **entry)
    with Peer.dial(arena.box.socket) as peer:
        try:
            peer.request("mcpd/restart", {"servers": [name]}, 50.0)
        except RpcError:
            return -1
    peer = arena.session(name)
    (_, found), *_ = peer.request(ask, {}, 50.0).items()
    return len(found)


@row(300)
def entries_of_a_list(arena: Arena) -> None:
    tools = 'b\',\'.join(b\'{"name":"t%d","inputSchema":{}}\' % n for n in range(200_000))'
    setup = "answers['tools/list'] = b'{\"tools\":[' + " + tools + " + b']}'"
    assert listed(arena, setup) == 10_000
    for element in ("1", "{}", '{"name":1}'):
        many = LARGE // (len(element) + 1)
        setup = f"answers['tools/list'] = b'{{\"tools\":[' + b','.join([b'{element}'] * {many}) + b']}}'"
        assert listed(arena, setup) <= 10_000


@row(200)
def resources_of_a_list(arena: Arena) -> None:
    uris = 'b\',\'.join(b\'{"uri":"x://%d","name":"n"}\' % n for n in range(50_000))'
    setup = "answers['resources/list'] = b'{\"resources\":[' + " + uris + " + b']}';"
    templates = (
        'b\',\'.join(b\'{"uriTemplate":"x://{a}/%d/{b}","name":"n"}\' % n for n in range(50_000))'
    )
    setup += (
        "answers['resources/templates/list'] = b'{\"resourceTemplates\":[' + "
        + templates
        + " + b']}'"
    )
    assert listed(arena, setup, "resources/list") == 10_000
    peer = arena.session(None)
    for uri in ("x://nobody/7/here", "x://" + "a/" * 4000):
        outcome(peer, peer.start("resources/read", {"uri": uri}), 50.0)


@row(200)
def pages_of_a_list(arena: Arena) -> None:
    """Of an empty page each counts as one entry."""
    setup = (
        "import itertools; pages = itertools.count();"
        'answers[\'tools/list\'] = lambda m: b\'{"tools":[],"nextCursor":"%d"}\' % next(pages)'
    )
    assert listed(arena, setup) == 0


@row(300)
def names_and_schemas_of_tools(arena: Arena) -> None:
    for tool in (
        f"b'{{\"name\":\"' + b'n' * {LARGE} + b'\",\"inputSchema\":{{}}}}'",
        f'b\'{{"name":"t","inputSchema":{{"a":"\' + b\'n\' * {LARGE} + b\'"}}}}\'',
        f"b'{{\"name\":\"t\",\"inputSchema\":' + b'[' * {LARGE // 2} + b']' * {LARGE // 2} + b'}}'",
        f"b'{{\"name\":\"t\",\"inputSchema\":{{' + b','.join(b'\"%x\":1' % n for n in range({LARGE // 10})) + b'}}}}'",
        f"b'{{\"name\":\"t\",' + b','.join(b'\"%x\":1' % n for n in range({LARGE // 10})) + b'}}'",
    ):
        listed(arena, f"answers['tools/list'] = b'{{\"tools\":[' + {tool} + b']}}'")
        with arena.peer() as peer:
            peer.start("mcpd/call", {"server": "lister", "tool": "t", "arguments": {}})
            peer.read_line(50.0)
        aggregate = arena.session(None)
        aggregate.start("tools/list")
        aggregate.read_line(50.0)


@row(200)
def introductions(arena: Arena) -> None:
    big = (
        "import json; said = lambda m: json.dumps({'protocolVersion': m['params']['protocolVersion'],"
        "'capabilities': {'tools': {}, 'experimental': {str(n): {} for n in range(500_000)}},"
        "'serverInfo': {'name': 'x' * 1_000_000, 'version': '1'}, 'instructions': 'y' * 8_000_000}).encode();"
        "answers['initialize'] = said"
    )
    listed(arena, big)


@row(MESSAGE_BYTES / MIB + 40)
def lines_without_an_end(arena: Arena) -> None:
    arena.bring("endless")
    peer = arena.session("endless")
    code = f"silent = True; out(b'{{\"a\":\"'); [out(b'x' * {MIB}) for _ in range({2 * MESSAGE_BYTES // MIB})]"
    peer.start("tools/call", {"name": "run", "arguments": {"code": code}})
    assert peer.request("ping") == {}
    assert arena.session("victim").text("echo", text="x") == "x"


@row(40)
def stderr_without_an_end(arena: Arena) -> None:
    run(arena, f"[err(b'x' * {MIB}) for _ in range(64)]")


@row(40)
def lines_of_stderr(arena: Arena) -> None:
    run(arena, "[err(b'a line of noise\\n' * 1000) for _ in range(100)]")


@row(40)
def crashes(arena: Arena) -> None:
    """It is given up after so many."""
    arena.bring("crashes", "raise SystemExit(3)", restart={"backoff": 0.01, "backoff_max": 0.02})
    peer = arena.peer()
    for n in range(200):
        peer.start("mcpd/call", {"server": "crashes", "tool": "x"}, ident=f"r{n}")
    kinds = {outcome(peer, f"r{n}") for n in range(200)}
    for _ in range(6):
        kinds.add(
            outcome(peer, peer.start("mcpd/call", {"server": "crashes", "tool": "x"}, ident="c"))
        )
    assert "crash_loop" in kinds and kinds <= {"server_crashed", "crash_loop"}


@row(HOLDS_MIB)
def input_that_is_not_read(arena: Arena) -> None:
    arena.bring("deaf")
    peer = arena.session("deaf")
    code = "silent = True; import time; time.sleep(600)"
    peer.start("tools/call", {"name": "run", "arguments": {"code": code}}, ident="sleep")
    for n in range(40):
        arguments = {"blob": "x" * (4 * MIB)}
        peer.start("tools/call", {"name": "hang", "arguments": arguments}, ident=f"r{n}")
    assert peer.request("ping", timeout=30.0) == {}
    with Peer.dial(arena.box.socket) as other:
        other.request("mcpd/restart", {"servers": ["deaf"]}, 30.0)


MODERN_SETUP: Final = (
    "import json; answers['server/discover'] = json.dumps({'resultType': 'complete', "
    "'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {}}, "
    "'_meta': {'io.modelcontextprotocol/serverInfo': {'name': 'm', 'version': '1'}}}).encode();"
    "answers['tools/list'] = json.dumps({'resultType': 'complete', 'ttlMs': 0, 'cacheScope': 'private',"
    "'tools': [{'name': n, 'inputSchema': {'type': 'object'}} for n in ('run', 'hang')]}).encode();"
)


@row(250)
def rounds_of_input(arena: Arena) -> None:
    """A modern server asks again and again, and for much at a time."""
    arena.bring("rounds", MODERN_SETUP, era="modern")
    code = (
        'silent = True; q = b\'{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}\';'
        "many = b','.join(b'\"%d\":%b' % (n, q) for n in range(50_000));"
        'out(b\'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","inputRequests":{%b}}}\\n\' % (ident, many))'
    )
    peer = arena.session("rounds", capabilities={"elicitation": {}})
    ident = peer.start("tools/call", {"name": "run", "arguments": {"code": code}})
    assert outcome(peer, ident) != "ok"
    code = (
        "silent = True; "
        'out(b\'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required","requestState":"s"}}\\n\' % ident)'
    )
    ident = peer.start("tools/call", {"name": "run", "arguments": {"code": code}})
    assert outcome(peer, ident) != "ok"


@row(120)
def lists_for_clients(arena: Arena) -> None:
    """A modern server has another large list for each set of capabilities."""
    setup = MODERN_SETUP + (
        "tools = lambda m: [{'name': 'run', 'inputSchema': {'type': 'object'}, 'description': "
        "str(m['params']['_meta']['io.modelcontextprotocol/clientCapabilities']), "
        "'_meta': {'x': 'x' * (1 << 20)}}];"
        "answers['tools/list'] = lambda m: json.dumps({'resultType': 'complete', 'ttlMs': 0, "
        "'cacheScope': 'private', 'tools': tools(m)}).encode()"
    )
    arena.bring("lists", setup, era="modern")
    for server in ("lists", None):
        peer = arena.session(server, handshake=False)
        for number in range(60):
            able = {"experimental": {str(number): {}}}
            meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": able}
            found = peer.request("tools/list", {"_meta": meta}, 30.0)["tools"]
            assert [str(able) in tool["description"] for tool in found if len(str(tool)) > MIB] == [
                True
            ]


@row(300)
def members_of_a_modern_result(arena: Arena) -> None:
    arena.bring("rounds", MODERN_SETUP, era="modern")
    members = f"b','.join(b'\"%x\":1' % n for n in range({LARGE // 9}))"
    code = (
        f"m = {members}; silent = True;"
        'out(b\'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[],%b}}\\n\' % (ident, m))'
    )
    for handshake in (True, False):
        peer = arena.session("rounds", handshake=handshake)
        meta = {} if handshake else {"_meta": MODERN}
        peer.start("tools/call", {"name": "run", "arguments": {"code": code}, **meta})
        assert peer.read_line(30.0) is not None
