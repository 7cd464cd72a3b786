"""What servers have asked the client, and whose answers are still worth anything."""

from __future__ import annotations

import json

from mcpd.bridge.session.questions import MOST_WITHDRAWN, Questions


def withdrawn(questions: Questions) -> list[object]:
    return [json.loads(frame)["params"]["requestId"] for frame in questions.withdraw_all()]


def test_only_open_questions_are_withdrawn():
    questions = Questions()
    for ident in (b"1", b'"1"', b"2", b"3"):
        assert questions.add(ident)
    assert questions.accepts_answer(b"2")
    questions.cancel(3)
    questions.cancel("unknown")
    assert withdrawn(questions) == [1, "1"]
    assert withdrawn(questions) == []


def test_a_late_answer_is_not_sent():
    questions = Questions()
    questions.add(b"1")
    questions.withdraw_all()
    assert not questions.add(b"1"), "an answer could be to either"
    assert not questions.accepts_answer(b"1")
    assert questions.add(b"1")
    assert questions.accepts_answer(b"1")


def test_a_client_that_never_answers_leaves_a_bounded_trace():
    questions = Questions()
    for number in range(MOST_WITHDRAWN * 3):
        questions.add(b"%d" % number)
        questions.withdraw_all()
    assert questions.add(b"0")
    assert not questions.add(b"%d" % (MOST_WITHDRAWN * 3 - 1))
