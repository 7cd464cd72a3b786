"""Questions of a server, to the one session that they can be for."""

from __future__ import annotations

from tests.unit.core.mux.world import World

ASK = '>> echo {"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}'
CANCEL = '>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'


def asked() -> World:
    """Return a world in which session 1 is asked by the server, with a call in flight."""
    world = World()
    world.run("!! server echo call_timeout=10", "!! start echo", "!! join 1 echo sampling")
    world.call(1, 1, "echo")
    assert world.run(ASK)[0].startswith("<< 1 ")
    return world


def test_an_answer_counts_once_and_only_from_who_was_asked():
    """
    B081: whatever others send, it is not the answer.
    """
    world = asked()
    world.run("!! join 2 echo sampling")
    assert world.run('>> 2 {"jsonrpc":"2.0","id":1,"result":{}}') == []
    assert world.run('>> 1 {"jsonrpc":"2.0","id":"1","result":{}}') == []
    (told,) = world.run('>> 1 {"jsonrpc":"2.0","id":1,"result":{"x":1e400}}')
    assert told == '<< echo {"jsonrpc":"2.0","id":"q","result":{"x":1e400}}'
    assert world.run('>> 1 {"jsonrpc":"2.0","id":1,"result":{}}') == []


def test_the_time_of_a_call_stands_still_until_its_last_question_is_answered():
    world = asked()
    world.run(ASK.replace('"q"', '"r"'))
    world.run("!! +50", '>> 1 {"jsonrpc":"2.0","id":1,"result":{}}')
    assert world.run("!! +50") == []
    world.run('>> 1 {"jsonrpc":"2.0","id":2,"result":{}}')
    assert world.run("!! +9.9") == []
    assert "call_timeout" in world.run("!! +0.1")[-1]


def test_a_call_that_is_over_withdraws_its_question():
    world = asked()
    done = world.run(CANCEL)
    assert len(done) == 3
    assert "notifications/cancelled" in done[1] and done[1].startswith("<< 1 ")
    assert world.mux.table_sizes()["questions"] == 0


def test_a_question_without_a_usable_id_cannot_be_answered():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo sampling")
    world.call(1, 1, "echo")
    assert world.run(ASK.replace('"q"', "null")) == []
    assert world.run(ASK.replace('"q"', "{}")) == []


def test_control_calls_are_asked_nothing():
    world = World()
    world.run("!! server echo", "!! start echo", "!! open 1")
    world.request(1, 1, "mcpd/call", server="echo", tool="echo")
    world.run("!! valid 1")
    (refusal,) = world.run(ASK)
    assert refusal.startswith("<< echo ") and "-32601" in refusal


def test_a_question_stays_while_another_call_could_have_caused_it():
    """
    Not so a call that was made after it was asked.
    """
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo sampling")
    world.call(1, 1, "echo")
    world.call(1, 2, "echo")
    world.run(ASK)
    world.call(1, 3, "echo")
    done = world.run(CANCEL)
    assert len(done) == 1 and done[0].startswith("<< echo")
    assert world.mux.table_sizes()["questions"] == 1
    done = world.run(CANCEL.replace(":1}", ":2}"))
    assert len(done) == 3 and world.mux.table_sizes()["questions"] == 0


def test_a_call_of_somebody_else_that_is_over_withdraws_nothing():
    world = asked()
    world.run("!! join 2 echo")
    world.call(2, 1, "echo")
    assert len(world.run(CANCEL.replace(">> 1", ">> 2"))) == 1
    world.run("!! server other", "!! start other", "!! join 3")
    world.call(3, 1, "other__echo")
    assert len(world.run(CANCEL.replace(">> 1", ">> 3"))) == 1
    assert world.mux.table_sizes()["questions"] == 1


def test_requests_that_cannot_ask_make_nobody_a_candidate():
    world = World()
    world.run(
        "!! server echo", "!! start echo", "!! join 1 echo sampling", "!! join 2 echo sampling"
    )
    world.call(1, 1, "echo")
    world.request(2, 1, "prompts/list")
    world.request(2, 2, "completion/complete", ref={"type": "x"}, argument={})
    (question,) = world.run(ASK)
    assert question.startswith("<< 1 ")


def test_time_stands_still_only_for_calls_of_who_is_asked():
    world = World()
    world.run("!! server echo call_timeout=10", "!! start echo", "!! join 1 echo sampling")
    world.run("!! join 2 echo")
    world.call(1, 1, "echo")
    world.call(2, 1, "echo")
    world.run(ASK)
    done = world.run("!! +10")
    assert [line[:5] for line in done if "call_timeout" in line and "<< echo" not in line] == [
        "<< 2 "
    ]


def test_whoever_was_sent_to_a_page_is_told_that_it_is_done_and_nobody_else():
    """
    2025-11-25: the page of a URL elicitation says so by way of the server.
    """
    world = World()
    world.run("!! server echo", "!! start echo")
    for session in (1, 2):
        world.run(
            f"!! attach {session} echo",
            f'>> {session} {{"jsonrpc":"2.0","id":"i","method":"initialize","params":'
            '{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}}}}',
            f'>> {session} {{"jsonrpc":"2.0","method":"notifications/initialized"}}',
        )
    world.call(1, 1)
    world.run(
        '>> echo {"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":'
        '{"mode":"url","url":"u:","elicitationId":"e"}}'
    )

    def done(name: str) -> list[str]:
        method = "notifications/elicitation/complete"
        params = f'{{"elicitationId":"{name}"}}'
        return world.run(f'>> echo {{"jsonrpc":"2.0","method":"{method}","params":{params}}}')

    (line,) = done("e")
    assert line.startswith("<< 1 ") and "notifications/elicitation/complete" in line
    assert done("e") == []  # once; after that it could be anybody's
    world.run(
        '>> echo {"jsonrpc":"2.0","id":3,"error":{"code":-32042,"message":"visit","data":'
        '{"elicitations":[{"mode":"url","url":"u:","message":"go","elicitationId":"of 1"}]}}}'
    )
    (line,) = done("of 1")  # an error sent it there
    assert line.startswith("<< 1 ")
    world.run("!! close 2")
    assert done("of 2") == []  # it is nobody else's, though one alone is left
