"""What processes do, as rules: they start, answer, ask, tell, and die."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mcpd.core.interface import events as ev
from mcpd.ids import SlotId
from tests.property.model.acting import ERRORS
from tests.property.model.drawing import Drawing
from tests.property.model.peers import QUESTIONS, URIS
from tests.property.model.wire import LEVELS

MAY_ASK = ("tools/call", "prompts/get", "resources/read")

SAYINGS = [
    b"{}",
    b"[]",
    b"npm notice",
    b'{"id":0,"result":{}}',
    b'{"id":null,"error":{"code":1,"message":""}}',
    b'{"method":"notifications/unheard-of"}',
    b'{"jsonrpc":"2.0","id":"x%d","method":"no/such/request"}',
]


class ServerRules(Drawing):
    """Processes of both eras."""

    # -- starting ---------------------------------------------------------------------------------

    @precondition(lambda self: self.startable() or any(map(self.is_starting, self.running())))
    @rule()
    def start_all(self) -> None:
        """Whatever is wanted comes up, and is ready, unless it is silent or dies first."""
        for _ in range(4):
            for slot in self.startable():
                self.start(slot)
            for slot in self.running():
                while slot in self.processes and self.processes[slot].own_open():
                    self.answer_own(slot, self.processes[slot].own_open()[0])
                if slot in self.processes and self.processes[slot].is_mute:
                    self.get_over_the_probe(slot)

    @precondition(lambda self: self.startable() or self.probing)
    @rule(data=st.data())
    def a_process_starts(self, data: st.DataObject) -> None:
        """Likewise, but one step of one process at a time."""
        slot = self.pick(data, sorted({*self.startable(), *self.probing}))
        if slot not in self.processes:
            self.start(slot)
        elif self.processes[slot].is_mute:
            self.get_over_the_probe(slot)
        elif not self.probing[slot]:
            self.probing[slot] = True
            self.handle(ev.ProbeRead(slot))

    def is_starting(self, slot: SlotId) -> bool:
        process = self.processes[slot]
        return process.is_mute or bool(process.own_open())

    def get_over_the_probe(self, slot: SlotId) -> None:
        if self.processes[slot].nature == "dying":
            self.lose(slot, is_planned=False, comes_back=True)
        elif self.probing.get(slot) is False:
            self.probing[slot] = True
            self.handle(ev.ProbeRead(slot))

    # -- answers ----------------------------------------------------------------------------------

    @precondition(lambda self: self.works())
    @rule(
        data=st.data(),
        how=st.sampled_from(
            ["result"] * 8 + ["error", "error", "both", "large", "bad", "odd", "task"]
        ),
        code=st.sampled_from(ERRORS),
        times=st.integers(1, 4),
    )
    def processes_answer(self, data: st.DataObject, how: str, code: int, times: int) -> None:
        for _ in range(times):
            if self.works():
                slot, number = self.pick(data, self.works())
                self.answer(slot, number, how, code)

    @precondition(lambda self: self.works())
    @rule(dice=st.randoms(use_true_random=False))
    def all_is_answered(self, dice: Random) -> None:
        """Every process does what it was asked, in any order, with some progress on the way."""
        todo = self.works()
        dice.shuffle(todo)
        for slot, number in todo:
            if slot in self.processes and (slot, number) in self.works():
                self.report_progress(slot, number)
                self.answer(slot, number)

    # -- questions --------------------------------------------------------------------------------

    @precondition(lambda self: self.wishing())
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from([*QUESTIONS]), max_size=2),
        has_state=st.booleans(),
    )
    def a_modern_process_wants_input(
        self, data: st.DataObject, kinds: list[str], has_state: bool
    ) -> None:
        slot, number = self.pick(data, self.wishing())
        self.wish(slot, number, kinds, has_state=has_state)

    def wishing(self) -> list[tuple[SlotId, int]]:
        return [
            (slot, n)
            for slot in self.running()
            if self.processes[slot].lock == "modern"
            for n, work in self.processes[slot].open.items()
            if work.call is not None and work.method in MAY_ASK
        ]

    @precondition(lambda self: self.asking_works())
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from([*QUESTIONS]), min_size=1, max_size=3),
        token=st.sampled_from([None, None, b"0", b'"t"']),
        wait=st.sampled_from([0.0, 0.0, 0.05, 2.1]),
    )
    def a_legacy_process_asks(
        self, data: st.DataObject, kinds: list[str], token: bytes | None, wait: float
    ) -> None:
        slot, work = self.pick(data, self.asking_works())
        for kind in kinds:
            if (slot, work) in self.asking_works():
                self.enquire(slot, work, kind, token=token)
        self.time_passes(wait)

    @precondition(lambda self: self.asking_works())
    @rule(
        kind=st.sampled_from(["form", "form", "sampling"]),
        dice=st.randoms(use_true_random=False),
        wait=st.sampled_from([0.0, 0.05, 2.1, 2.1]),
    )
    def legacy_processes_ask_about_everything(self, kind: str, dice: Random, wait: float) -> None:
        """Whatever is in flight asks, unless it does already."""
        todo = self.asking_works()
        dice.shuffle(todo)
        for slot, work in todo:
            if (slot, work) in self.asking_works() and not self.processes[slot].is_waiting(work):
                self.enquire(slot, work, kind, token=None)
        self.time_passes(wait)

    @precondition(lambda self: any(p.questions for p in self.processes.values()))
    @rule(data=st.data(), how=st.sampled_from(["withdraws", "gives up waiting"]))
    def a_process_gives_up_asking(self, data: st.DataObject, how: str) -> None:
        asked = [(s, q) for s in self.running() for q in self.processes[s].questions.values()]
        slot, question = self.pick(data, asked)
        if how == "withdraws":
            self.no_more(slot, question)
        elif question.call is not None and question.call.place is not None:
            self.answer(*question.call.place)

    # -- what they say unasked ---------------------------------------------------------------------

    @precondition(lambda self: any(p.is_introduced for p in self.processes.values()))
    @rule(
        data=st.data(),
        what=st.sampled_from(
            ["progress", "late", "again", "asks", "log", "log", "change", "update", "ends", "noise"]
        ),
        level=st.sampled_from(LEVELS[::2]),
        change=st.sampled_from(["tools", "prompts", "resources"]),
        uri=st.sampled_from([*URIS, "file:///c/d"]),
        noise=st.sampled_from(SAYINGS),
        kind=st.sampled_from([*QUESTIONS]),
    )
    def a_process_says_something(
        self,
        data: st.DataObject,
        what: str,
        level: str,
        change: str,
        uri: str,
        noise: bytes,
        kind: str,
    ) -> None:
        slot = self.pick(data, [s for s in self.running() if self.processes[s].is_introduced])
        process = self.processes[slot]
        over = [*process.over, process.last_id + 7]
        calls = [None, *(work for work in process.open.values() if work.call is not None)]
        match what:
            case "progress":
                self.report_progress(slot, self.pick(data, [*process.open] or over))
            case "late":
                self.report_progress(slot, self.pick(data, over))
            case "again":
                number = self.pick(data, over)
                answer = b'{"jsonrpc":"2.0","id":%d,"result":{"late":true}}' % number
                self.from_server(slot, answer)
            case "asks" if process.lock == "legacy":
                self.enquire(slot, None, kind, token=None)
            case "log":
                self.log(slot, self.pick(data, calls), level)
            case "change":
                self.tell_change(slot, change)
            case "update":
                self.tell_update(slot, uri)
            case "ends" if process.listens:
                number = self.pick(data, [*process.listens])
                self.end_listen(slot, number, gracefully=data.draw(st.booleans()))
            case _:
                self.say_nonsense(slot, noise)

    @precondition(lambda self: any(p.is_introduced for p in self.processes.values()))
    @rule(uri=st.sampled_from([*URIS, "file:///c/d"]))
    def everything_changes(self, uri: str) -> None:
        """Every process tells of a resource, and of a list."""
        for slot in self.running():
            if self.processes[slot].is_introduced:
                self.tell_update(slot, uri)
                self.tell_change(slot, "tools")
