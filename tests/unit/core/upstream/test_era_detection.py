"""Which era a process speaks, decided without any process."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from mcpd.core.mcp import modern, modern_meta
from mcpd.core.mcp.offer import FULL, Offer, Omission, Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.upstream.era_detection import (
    Again,
    Ask,
    EraDetection,
    Move,
    Refuse,
    Silence,
    Step,
    Use,
)

INITIALIZED = b'{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x"}}'
DISCOVERED = b'{"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete"}'
OF_OLD = b'{"supportedVersions":["2025-11-25"],"capabilities":{}}'
CAPABILITIES = {"elicitation": b'{"form":{},"url":{}}', "sampling": b"{}"}
NO_METHOD = b'{"code":-32601,"message":"Method not found"}'


def error(code: int, **data: Any) -> bytes:
    return json.dumps({"code": code, "message": "no", "data": data}).encode()


def opening(era: Era | None = None, verdict: Era | Verdict | None = None) -> EraDetection:
    known = Verdict(verdict) if isinstance(verdict, Era) else verdict
    return EraDetection("echo", era, known, CAPABILITIES)


def probed() -> EraDetection:
    found = opening()
    assert found.up() == Ask(Era.MODERN, may_die=True, silence=Silence.SOON)
    return found


def until_refused(found: EraDetection, refusal: bytes) -> Move:
    """Answer whatever is offered with the same error, until nothing more is."""
    move: Move = found.up()
    while isinstance(move, Ask):
        move = found.answered(None, refusal)
    return move


def guessing() -> EraDetection:
    found = probed()
    assert isinstance(found.silent(), Again)
    assert found.up() == Ask(Era.LEGACY, may_die=False, silence=Silence.NEVER)
    return found


# -- nothing is known --------------------------------------------------------------------------------


def test_what_answers_the_probe_is_modern() -> None:
    found = probed()
    move = found.answered(DISCOVERED, None)
    assert isinstance(move, Use)
    assert move.introduction.era is Era.MODERN
    assert found.verdict == Verdict(Era.MODERN)


@pytest.mark.parametrize(
    ("result", "refusal"),
    [
        (None, NO_METHOD),
        (None, error(-32602)),
        (None, error(-32600)),
        (None, error(-32022)),
        (None, error(-32022, supported=["2025-11-25"])),
        (None, error(-32022, supported="2026-07-28")),
        (None, b'"no"'),
        (OF_OLD, None),
        (b"[]", None),
        (b'{"tools":[]}', None),
    ],
)
def test_any_other_answer_means_initialize_on_the_same_process(
    result: bytes | None, refusal: bytes | None
) -> None:
    """
    TypeScript 1.x answers -32601, Python 1.9 to 1.30 -32602; no code is proof of anything.
    """
    found = probed()
    assert found.answered(result, refusal) == Ask(Era.LEGACY, may_die=True, silence=Silence.NEVER)
    assert found.silent() is None
    assert isinstance(found.answered(INITIALIZED, None), Use)
    assert found.verdict == Verdict(Era.LEGACY)


@pytest.mark.parametrize(
    "refusal", [error(-32022, supported=["2026-07-28"]), error(-32020), error(-32021)]
)
def test_a_modern_error_is_no_reason_to_initialize(refusal: bytes) -> None:
    found = probed()
    move = until_refused(found, refusal)
    assert isinstance(move, Refuse)
    assert "with an error" in move.message and "echo" in move.message
    assert found.verdict is None


@pytest.mark.parametrize(("era", "verdict"), [(None, None), (None, Era.MODERN), (Era.MODERN, None)])
def test_discover_is_repeated_once_where_its_version_is_refused_and_named(
    era: Era | None, verdict: Era | None
) -> None:
    named = error(-32022, supported=["2026-07-28"], requested="2026-07-28")
    found = opening(era, verdict)
    asked = found.up()
    assert found.answered(None, named) == asked and asked.era is Era.MODERN
    assert isinstance(found.answered(None, named), Refuse)
    again = opening(era, verdict)
    again.answered(None, named)
    assert isinstance(again.answered(DISCOVERED, None), Use)


def test_silence_means_a_new_process_and_initialize_first() -> None:
    found = guessing()
    assert isinstance(found.answered(INITIALIZED, None), Use)
    assert found.verdict == Verdict(Era.LEGACY)


def test_a_death_by_the_probe_means_the_same() -> None:
    """
    Python SDK servers up to 1.8.1 die of it.
    """
    found = probed()
    assert found.died()
    assert found.up().era is Era.LEGACY
    assert not found.died(), "the second death is a crash"


def test_a_death_after_an_error_is_asked_about_once_more() -> None:
    """
    It may have died of the probe after all, having answered.
    """
    found = probed()
    found.answered(None, NO_METHOD)
    assert found.died()
    assert found.step is Step.GUESS


@pytest.mark.parametrize("refusal", [error(-32022), error(-32601, supported=["2026-07-28"])])
def test_initialize_refused_by_a_modern_server_means_afresh_and_modern(refusal: bytes) -> None:
    """
    It had been too slow to answer the probe.
    """
    found = guessing()
    assert isinstance(found.answered(None, refusal), Again)
    assert found.up() == Ask(Era.MODERN, may_die=False, silence=Silence.NEVER)
    assert isinstance(found.answered(DISCOVERED, None), Use)
    assert found.verdict == Verdict(Era.MODERN)


def test_a_guess_that_fails_says_nothing_about_the_era() -> None:
    found = guessing()
    assert isinstance(found.answered(None, error(-32000)), Refuse)
    assert found.verdict is None


def test_a_process_that_was_corrected_is_not_asked_again() -> None:
    found = guessing()
    found.answered(None, error(-32022))
    assert isinstance(found.answered(None, NO_METHOD), Refuse)


# -- something is remembered --------------------------------------------------------------------------


def test_a_legacy_server_is_initialized_at_once() -> None:
    found = opening(verdict=Era.LEGACY)
    assert found.up() == Ask(Era.LEGACY, may_die=True, silence=Silence.NEVER)
    assert isinstance(found.answered(INITIALIZED, None), Use)
    assert found.verdict == Verdict(Era.LEGACY)


@pytest.mark.parametrize("refusal", [error(-32022), error(-32601), error(-32602), error(0)])
def test_any_error_instead_of_its_answer_means_the_probe_on_a_new_process(refusal: bytes) -> None:
    """
    Upgrades in place are the normal case.
    """
    found = opening(verdict=Era.LEGACY)
    assert isinstance(found.answered(None, refusal), Again)
    assert found.verdict is None
    assert found.up() == Ask(Era.MODERN, may_die=True, silence=Silence.SOON)


@pytest.mark.parametrize("verdict", Era)
def test_a_death_instead_of_its_answer_means_the_same(verdict: Era) -> None:
    found = opening(verdict=verdict)
    assert found.died()
    assert found.verdict is None
    assert found.step is Step.PROBE


def test_a_modern_server_has_half_of_the_start_up_time() -> None:
    """
    It is known to answer: three seconds are too few for one that starts cold.
    """
    found = opening(verdict=Era.MODERN)
    assert found.up() == Ask(Era.MODERN, may_die=True, silence=Silence.LATE)
    assert isinstance(found.silent(), Again)
    assert found.step is Step.GUESS


def test_a_modern_server_that_is_legacy_now_is_initialized_on_the_same_process() -> None:
    found = opening(verdict=Era.MODERN)
    assert found.answered(None, NO_METHOD) == Ask(Era.LEGACY, True, Silence.NEVER)
    assert found.verdict is None


# -- the configuration says ---------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, *Era])
@pytest.mark.parametrize(
    ("era", "good", "bad"),
    [(Era.LEGACY, INITIALIZED, error(-32022)), (Era.MODERN, DISCOVERED, NO_METHOD)],
)
def test_what_the_configuration_names_is_not_doubted(
    era: Era, good: bytes, bad: bytes, verdict: Era | None
) -> None:
    assert isinstance(opening(era, verdict).answered(good, None), Use)
    found = opening(era, verdict)
    assert found.up() == Ask(era, may_die=False, silence=Silence.NEVER)
    assert found.silent() is None
    assert not found.died()
    assert isinstance(until_refused(found, bad), Refuse)
    assert found.step is Step.GIVEN


# -- a server refuses what is offered -------------------------------------------------------------


def offered(found: EraDetection, *refusals: bytes) -> Offer | None:
    """Return what is offered after these errors; ``None`` if nothing more is."""
    move: Move = found.up()
    for refusal in refusals:
        assert isinstance(move, Ask)
        move = found.answered(None, refusal)
    return move.offer if isinstance(move, Ask) else None


def refused(message: str, code: int = -32603) -> bytes:
    return json.dumps({"code": code, "message": message}).encode()


NO_FORM = refused('Unrecognized field "form"')
NO_VERSION = refused("Unsupported protocol version", -32602)


def test_a_server_that_does_not_know_a_capability_is_told_of_fewer() -> None:
    """
    Java SDKs before 0.18 refuse members of elicitation that are younger than they.
    """
    stages = [Omission.DETAILS, Omission.ELICITATION, Omission.EVERYTHING]
    for number, omission in enumerate(stages, 1):
        assert offered(guessing(), *[NO_FORM] * number) == Offer(omission=omission)


def test_nothing_is_offered_twice_that_says_the_same() -> None:
    found = EraDetection("echo", Era.LEGACY, None, {"sampling": b"{}"})
    assert offered(found, NO_FORM) == Offer(omission=Omission.EVERYTHING)


def test_a_server_that_does_not_know_the_version_is_offered_the_next_older_one() -> None:
    versions = ["2025-06-18", "2025-03-26", "2024-11-05"]
    for number, version in enumerate(versions, 1):
        assert offered(guessing(), *[NO_VERSION] * number) == Offer(version)


def test_a_server_that_names_what_it_supports_is_offered_the_newest_of_it() -> None:
    named = error(-32602, supported=["2024-11-05", "2025-03-26"], requested="2025-11-25")
    assert offered(guessing(), named) == Offer("2025-03-26")


@pytest.mark.parametrize("era", [Era.LEGACY, None])
def test_minus_32022_with_legacy_versions_alone_is_no_modern_server(era: Era | None) -> None:
    named = error(-32022, supported=["2024-11-05"])
    found = opening(era) if era is not None else guessing()
    assert offered(found, named) == Offer("2024-11-05")


def test_where_the_configuration_says_legacy_a_version_of_both_is_taken() -> None:
    named = error(-32022, supported=["2026-07-28", "2024-11-05"])
    assert offered(opening(Era.LEGACY), named) == Offer("2024-11-05")


def test_what_discover_names_is_offered_first() -> None:
    found = probed()
    move = found.answered(None, error(-32022, supported=["2025-03-26"]))
    assert move == Ask(Era.LEGACY, may_die=True, silence=Silence.NEVER, offer=Offer("2025-03-26"))


def test_a_version_and_a_capability_can_both_be_refused() -> None:
    assert offered(guessing(), NO_VERSION, NO_FORM) == Offer("2025-06-18", Omission.DETAILS)
    assert offered(guessing(), NO_FORM, NO_VERSION) == Offer("2025-06-18", Omission.DETAILS)


def test_if_no_capabilities_help_they_were_not_the_reason() -> None:
    assert offered(guessing(), *[NO_FORM] * 4) == Offer("2025-06-18")
    assert offered(guessing(), *[NO_FORM] * 5) == Offer("2025-03-26")
    assert offered(guessing(), *[NO_FORM] * 7) is None


def test_a_server_that_wants_something_else_is_offered_nothing_less() -> None:
    assert offered(guessing(), refused("no licence", -32000)) is None
    assert offered(guessing(), refused("elicitation is too new", -32000)) is not None


def test_what_was_accepted_is_remembered_and_offered_first() -> None:
    found = guessing()
    found.answered(None, NO_FORM)
    assert isinstance(found.answered(INITIALIZED, None), Use)
    assert found.verdict == Verdict(Era.LEGACY, Offer(omission=Omission.DETAILS))
    assert opening(verdict=found.verdict).up().offer.omission is Omission.DETAILS
    assert opening(Era.LEGACY, found.verdict).up().offer.omission is Omission.DETAILS


def test_what_was_accepted_and_is_no_more_is_forgotten() -> None:
    known = Verdict(Era.LEGACY, Offer("2024-11-05"))
    found = opening(Era.LEGACY, known)
    assert found.answered(None, NO_VERSION) == Ask(Era.LEGACY, False, Silence.NEVER, FULL)
    assert found.verdict is None
    found = opening(verdict=known)
    assert isinstance(found.answered(None, NO_VERSION), Again)
    assert found.up().offer == FULL


def test_a_process_that_ends_after_its_refusal_makes_room_for_one_more() -> None:
    found = guessing()
    found.answered(None, NO_FORM)
    assert found.up().may_die
    assert found.died()
    assert found.up().offer == Offer(omission=Omission.DETAILS)
    assert not found.died(), "the second death is a crash"


# -- whatever happens ---------------------------------------------------------------------------------

HAPPENINGS = ("dies", "is silent", "modern", "legacy", "error", "modern error", "nonsense")


def happens(found: EraDetection, what: str) -> bool:
    """Let something happen; tell whether the attempt goes on, with another process or this one."""
    match what:
        case "dies":
            return found.died()
        case "is silent":
            return found.silent() is not None
        case "modern" | "legacy":
            result = DISCOVERED if what == "modern" else INITIALIZED
            return not isinstance(found.answered(result, None), Use | Refuse)
        case "error":
            return not isinstance(found.answered(None, error(-32000)), Refuse)
        case "modern error":
            return not isinstance(until_refused(found, error(-32022)), Refuse)
        case _:
            return not isinstance(found.answered(b"7", None), Refuse)


@pytest.mark.parametrize("verdict", [None, *Era])
def test_no_attempt_takes_more_than_four_processes(verdict: Era | None) -> None:
    longest = 0
    for story in itertools.product(HAPPENINGS, repeat=5):
        found, processes, asks = opening(verdict=verdict), 1, 1
        for what in story:
            step = found.step
            if not happens(found, what):
                break
            asks += 1
            processes += found.step is not Step.FALLBACK
            assert found.step is not step
        else:
            pytest.fail(f"there is no end of it: {story}")
        longest = max(longest, processes)
    assert longest == (3 if verdict is None else 4)


def test_the_probe_carries_our_envelope() -> None:
    """
    A modern server refuses what carries none.
    """
    from mcpd.core.interface.entries import Entry
    from mcpd.core.upstream.own_info import client_info_for

    client_info = client_info_for(Entry(name="x", launch="x", roots=("file:///r",)), None, "1.2")
    meta = json.loads(modern.discover_params(client_info))["_meta"]
    assert meta[modern_meta.VERSION_KEY] == "2026-07-28"
    assert meta[modern_meta.CAPABILITIES_KEY] == {
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "roots": {},
    }
    assert meta[modern_meta.INFO_KEY] == {"name": "mcpd", "version": "1.2"}
