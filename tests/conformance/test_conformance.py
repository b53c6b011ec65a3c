"""The official suite: nothing that a server conforms to is lost when the proxy stands before it.

Every scenario is run against the project's own server and through ``mcp-connections serve`` over a folder with one
connection, whose empty prefix leaves names as they are; through the proxy also with the server speaking one era only,
which makes all four pairings of clients and backends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.conformance.plugin import PROPERTY
from tests.conformance.programs import started
from tests.conformance.results import Results, lost
from tests.conformance.server import Eras
from tests.conformance.suite import EXTENSIONS, REVISIONS, Suite, find_or_install

pytestmark = pytest.mark.xdist_group("conformance")

EXPECTED_FAILURES = Path(__file__).with_name("expected-failures.yaml")

ENDPOINT = {
    "2025-11-25": ("server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection"),
    "2026-07-28": ("dns-rebinding-protection", "input-required-result-unsupported-methods"),
}
"""What needs no backend at all."""

ONE_BODY = {
    "server-sse-polling:server-sse-priming-event",
    "server-sse-polling:server-sse-retry-field",
    "server-sse-polling:server-sse-disconnect-resume",
}
"""About a server that ends a call's stream and has its client come back for the answer. The proxy is that client: it
comes back itself, and answers with one JSON body, of which the suite says that these do not apply."""

UNNAMED_QUESTIONS = {
    "input-required-result-basic-elicitation:sep-2322-elicitation-incomplete",
    "input-required-result-basic-elicitation:sep-2322-elicitation-complete",
    "input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params",
}
"""About the key of a question. The questions of a backend that shakes hands have none, so the proxy numbers them."""

MANIFEST = {
    "apiVersion": "mcp-connections.io/v1alpha1",
    "kind": "McpConnection",
    "metadata": {"name": "conformance"},
}
RERUNS = 2
"""The suite waits half a second to a second for some things, which a busy machine may exceed. What it objects to is run
again, alone; only what is wrong every time counts."""

DOWN = "http://127.0.0.1:1/mcp"
"""Nobody may listen on port 1 without being root, and nobody does."""


class Runs:
    """Runs of the suite, each made once."""

    def __init__(self, suite: Suite, folder: Path, stack: ExitStack) -> None:
        self.suite = suite
        self._folder = folder
        self._stack = stack
        self.server = cache(self._server)
        self.proxy = cache(self._proxy)
        self.direct = cache(self._direct)
        self.proxied = cache(self._proxied)

    def folder(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(parents=True)
        return folder

    def _server(self, eras: Eras) -> str:
        """The URL of the server."""
        log = self.folder(f"server-{eras}") / "log.txt"
        module = "tests.conformance.server"
        return self._stack.enter_context(started(log, r"^serving (\S+)", module, "--eras", eras))

    def _proxy(self, backend: str) -> str:
        """The URL of a proxy before the server at ``backend``."""
        folder = self.folder(f"proxy-{backend.rpartition(':')[2].partition('/')[0]}")
        manifests = self.folder(f"{folder.name}/manifests")
        document = {**MANIFEST, "spec": {"prefix": "", "transport": {"http": {"url": backend}}}}
        (manifests / "conformance.yaml").write_text(json.dumps(document))
        arguments = ("serve", str(manifests), "--port", "0", "--admin-port", "0")
        pattern = r"^endpoint +(\S+)"
        return self._stack.enter_context(started(folder / "log.txt", pattern, "mcp_connections", *arguments))

    def _direct(self, revision: str) -> Results:
        def bad(results: Results) -> set[str]:
            return {key.scenario for key in results.of("FAILURE", "WARNING")} - expected_failures()

        return self._steady(self.server("both"), revision, f"direct-{revision}", bad)

    def _proxied(self, eras: Eras, revision: str) -> Results:
        direct = self.direct(revision)

        def bad(results: Results) -> set[str]:
            return {key.scenario for key in lost(direct, results) if key.short not in allowed(eras, revision)}

        return self._steady(self.proxy(self.server(eras)), revision, f"proxied-{eras}-{revision}", bad)

    def _steady(self, url: str, revision: str, name: str, bad: Callable[[Results], set[str]]) -> Results:
        """All scenarios; ``bad`` says which ones to run again."""
        results = self.suite.run(url, revision, self.folder(name))
        for attempt in range(RERUNS):
            if again := bad(results):
                newer = self.suite.run(url, revision, self.folder(f"{name}-{attempt}"), sorted(again))
                results = results.updated(newer)
        return results


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A machine that cannot have the suite fails here and is told what to install."""
    with ExitStack() as stack:
        yield Runs(find_or_install(), tmp_path_factory.mktemp("conformance"), stack)


Record = Callable[[str, object], None]


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_server_conforms_but_for_what_is_expected(runs: Runs, revision: str, record_property: Record) -> None:
    direct = runs.direct(revision)
    record_property(PROPERTY, f"{revision} direct: {direct.total()}")
    assert direct.failed == expected_failures().intersection(runs.suite.scenarios(revision))
    assert direct.of("WARNING") == {}


def test_expected_failures_are_scenarios(runs: Runs) -> None:
    known = {name for revision in REVISIONS for name in runs.suite.scenarios(revision)}
    assert expected_failures() <= known
    assert len(known) == 65


@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_is_lost_through_the_proxy(runs: Runs, revision: str, record_property: Record) -> None:
    proxied = runs.proxied("both", revision)
    record_property(PROPERTY, f"{revision} through the proxy: {proxied.total()}")
    assert_lost(runs.direct(revision), proxied, allowed("both", revision))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("eras", ["handshake", "stateless"])
def test_nothing_is_lost_between_the_eras(runs: Runs, eras: Eras, revision: str, record_property: Record) -> None:
    proxied = runs.proxied(eras, revision)
    record_property(PROPERTY, f"{revision} through the proxy, backend {eras} only: {proxied.total()}")
    assert_lost(runs.direct(revision), proxied, allowed(eras, revision))


@pytest.mark.parametrize("revision", ENDPOINT)
def test_the_endpoint_conforms_with_its_backend_down(runs: Runs, revision: str) -> None:
    found = runs.suite.run(runs.proxy(DOWN), revision, runs.folder(f"down-{revision}"), ENDPOINT[revision])
    assert {key.scenario for key in found.checks} == set(ENDPOINT[revision])
    assert found.of("FAILURE", "WARNING") == {}
    assert found.of("SUCCESS")


def expected_failures() -> set[str]:
    return set(yaml.safe_load(EXPECTED_FAILURES.read_text())["server"])


def allowed(eras: Eras, revision: str) -> set[str]:
    """The checks that mean nothing where this server stands behind the proxy."""
    if revision == "2025-11-25":
        return ONE_BODY
    return UNNAMED_QUESTIONS if revision == "2026-07-28" and eras == "handshake" else set()


def assert_lost(direct: Results, proxied: Results, meaningless: set[str]) -> None:
    """Nothing may be lost but what is said to be, and that has to be."""
    losses = lost(direct, proxied)
    assert {key: message for key, message in losses.items() if key.short not in meaningless} == {}
    assert {key.short for key in losses} == meaningless


def test_extensions_are_told_apart(runs: Runs) -> None:
    assert "tasks-lifecycle" in runs.suite.scenarios(EXTENSIONS)
    assert not set(runs.suite.scenarios(EXTENSIONS)) & set(runs.suite.scenarios("2026-07-28"))
