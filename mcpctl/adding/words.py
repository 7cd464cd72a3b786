"""The words of ``mcpctl add``: where its options end, and the command of the server begins."""

from __future__ import annotations

import re

import click

ENV = ("-e", "--env")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
URL = re.compile(r"https?://\S+")
BEFORE = "mcpctl.add.before"
"""Where the context has the number of words before ``--``."""


class AddCommand(click.Command):
    """A command whose options end where the command of the server begins, ``--`` or not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` before the server's command, where it was typed without."""
        separated, before = self._separated(args)
        ctx.meta[BEFORE] = before
        return super().parse_args(ctx, separated)

    def _separated(self, args: list[str]) -> tuple[list[str], int]:
        """Return the words with ``--``, and how many of those before it are no options."""
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, click.Option)
            for name in option.opts
        }
        done: list[str] = []
        left = list(args)
        before, last = 0, ""
        while left:
            word = left.pop(0)
            if word == "--":
                return [*done, word, *left], before
            if word.startswith("-") and word != "-":
                done.append(word)
                last = word if takes_value.get(word) else ""
                if last and left:
                    done.append(left.pop(0))
            elif last in ENV and ASSIGNMENT.match(word):  # -e A=1 B=2
                done += [last, word]
            elif before and not URL.fullmatch(word):
                if "--" in left:  # clients whose commands begin without it drop the first one
                    left.remove("--")
                return [*done, "--", word, *left], before
            else:
                done.append(word)
                before += 1
        return done, before
