"""What one server lists, and how often it is asked."""

from __future__ import annotations

from mcpd.core.catalog.model import Kind
from tests.unit.core.mux.world import World

CHANGED = '>> echo {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


def world() -> World:
    made = World()
    made.run("!! server echo", "!! start echo", "!! join 1 echo")
    return made


def asked(lines: list[str]) -> int:
    return sum("tools/list" in line and line.startswith("<< echo") for line in lines)


def test_a_server_that_goes_on_about_its_list_is_asked_once_a_second():
    """
    B082: whatever it says, and whether it answers or not.
    """
    made, total = world(), 0
    for _ in range(100):
        done = made.run(CHANGED, "!! +0.1")
        total += asked(done)
        if asked(done):
            number = done[0].partition('"id":')[2].partition(",")[0]
            made.run(f'>> echo {{"jsonrpc":"2.0","id":{number},"result":{{"tools":[]}}}}')
    assert 9 <= total <= 11


def test_a_reading_that_is_under_way_is_not_begun_again():
    made = world()
    assert asked(made.run(CHANGED, "!! +0.02")) == 1
    assert asked(made.run(CHANGED, "!! +2", CHANGED, "!! +2")) == 0


def test_a_list_that_is_read_when_the_process_dies_is_read_once_more():
    """
    A list does no harm twice; a second death is final.
    """
    made = world()
    made.request(1, 1, "prompts/list")
    assert made.run("!! down echo crashed") == ["-- want echo"]
    assert any("prompts/list" in line for line in made.run("!! start echo"))
    (failed,) = made.run("!! down echo crashed")
    assert '"id":1' in failed and "server_crashed" in failed


def test_a_list_is_not_read_again_where_nothing_is():
    made = World()
    made.run("!! server echo may_repeat=false", "!! start echo", "!! join 1 echo")
    made.request(1, 1, "prompts/list")
    (failed,) = made.run("!! down echo crashed")
    assert '"id":1' in failed and "server_crashed" in failed


def test_changes_of_one_list_are_not_changes_of_another():
    made = world()
    made.request(1, 1, "prompts/list")
    made.run('>> echo {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}')
    done = made.run(CHANGED.replace("tools", "prompts"), "!! +0.02")
    assert [("prompts/list" in line) for line in done] == [True]


def test_a_change_of_resources_is_one_of_templates_too():
    made = world()
    made.request(1, 1, "resources/list")
    made.request(1, 2, "resources/templates/list")
    made.run('>> echo {"jsonrpc":"2.0","id":3,"result":{"resources":[]}}')
    made.run('>> echo {"jsonrpc":"2.0","id":4,"result":{"resourceTemplates":[]}}')
    done = made.run(CHANGED.replace("tools", "resources"), "!! +0.02")
    assert ["resources/list" in done[0], "resources/templates/list" in done[1]] == [True, True]


def modern() -> World:
    """Return a world with a modern server whose tools may be kept for five seconds."""
    made = World()
    made.run("!! server echo era=modern", "!! attach 1 echo", "!! up echo")
    made.run(
        '>> echo {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
        '"capabilities":{"tools":{}}}}'
    )
    listed = {"resultType": "complete", "tools": [], "ttlMs": 5000, "cacheScope": "public"}
    assert "-- ready echo" in made.render(made.answer("echo", 2, listed))
    return made


def hints(made: World) -> tuple[int, str]:
    return made.mux._state.upstreams[made.slot("echo")].lists.hints(Kind.TOOLS, made.now)


def test_the_time_that_a_list_may_be_kept_is_less_the_age_of_our_copy():
    made = modern()
    assert hints(made) == (5000, "public")
    made.run("!! +1.5")
    assert hints(made) == (3500, "public")
    made.run("!! +60")
    assert hints(made) == (0, "public")


def test_a_list_that_was_read_again_is_fresh_though_it_is_the_same():
    made = modern()
    made.run("!! +3", CHANGED)
    assert hints(made) == (0, "private"), "it is known to be another"
    (line,) = made.run("!! +2")
    number = int(line.partition('"id":')[2].partition(",")[0])
    made.answer("echo", number, {"tools": [], "ttlMs": 4000, "cacheScope": "public"})
    assert hints(made) == (4000, "public")


def test_a_legacy_server_gives_no_time_to_keep_anything():
    assert hints(world()) == (0, "private")
