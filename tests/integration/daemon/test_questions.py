"""Questions of a real legacy server that several clients share: whose they are, and who waits."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.support.daemon import Box, Peer
from tests.support.waiting import scaled, wait_until

CAPABILITIES = {"elicitation": {}}
ROUNDS = 500


class Person:
    """A client that answers every elicitation with its own name, at once."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer = peer
        self.name = name
        self.wrong: list[Any] = []

    def ask(self, question: str) -> Any:
        """Call the tool that asks, answer it, and return what it made of that."""
        call = self.peer.start("tools/call", {"name": "ask", "arguments": {"question": question}})
        asked = self.peer.take(lambda m: m.get("method") == "elicitation/create", 30, "question")
        if asked["params"]["message"] != question:
            self.wrong.append(asked)
        content = {"answer": f"{self.name}: {question}"}
        self.peer.send(id=asked["id"], result={"action": "accept", "content": content})
        return json.loads(self.peer.finish(call, 30)["content"][0]["text"])["result"]["content"]

    def ask_often(self) -> None:
        """Ask many times, and note every answer that is not one's own."""
        for number in range(ROUNDS):
            question = f"{self.name} {number}"
            said = self.ask(question)
            if said != {"answer": f"{self.name}: {question}"}:
                self.wrong.append(said)


@pytest.mark.timeout(180)
def test_two_clients_that_answer_at_the_same_time_are_never_mixed_up(box: Box) -> None:
    """
    B081: a thousand questions of one process, and every one is its own client's.
    """
    box.fake().up()
    people = [Person(box.session(capabilities=CAPABILITIES), name) for name in ("ada", "bob")]
    people[0].ask("first, so that it is known to ask")
    threads = [threading.Thread(target=person.ask_often) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(120))
        assert not thread.is_alive()
    assert [person.wrong for person in people] == [[], []]


def test_a_dialog_that_is_left_open_holds_nobody_up(box: Box) -> None:
    """
    What cannot be asked about runs at once, what can after two seconds, and a question that could
    then be for either is not shown to anybody.
    """
    box.fake(question_wait=1).up()
    ada = Person(box.session(capabilities=CAPABILITIES), "ada")
    ada.ask("first, so that it is known to ask")
    bob = box.session(capabilities=CAPABILITIES)
    box.session().text("echo", text="warm")
    ada.peer.start("tools/call", {"name": "ask", "arguments": {"question": "for ever?"}})
    ada.peer.take(lambda m: m.get("method") == "elicitation/create")
    assert box.session().text("echo", 1, text="at once") == "at once"
    call = bob.start("tools/call", {"name": "echo", "arguments": {"text": "in a moment"}})
    turn = wait_until(lambda: box.status()["interactive"]["turn"], 5)
    waiting = box.status()["interactive"]["waiting"]
    assert [who["session"] for who in waiting] != [turn["session"]]
    assert bob.finish(call, 5)["content"][0]["text"] == "in a moment"
    said = json.loads(bob.text("ask", 10, question="whose?"))
    assert said["error"]["code"] == -32603 and "question_wait" in said["error"]["message"]
    assert [m for m in bob.inbox if "method" in m] == []
