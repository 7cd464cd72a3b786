"""``python -m tests.real.definitions``: what servers of npm and PyPI list, kept as test data.

Each package is installed in a directory of its own, which is removed afterwards, and started
without an account: keys are made up. What it answers is kept as it came, one message a line, in
``tests/unit/core/catalog/corpus/servers/NAME.jsonl.gz``; the first line says what it is. Packages of
npm run no install scripts; ``--node`` and ``--python`` name what they run on. With ``uv`` on PATH
those of PyPI are installed faster.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

KEPT: Final = Path(__file__).parents[1] / "unit/core/catalog/corpus/servers"
HOME: Final = Path("/tmp/mcp-definitions")
"""Where servers live: some list the paths they were started in."""

LISTS: Final = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/templates/list", "resourceTemplates"),
}
"""Capability to method and member."""
MAX_PAGES: Final = 50
INSTALL_S: Final = 400
START_S: Final = 60
ANSWER_S: Final = 45
MAX_STDERR: Final = 4000


@dataclass(frozen=True)
class Package:
    """A package, and how its server is started."""

    registry: str
    name: str
    program: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Further requirements: what the package needs and does not say."""

    @property
    def file(self) -> str:
        return self.name.lstrip("@").replace("/", "-").lower()


class Failed(Exception):
    """The server was not installed, did not start, or did not answer."""


def npm(name: str, program: str, *args: str, **env: str) -> Package:
    return Package("npm", name, program, args, env)


def pypi(
    name: str, program: str = "", *args: str, needs: tuple[str, ...] = (), **env: str
) -> Package:
    return Package("pypi", name, program or name, args, env, needs)


OLD_SDK: Final = ("mcp<2",)


