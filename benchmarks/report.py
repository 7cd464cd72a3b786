"""From figures to tables: medians, ratios within a round, targets, and what an older run had."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.routes import ROUTES

Json = dict[str, Any]


class Target(NamedTuple):
    """What a figure should be: at most ``limit``, or at least, where ``least`` says so."""

    figure: str
    text: str
    unit: str
    limit: float
    aim: float | None = None
    least: bool = False

    def is_met(self, value: float, limit: float) -> bool:
        """Tell whether a value is on the right side of a limit."""
        return value >= limit if self.least else value <= limit

    def verdict(self, value: float) -> str:
        """Say it for a table."""
        if not self.is_met(value, self.limit):
            return f"**missed** by {abs(value / self.limit - 1):.0%}"
        if self.aim is None:
            return "met"
        return "met, and the aim" if self.is_met(value, self.aim) else "met, not the aim"


TARGETS = (
    Target("p50_socket_relay", "echo p50, socket / relay", "", 1.6, 1.25),
    Target("p50_bridge_socket", "echo p50, bridge / socket", "", 1.5),
    Target("calls_10_socket_relay", "calls/s of 10 clients, socket / relay", "", 0.6, 0.8, True),
    Target("calls_100_socket_relay", "calls/s of 100 clients, socket / relay", "", 0.6, 0.8, True),
    Target("blob_16_socket_direct", "16 MiB results, socket / direct", "", 0.5, None, True),
    Target("beside_p99_ms", "echo p99 beside 16 MiB of another server, socket", " ms", 50),
    Target("first_answer_ms", "daemon's start to the first answer", " ms", 400),
    Target("daemon_pss_mb", "PSS of a daemon, 8 servers, 20 sessions", " MB", 60),
    Target("mcpctl_call_ms", "`mcpctl call`, the whole process", " ms", 150),
    Target("idle_switches", "voluntary context switches, 60 idle seconds", "", 5),
    Target("bridge_start_ms", "bridge: start to the first answer", " ms", 60),
    Target("bridge_pss_mb", "bridge: PSS", " MB", 10),
)

RATIOS = {
    "p50_socket_relay": ("echo", "p50_us", "socket", "relay"),
    "p50_bridge_socket": ("echo", "p50_us", "bridge", "socket"),
    "calls_10_socket_relay": ("calls_10", "calls_s", "socket", "relay"),
    "calls_100_socket_relay": ("calls_100", "calls_s", "socket", "relay"),
    "blob_16_socket_direct": ("blob_16", "mb_s", "socket", "direct"),
}
"""By figure: metric, which number of it, and of which two routes."""

ROWS = (
    ("echo", "p50_us", "echo p50, µs"),
    ("echo", "p99_us", "echo p99, µs"),
    ("calls_1", "calls_s", "calls/s, 1 client"),
    ("calls_10", "calls_s", "calls/s, 10 clients"),
    ("calls_10", "p99_us", "p99 of them, µs"),
    ("calls_10", "middle_cpu_us", "CPU between client and server, µs a call"),
    ("calls_100", "calls_s", "calls/s, 100 clients"),
    ("calls_100", "p99_us", "p99 of them, µs"),
    ("calls_100", "middle_cpu_us", "CPU between client and server, µs a call"),
    ("blob_1", "mb_s", "1 MiB results, MB/s"),
    ("blob_16", "mb_s", "16 MiB results, MB/s"),
    ("beside", "p50_ms", "echo p50 beside 16 MiB results of another server, ms"),
    ("beside", "p99_ms", "echo p99 beside them, ms"),
)

SINGLES = {
    "python_ms": "`python -c pass`, ms",
    "guardian_pss_mb": "PSS of the guardian, MB",
}
"""Figures without a target that help to read the others."""


def summarise(rounds: list[Json], singles: Json) -> Json:
    """Return all figures by name: value, and for those of rounds the range of their middle half."""
    figures: Json = {name: {"value": value} for name, value in singles.items()}
    for metric, number, _ in ROWS:
        for route in ROUTES:
            values = [r[metric][route][number] for r in rounds if metric in r]
            if values:
                figures[f"{metric}.{number}.{route}"] = _spread(values)
    for name, (metric, number, above, below) in RATIOS.items():
        values = [
            r[metric][above][number] / r[metric][below][number] for r in rounds if metric in r
        ]
        if values:
            figures[name] = _spread(values)
    if "beside.p99_ms.socket" in figures:
        figures["beside_p99_ms"] = figures["beside.p99_ms.socket"]
    return figures


def _spread(values: list[float]) -> Json:
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"value": statistics.median(values), "low": low, "high": high}


def noise(rounds: list[Json]) -> list[float]:
    """Return how busy others were in each measurement, as shares of a core."""
    return [
        figures["noise"] for r in rounds for routes in r.values() for figures in routes.values()
    ]


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Lay out a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def against_targets(figures: Json) -> str:
    """Return the table of what was promised."""

    def rows() -> Iterator[tuple[str, ...]]:
        for target in TARGETS:
            if target.figure not in figures:
                continue
            figure = figures[target.figure]
            least = "at least" if target.least else "at most"
            wanted = f"{least} {target.limit:g}{target.unit}"
            if target.aim is not None:
                wanted += f" (aim {target.aim:g})"
            measured = f"{_short(figure['value'])}{target.unit}{_range(figure)}"
            yield target.text, measured, wanted, target.verdict(figure["value"])

    return table(("figure", "measured", "target", ""), rows())


def by_route(figures: Json) -> str:
    """Return the table of the routes beside each other."""

    def rows() -> Iterator[tuple[str, ...]]:
        for metric, number, text in ROWS:
            names = [f"{metric}.{number}.{route}" for route in ROUTES]
            if all(name in figures for name in names):
                yield text, *(_short(figures[name]["value"]) for name in names)
        for name, text in SINGLES.items():
            if name in figures:
                yield text, _short(figures[name]["value"]), "", "", ""

    return table(("medians", *ROUTES), rows())


def against(old: Json, new: Json) -> str:
    """Return the table of the figures that both runs have, and their ratio."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name, figure in new.items():
            if name in old:
                before, after = old[name]["value"], figure["value"]
                ratio = f"{after / before:.2f}" if before else ""
                yield (
                    name,
                    f"{_short(before)}{_range(old[name])}",
                    (f"{_short(after)}{_range(figure)}"),
                    ratio,
                )

    return table(("figure", "then", "now", "now / then"), rows())


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _range(figure: Json) -> str:
    return f" ({_short(figure['low'])} to {_short(figure['high'])})" if "low" in figure else ""
