"""Text survives the way into a file and out of it, and variables stay what they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.texts.interpolate import Unresolved, joined, resolve
from mcpd.config.texts.secrets import show

ENV = {"HOME": "/home/ada", "A": "$B ${B} ~ }", "B": "", "LONG_NAME": "hunter2-hunter2"}
texts = st.text(max_size=30)
odd = st.lists(
    st.sampled_from(
        ["$", "$$", "{", "}", "${", ":-", "A", "B", "env:", "~", "~/", "LONG_NAME", "x"]
    ),
    max_size=15,
).map("".join)


@given(texts | odd)
def test_text_with_its_dollar_signs_doubled_comes_back(text: str) -> None:
    assert joined(resolve("/" + text.replace("$", "$$"), ENV)) == "/" + text


@given(texts | odd)
def test_the_value_of_a_variable_is_never_read_again(value: str) -> None:
    assert joined(resolve("a${V}b$V", {"V": value})) == f"a{value}b{value}"


@given(texts | odd)
def test_a_default_with_paired_braces_comes_back(text: str) -> None:
    text = text.replace("{", "").replace("}", "").replace("$", "$$")
    written = f"/${{NOT_SET:-{{{text}}}}}/"
    assert joined(resolve(written, ENV)) == "/{" + text.replace("$$", "$") + "}/"


@given(texts | odd)
def test_any_text_has_a_value_or_a_reason(text: str) -> None:
    try:
        pieces = resolve(text, ENV)
    except Unresolved:
        return
    assert "hunter2" not in show(pieces).text
    assert "hunter2" not in show(pieces, secret=True).text