PACKAGES: Final = (
    npm("@modelcontextprotocol/server-everything", "mcp-server-everything"),
    npm("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", str(HOME)),
    npm("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    npm("@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"),
    npm("@modelcontextprotocol/server-github", "mcp-server-github"),
    npm("@modelcontextprotocol/server-gitlab", "mcp-server-gitlab", GITLAB_PERSONAL_ACCESS_TOKEN="x"),
    npm("@modelcontextprotocol/server-slack", "mcp-server-slack", SLACK_BOT_TOKEN="xoxb-x", SLACK_TEAM_ID="T1"),
    npm("@modelcontextprotocol/server-google-maps", "mcp-server-google-maps", GOOGLE_MAPS_API_KEY="x"),
    npm("@modelcontextprotocol/server-brave-search", "mcp-server-brave-search", BRAVE_API_KEY="x"),
    npm("@modelcontextprotocol/server-postgres", "mcp-server-postgres", "postgresql://localhost/x"),
    npm("@modelcontextprotocol/server-puppeteer", "mcp-server-puppeteer"),
    npm("@modelcontextprotocol/server-gdrive", "mcp-server-gdrive"),
    npm("@modelcontextprotocol/server-aws-kb-retrieval", "mcp-server-aws-kb-retrieval"),
    npm("@modelcontextprotocol/server-everart", "mcp-server-everart", EVERART_API_KEY="x"),
    npm("@playwright/mcp", "playwright-mcp"),
    npm("chrome-devtools-mcp", "chrome-devtools-mcp", "--no-usage-statistics"),
    npm("@upstash/context7-mcp", "context7-mcp"),
    npm("@notionhq/notion-mcp-server", "notion-mcp-server", NOTION_TOKEN="ntn_x"),
    npm("firecrawl-mcp", "firecrawl-mcp", FIRECRAWL_API_KEY="fc-x"),
    npm("@wonderwhy-er/desktop-commander", "desktop-commander", DESKTOP_COMMANDER_DISABLE_TELEMETRY="1"),
    npm("@stripe/mcp", "mcp", "--tools=all", "--api-key=sk_test_x"),
    npm("@sentry/mcp-server", "sentry-mcp", "--access-token=x", "--host=sentry.example"),
    npm("@supabase/mcp-server-supabase", "mcp-server-supabase", "--access-token=sbp_x"),
    npm("tavily-mcp", "tavily-mcp", TAVILY_API_KEY="tvly-x"),
    npm("exa-mcp-server", "exa-mcp-server", EXA_API_KEY="x"),
    npm("@mondaydotcomorg/monday-api-mcp", "mcp-server-monday-api", "-t", "x"),
    npm("@heroku/mcp-server", "heroku-mcp-server", HEROKU_API_KEY="x"),
    npm("@azure-devops/mcp", "mcp-server-azuredevops", "example"),
    npm("figma-developer-mcp", "figma-developer-mcp", "--figma-api-key=x", "--stdio"),
    npm("@browserbasehq/mcp-server-browserbase", "mcp-server-browserbase", BROWSERBASE_API_KEY="x", BROWSERBASE_PROJECT_ID="x", GEMINI_API_KEY="x"),
    npm("@browsermcp/mcp", "mcp-server-browsermcp"),
    npm("@apify/actors-mcp-server", "actors-mcp-server", APIFY_TOKEN="x"),
    npm("@hubspot/mcp-server", "mcp-hubspot", PRIVATE_APP_ACCESS_TOKEN="x"),
    npm("mongodb-mcp-server", "mongodb-mcp-server", MDB_MCP_TELEMETRY="disabled"),
    npm("@elastic/mcp-server-elasticsearch", "mcp-server-elasticsearch", ES_URL="http://localhost:9", ES_API_KEY="x"),
    npm("@neondatabase/mcp-server-neon", "mcp-server-neon", "start", "x"),
    npm("@dynatrace-oss/dynatrace-mcp-server", "mcp-server-dynatrace", DT_ENVIRONMENT="https://abc12345.apps.dynatrace.com", DT_PLATFORM_TOKEN="x"),
    npm("@salesforce/mcp", "sf-mcp-server", "--orgs", "ALLOW_ALL_ORGS", "--toolsets", "all", "--no-telemetry"),
    npm("@shopify/dev-mcp", "shopify-dev-mcp", OPT_OUT_INSTRUMENTATION="true"),
    npm("@sanity/mcp-server", "sanity-mcp-server", SANITY_API_TOKEN="x", SANITY_PROJECT_ID="x", SANITY_DATASET="x", MCP_USER_ROLE="developer"),
    npm("@mapbox/mcp-server", "mcp-server", MAPBOX_ACCESS_TOKEN="pk.eyJ1IjoieCJ9.x"),
    npm("mcp-server-kubernetes", "mcp-server-kubernetes"),
    npm("@circleci/mcp-server-circleci", "mcp-server-circleci", CIRCLECI_TOKEN="x", DISABLE_TELEMETRY="1"),
    npm("@cyanheads/git-mcp-server", "git-mcp-server"),
    npm("@eslint/mcp", "mcp"),
    npm("nx-mcp", "nx-mcp"),
    npm("@angular/cli", "ng", "mcp", NG_CLI_ANALYTICS="false"),
    npm("@sveltejs/mcp", "svelte-mcp"),
    npm("@21st-dev/magic", "magic", "API_KEY=x"),
    npm("shadcn", "shadcn", "mcp"),
    npm("next-devtools-mcp", "next-devtools-mcp", NEXT_TELEMETRY_DISABLED="1"),
    npm("@mui/mcp", "mcp"),
    npm("@antv/mcp-server-chart", "mcp-server-chart"),
    npm("xcodebuildmcp", "xcodebuildmcp", "mcp"),
    npm("@mobilenext/mobile-mcp", "mcp-server-mobile"),
    npm("@netlify/mcp", "netlify-mcp"),
    npm("@executeautomation/playwright-mcp-server", "playwright-mcp-server"),
    npm("n8n-mcp", "n8n-mcp", MCP_MODE="stdio", N8N_MCP_TELEMETRY_DISABLED="true", N8N_API_URL="http://localhost:9", N8N_API_KEY="x"),
    npm("@brave/brave-search-mcp-server", "brave-search-mcp-server", BRAVE_API_KEY="x"),
    npm("@perplexity-ai/mcp-server", "perplexity-mcp", PERPLEXITY_API_KEY="x"),
    npm("@pinecone-database/mcp", "pinecone-mcp", PINECONE_API_KEY="x"),
    npm("@upstash/mcp-server", "mcp-server", "--email", "a@example.com", "--api-key", "x"),
    npm("@google-cloud/cloud-run-mcp", "cloud-run-mcp"),
    npm("firebase-tools", "firebase", "mcp"),
    npm("airtable-mcp-server", "airtable-mcp-server", AIRTABLE_API_KEY="pat1.x"),
    npm("@doist/todoist-ai", "todoist-ai", TODOIST_API_KEY="x"),
    npm("@roychri/mcp-server-asana", "mcp-server-asana", ASANA_ACCESS_TOKEN="x"),
    npm("@cocal/google-calendar-mcp", "google-calendar-mcp"),
    npm("task-master-ai", "task-master-mcp", TASK_MASTER_TOOLS="all"),
    npm("@postman/postman-mcp-server", "postman-mcp-server", "--full", POSTMAN_API_KEY="PMAK-x"),
    npm("@launchdarkly/mcp-server", "mcp", "start", "--api-key", "x"),
    npm("@auth0/auth0-mcp-server", "auth0-mcp", "run"),
    npm("@line/line-bot-mcp-server", "line-bot-mcp-server", CHANNEL_ACCESS_TOKEN="x", DESTINATION_USER_ID="x"),
    npm("@baidumap/mcp-server-baidu-map", "mcp-server-baidu-map", BAIDU_MAP_API_KEY="x"),
    npm("@amap/amap-maps-mcp-server", "mcp-amap", AMAP_MAPS_API_KEY="x"),
    npm("12306-mcp", "12306-mcp"),
    npm("@larksuiteoapi/lark-mcp", "lark-mcp", "mcp", "-a", "cli_x", "-s", "x", "-l", "zh"),
    npm("@tosspayments/integration-guide-mcp", "integration-guide-mcp"),
    pypi("mcp-server-fetch"),
    pypi("mcp-server-git"),
    pypi("mcp-server-time"),
    pypi("mcp-server-sqlite", needs=OLD_SDK),
    pypi("markitdown-mcp"),
    pypi("duckduckgo-mcp-server"),
    pypi("awslabs.aws-documentation-mcp-server"),
    pypi("mcp-atlassian", "", JIRA_URL="https://example.atlassian.net", JIRA_USERNAME="x", JIRA_API_TOKEN="x", CONFLUENCE_URL="https://example.atlassian.net/wiki", CONFLUENCE_USERNAME="x", CONFLUENCE_API_TOKEN="x"),
    pypi("postgres-mcp", "", "postgresql://localhost/x", needs=OLD_SDK),
    pypi("blender-mcp"),
    pypi("serena-agent", "serena", "start-mcp-server", "--enable-web-dashboard", "false"),
    pypi("mcp-server-qdrant", "", QDRANT_LOCAL_PATH=str(HOME / "qdrant"), COLLECTION_NAME="x"),
    pypi("arxiv-mcp-server"),
    pypi("wikipedia-mcp"),
    pypi("excel-mcp-server", "excel-mcp-server", "stdio"),
    pypi("office-word-mcp-server", "word_mcp_server", needs=OLD_SDK),
    pypi("office-powerpoint-mcp-server", "ppt_mcp_server", needs=OLD_SDK),
    pypi("mcp-server-docker"),
    pypi("jupyter-mcp-server", "jupyter-mcp-server", "start", "--transport", "stdio"),
    pypi("basic-memory", "basic-memory", "mcp"),
    pypi("zotero-mcp-server", "zotero-mcp", ZOTERO_LOCAL="true"),
    pypi("ha-mcp", "ha-mcp", HOMEASSISTANT_URL="http://localhost:9", HOMEASSISTANT_TOKEN="x"),
    pypi("paper-search-mcp", needs=OLD_SDK),
    pypi("dbt-mcp", "dbt-mcp", DBT_HOST="cloud.getdbt.com", DBT_TOKEN="x", DBT_PROD_ENV_ID="1", DISABLE_DBT_CLI="true"),
    pypi("mcp-clickhouse", "", CLICKHOUSE_HOST="localhost", CLICKHOUSE_USER="x", CLICKHOUSE_PASSWORD="x"),
    pypi("redis-mcp-server"),
    pypi("elevenlabs-mcp", "", ELEVENLABS_API_KEY="x"),
    pypi("mcp-server-motherduck", "mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
    pypi("kubectl-mcp-server", "kubectl-mcp-serve", "serve"),
    pypi("mcp-server-calculator"),
    pypi("workspace-mcp", "", GOOGLE_OAUTH_CLIENT_ID="x", GOOGLE_OAUTH_CLIENT_SECRET="x"),
    pypi("meta-ads-mcp", "", META_ACCESS_TOKEN="x"),
    pypi("minimax-mcp", "", MINIMAX_API_KEY="x", MINIMAX_API_HOST="https://api.minimax.example", MINIMAX_MCP_BASE_PATH=str(HOME)),
    pypi("opensearch-mcp-server-py", "", OPENSEARCH_URL="http://localhost:9", OPENSEARCH_NO_AUTH="true"),
    pypi("mcp-neo4j-cypher", "", NEO4J_URI="bolt://localhost:9"),
    pypi("mcp-nixos"),
    pypi("30book-mcp"),
    pypi("tafsir-mcp", needs=OLD_SDK),
    pypi("kagimcp", "", KAGI_API_KEY="x"),
    pypi("caselaw-mcp", needs=OLD_SDK),
    pypi("hojokin-mcp", needs=OLD_SDK),
    pypi("atomno-mcp-fns-calc"),
    pypi("avito-mcp-ru", "", AVITO_CLIENT_ID="x", AVITO_CLIENT_SECRET="x"),
)  # fmt: skip


def run(argv: list[str], **options: Any) -> str:
    """Run a program to its end; raise Failed with its last line when it fails."""
    try:
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=INSTALL_S, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"not installed: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed(f"not installed: {lines[-1][:200] if lines else done.returncode}")
    return done.stdout


def install(package: Package, place: Path, node: str, interpreter: str) -> tuple[list[str], str]:
    """Install a package; return the command of its server, and the version."""
    if package.registry == "npm":
        run(["npm", "install", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", package.name])  # fmt: skip
        manifest = json.loads((place / "node_modules" / package.name / "package.json").read_text())
        programs = manifest.get("bin", {})
        if isinstance(programs, str):
            programs = {package.name.split("/")[-1]: programs}
        if package.program not in programs:
            raise Failed(f"no program {package.program!r}, only {', '.join(programs)}")
        script = place / "node_modules" / package.name / programs[package.program]
        return [node, str(script), *package.args], manifest["version"]
    environment = place / "venv"
    run([interpreter, "-m", "venv", "--without-pip", str(environment)])
    python = str(environment / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    if uv := shutil.which("uv"):
        pip = [uv, "pip", "install", "--quiet", "--python", python]
    run([*pip, package.name, *package.needs])
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    version = run([python, "-c", code, package.name]).strip()
    program = environment / "bin" / package.program
    if not program.exists():
        found = sorted(each.name for each in (environment / "bin").iterdir())
        raise Failed(f"no program {package.program!r}, only {', '.join(found)}")
    return [str(program), *package.args], version


class Server:
    """A server on stdio, asked one thing at a time."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            argv,
            env=env,
            cwd=HOME / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._last, self._rest = 0, b""

    def send(self, message: Json) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"ended: {self.last_words()}") from error

    def ask(self, method: str, params: Json, patience_s: float) -> bytes:
        """Return the answer as it came; what the server asks or tells is refused or left."""
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        for line in self._lines(time.monotonic() + patience_s):
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a banner
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                answer: Json = {"error": {"code": -32601, "message": "not here"}}
                if message["method"] == "roots/list":
                    answer = {"result": {"roots": []}}
                self.send({"id": message["id"], **answer})
            elif message.get("id") == self._last:
                if "error" in message:
                    raise Failed(f"{method}: {json.dumps(message['error'])[:200]}")
                return line
        raise Failed(f"{method}: no answer: {self.last_words()}")

    def _lines(self, deadline: float) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                while b"\n" in self._rest:
                    line, self._rest = self._rest.split(b"\n", 1)
                    yield line.strip()
                if selector.select(max(0.0, deadline - time.monotonic())):
                    data = os.read(self._process.stdout.fileno(), 1 << 20)
                    if not data:
                        return
                    self._rest += data

    def last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-MAX_STDERR:].decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:200] if said else "nothing on stderr"

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        self._errors.close()


def listed(server: Server) -> list[bytes]:
    """Return the answers of a server: what it says of itself, and each page of its lists."""
    capabilities = {"roots": {}, "sampling": {}, "elicitation": {}}
    about = {"name": "definitions", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}
    lines = [server.ask("initialize", params, START_S)]
    result = json.loads(lines[0])["result"]
    server.send({"method": "notifications/initialized"})
    if "tools" in result["capabilities"]:
        time.sleep(2)  # some servers register tools when a client has come
    for capability, (method, _) in LISTS.items():
        if capability not in result["capabilities"]:
            continue
        cursor: Json = {}
        for _ in range(MAX_PAGES):
            try:
                line = server.ask(method, cursor, ANSWER_S)
            except Failed:
                if capability == "tools":
                    raise
                break
            lines.append(line)
            after = json.loads(line)["result"].get("nextCursor")
            if not after:
                break
            cursor = {"cursor": after}
    return lines


def collect(package: Package, node: str, interpreter: str) -> str:
    """Install, start, list and keep one server; return what was found, in words."""
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "work").mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="definitions-") as place:
        argv, version = install(package, Path(place), node, interpreter)
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        path = f"{Path(argv[0]).parent}:{Path(node).parent}:{os.environ['PATH']}"
        env = {**kept, "PATH": path, "HOME": str(HOME), "NO_COLOR": "1", "CI": "1", **package.env}
        server = Server(argv, env)
        try:
            lines = listed(server)
        finally:
            server.close()
            shutil.rmtree(HOME, ignore_errors=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    about = {"registry": package.registry, "package": package.name, "version": version, "date": today}  # fmt: skip
    KEPT.mkdir(exist_ok=True)
    text = b"\n".join([json.dumps(about).encode(), *lines]) + b"\n"
    with open(KEPT / f"{package.file}.jsonl.gz", "wb") as file:
        file.write(gzip.compress(text, 9, mtime=0))
    counts = {member: sum(len(json.loads(each)["result"].get(member, [])) for each in lines) for _, member in LISTS.values()}  # fmt: skip
    return f"{version}: " + ", ".join(f"{n} {member}" for member, n in counts.items() if n)


def main() -> int:
    """Collect the packages named, or all; the exit status is 1 when one failed."""
    ap = argparse.ArgumentParser(prog="python -m tests.real.definitions", description=__doc__)
    ap.add_argument("names", nargs="*", metavar="PACKAGE", help="all when none is named")
    ap.add_argument("--node", default=shutil.which("node") or "node")
    ap.add_argument("--python", default=sys.executable, help="3.12 or newer for some")
    ap.add_argument("--missing", action="store_true", help="only those that are not kept yet")
    options = ap.parse_args()
    failed = 0
    for package in PACKAGES:
        if options.names and package.name not in options.names:
            continue
        if options.missing and (KEPT / f"{package.file}.jsonl.gz").exists():
            continue
        try:
            said = collect(package, options.node, options.python)
        except (Failed, ValueError, KeyError) as error:
            said, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{package.registry} {package.name} {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
