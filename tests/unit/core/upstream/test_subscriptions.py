"""Subscribers counted by resource."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.facts import Failure
from mcpd.core.upstream.subscriptions import Subscriptions, Topics, Waiter

GONE = Failure("server_crashed", "gone")


class Server:
    """What was asked of it, and who was told what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.told: list[tuple[int, object, object]] = []
        self.subscriptions = Subscriptions(lambda uri, wanted: self.asked.append((uri, wanted)))

    def waiter(self, session: int) -> Waiter:
        return lambda error, failure: self.told.append((session, error, failure))

    def add(self, uri: str, session: int, *, is_up: bool = True) -> None:
        self.subscriptions.add(uri, session, self.waiter(session), is_up=is_up)

    def answer(self, error: bytes | None = None) -> None:
        self.subscriptions.moved(*self.asked[-1], error)


def test_the_first_subscribes_and_the_last_unsubscribes():
    """
    B090: others change nothing for the server.
    """
    server = Server()
    server.add("a", 1)
    server.answer()
    server.add("a", 2)
    assert server.told == [(1, None, None), (2, None, None)]
    server.subscriptions.remove("a", 1, is_up=True)
    assert server.asked == [("a", True)]
    server.subscriptions.remove("a", 2, is_up=True)
    assert server.asked == [("a", True), ("a", False)]
    server.answer()
    assert len(server.subscriptions) == 0


def test_who_comes_while_it_is_on_its_way_waits_for_it():
    server = Server()
    server.add("a", 1)
    server.add("a", 2)
    assert server.told == [] and server.asked == [("a", True)]
    server.answer()
    assert [session for session, *_ in server.told] == [1, 2]


def test_requests_about_one_resource_never_overlap():
    server = Server()
    server.add("a", 1)
    server.subscriptions.remove("a", 1, is_up=True)
    server.add("a", 2)
    server.subscriptions.remove("a", 2, is_up=True)
    server.add("b", 3)
    assert server.asked == [("a", True), ("b", True)]
    server.subscriptions.moved("a", True, None)
    assert server.asked[2:] == [("a", False)]
    server.subscriptions.moved("a", False, None)
    assert server.subscriptions.of(3) == ["b"] and len(server.subscriptions) == 1


def test_a_refusal_is_told_and_nobody_is_subscribed():
    server = Server()
    server.add("a", 1)
    server.add("a", 2)
    server.answer(b'{"code":1}')
    assert server.told == [(1, b'{"code":1}', None), (2, b'{"code":1}', None)]
    assert server.subscriptions.subscribers("a") == set()
    assert len(server.subscriptions) == 0


def test_a_new_process_is_asked_for_what_is_wanted():
    server = Server()
    server.add("a", 1)
    server.answer()
    server.add("b", 1)
    server.subscriptions.down()
    server.subscriptions.remove("a", 1, is_up=False)
    server.add("c", 2, is_up=False)
    server.asked.clear()
    server.subscriptions.renew()
    assert server.asked == [("b", True), ("c", True)]
    server.subscriptions.renew()
    assert len(server.asked) == 2, "what is on its way is not asked for again"


def test_who_waits_is_told_when_there_will_be_none():
    server = Server()
    server.add("a", 1)
    server.answer()
    server.add("b", 2)
    server.subscriptions.down()
    server.subscriptions.fail(GONE)
    assert server.told == [(1, None, None), (2, None, GONE)]
    assert server.subscriptions.subscribers("a") == {1}, "who was served is renewed"
    assert len(server.subscriptions) == 1


@pytest.mark.parametrize("is_up", [True, False])
def test_who_leaves_leaves_nothing_behind(is_up: bool):
    server = Server()
    server.add("a", 1, is_up=is_up)
    server.add("b", 1, is_up=is_up)
    server.subscriptions.leave(1, is_up=is_up)
    if is_up:
        for uri in ("a", "b"):
            server.subscriptions.moved(uri, True, None)
            server.subscriptions.moved(uri, False, None)
    assert len(server.subscriptions) == 0


def test_who_unsubscribes_before_it_stands_is_not_kept_waiting():
    server = Server()
    server.add("a", 1, is_up=False)
    server.subscriptions.remove("a", 1, is_up=False)
    assert server.told == [(1, None, None)]
    assert len(server.subscriptions) == 0


def test_an_update_goes_to_subscribers_of_the_resource_and_of_its_parents():
    server = Server()
    for session, uri in enumerate(["file:///a", "file:///a/b", "file:///", "file:///ab"], 1):
        server.add(uri, session)
    subscribers = server.subscriptions.subscribers
    assert subscribers("file:///a/b/c") == {1, 2, 3}
    assert subscribers("file:///a") == {1, 3}
    assert subscribers("file:///abc") == {3}
    assert subscribers("other:///a") == set()


def test_news_of_what_nobody_knows_is_nothing():
    server = Server()
    server.subscriptions.moved("a", True, None)
    server.subscriptions.remove("a", 1, is_up=True)
    assert server.asked == [] and len(server.subscriptions) == 0


class Counted(str):
    """A URI that counts how often it is looked into."""

    looks = 0

    def startswith(self, *args: object) -> bool:
        type(self).looks += 1
        return super().startswith(*args)  # type: ignore[arg-type]


SEGMENTS = st.lists(st.sampled_from(["", "a", "b", "file:", "a b"]), max_size=6)


def covers(own: str, topic: str) -> bool:
    """Tell whether who follows ``own`` hears of ``topic``: it is that, or a part of it."""
    return topic == own or topic.startswith(own.rstrip("/") + "/")


@given(st.lists(SEGMENTS, max_size=12), SEGMENTS)
def test_parents_are_found_as_by_looking_at_all(followed: list[list[str]], changed: list[str]):
    topics, uri = Topics(), "/".join(changed)
    known = {"/".join(each) for each in followed}
    for each in known:
        topics.add(each)
    found = [*topics.parents(uri)]
    assert len(found) == len(set(found))
    assert {*found, *({uri} & known)} == {each for each in known if covers(each, uri)}
    for each in known:
        topics.discard(each)
    assert not topics._by_stem


def test_an_update_is_found_without_a_look_at_every_subscription():
    subscriptions = Subscriptions(lambda topic, wanted: None)
    for number in range(1000):
        subscriptions.add(Counted(f"file:///{number}"), number, None, is_up=True)
    update = Counted("file:///7/x")
    assert [*subscriptions.subscribers(update)] == [7]
    assert Counted.looks == 0


def test_a_very_long_uri_is_no_part_of_another():
    """
    Its slashes are not counted: a server may name one of 60 MB.
    """
    subscriptions = Subscriptions(lambda topic, wanted: None)
    subscriptions.add("a", 1, None, is_up=True)
    subscriptions.add("a" + "/" * 10_000, 2, None, is_up=True)
    assert [*subscriptions.subscribers("a" + "/" * 10_000)] == [2]
    assert [*subscriptions.subscribers("a" + "/" * 8000)] == [1]
