"""What servers have asked the client, and whose answers are still worth anything."""

from __future__ import annotations

import json

from mcpd.bridge.questions import MOST_WITHDRAWN, Questions


def withdrawn(questions: Questions) -> list[object]:
    return [json.loads(frame)["params"]["requestId"] for frame in questions.withdraw_all()]


def test_only_open_questions_are_withdrawn():
    questions = Questions()
    for ident in (b"1", b'"1"', b"2", b"3"):
        assert questions.asked(ident)
    assert questions.takes(b"2")
    questions.cancelled(3)
    questions.cancelled("unknown")
    assert withdrawn(questions) == [1, "1"]
    assert withdrawn(questions) == []


def test_a_late_answer_is_not_sent():
    questions = Questions()
    questions.asked(b"1")
    questions.withdraw_all()
    assert not questions.asked(b"1"), "an answer could be to either"
    assert not questions.takes(b"1")
    assert questions.asked(b"1")
    assert questions.takes(b"1")


def test_a_client_that_never_answers_leaves_a_bounded_trace():
    questions = Questions()
    for number in range(MOST_WITHDRAWN * 3):
        questions.asked(b"%d" % number)
        questions.withdraw_all()
    assert questions.asked(b"0")
    assert not questions.asked(b"%d" % (MOST_WITHDRAWN * 3 - 1))
