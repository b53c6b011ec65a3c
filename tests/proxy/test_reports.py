"""The public shape of what a registry reports: operators, pipelines and the admin port read these members."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import Rejection
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http, key
from tests.proxy.running import RunningProxy

CONNECTION = {"namespace", "name", "uid"}
RETIRED = {"connection", "fingerprint", "reason", "retiredAt", "inFlight", "state"}
REJECTED = {"connection", "reason", "message"}
MOUNT = {
    "connection",
    "fingerprint",
    "prefix",
    "transport",
    "ready",
    "attempted",
    "reason",
    "message",
    "phase",
    "since",
    "inFlight",
    "sessions",
    "policy",
    "server",
    "catalog",
    "lastHandshake",
    "lastError",
    "lastErrorAt",
    "exits",
    "nextRetry",
}
POLICY = {"circuit", "waiting", "refused", "retries"}
CATALOG = {"tools", "resources", "resourceTemplates", "prompts", "hash", "names", "skipped", "notices"}


async def refuse(seen: Seen) -> HttpAnswer | None:
    return HttpAnswer(503, b"closed for the day")


async def test_the_reload_result_has_its_documented_shape(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    down = await make_backend()
    down.intercept = refuse
    await proxy.apply(http("kept", backend.url), http("changed", backend.url), http("gone", backend.url))
    rejection = Rejection(connection=key("bad"), reason="PrefixConflict", message="prefix taken by team/kept")
    result = await proxy.apply(
        http("kept", backend.url),
        http("changed", backend.url, fingerprint="2"),
        http("new", down.url),
        rejected=(rejection,),
    )
    assert isinstance(result, ReloadResult)
    wire: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
    assert set(wire) == {"kept", "added", "replaced", "retired", "rejected", "skipped"}
    assert wire["kept"] == [{"namespace": "team", "name": "kept", "uid": "uid-kept"}]
    assert [each["name"] for each in wire["added"]] == ["new"]
    assert [each["name"] for each in wire["replaced"]] == ["changed"]
    assert {each["connection"]["name"]: each["reason"] for each in wire["retired"]} == {
        "changed": "Changed",
        "gone": "Removed",
    }
    assert all(set(each) == RETIRED and set(each["connection"]) == CONNECTION for each in wire["retired"])
    assert wire["rejected"] == [rejection.model_dump(mode="json", by_alias=True)]
    assert set(wire["rejected"][0]) == REJECTED
    (skipped,) = wire["skipped"]
    assert set(skipped) == {"connection", "phase", "error"}
    assert skipped["phase"] == "Initialize"
    assert "closed for the day" in skipped["error"]
    assert ReloadResult.model_validate(wire) == result


async def test_the_registry_report_has_its_documented_shape(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.resource("doc://a")
    backend.template("doc://{id}")
    backend.add_item("tools", {"name": "broken"})
    await proxy.apply(http("gone", backend.url))
    rejection = Rejection(connection=key("bad"), reason="InvalidSpec", message="spec.transport is missing")
    await proxy.apply(http("one", backend.url), rejected=(rejection,), disabled=(key("off"),))
    client = await proxy.client()
    await client.call("one_bump")

    report = proxy.registry.report()
    wire: dict[str, Any] = report.model_dump(mode="json", by_alias=True)
    assert set(wire) == {"instance", "ready", "separator", "mounts", "retired", "rejected", "disabled"}
    assert wire["instance"] == proxy.registry.instance
    assert wire["ready"] is True
    assert wire["separator"] == "_"
    (mount,) = wire["mounts"]
    assert set(mount) == MOUNT
    assert set(mount["connection"]) == CONNECTION
    assert set(mount["catalog"]) == CATALOG
    assert set(mount["policy"]) == POLICY
    assert mount["policy"]["refused"] == {"concurrency": 0, "rate": 0, "circuit": 0, "sessions": 0}
    assert mount["catalog"]["tools"] == 2
    assert mount["catalog"]["resources"] == 1
    assert mount["catalog"]["resourceTemplates"] == 1
    assert mount["catalog"]["names"] == ["one_echo", "one_bump"]
    assert mount["catalog"]["skipped"] == [{"kind": "tool", "name": "broken", "reason": "inputSchema is missing"}]
    assert mount["server"] == {"name": "scripted", "version": "1.2", "protocolVersion": "2025-11-25"}
    assert (mount["ready"], mount["attempted"], mount["reason"], mount["phase"]) == (True, True, "Ready", None)
    assert (mount["transport"], mount["prefix"], mount["fingerprint"]) == ("http", "one", "1")
    assert mount["sessions"] == 2, "the control session and the client's"
    assert mount["lastHandshake"] is not None
    assert mount["lastError"] is None
    (retired,) = wire["retired"]
    assert set(retired) == RETIRED
    assert [set(each) for each in wire["rejected"]] == [REJECTED]
    assert wire["disabled"] == [key("off").model_dump(mode="json", by_alias=True)]
    assert RegistryReport.model_validate(wire) == report


async def test_a_mount_that_is_not_up_is_reported_with_phase_reason_and_next_try(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.intercept = refuse
    await proxy.apply(http("one", backend.url))
    report = proxy.report("one")
    assert (report.ready, report.attempted, report.phase, report.reason) == (False, True, "Initialize", "Unreachable")
    assert "HTTP 503: closed for the day" in report.message
    assert report.last_error == report.message
    assert report.next_retry is not None
    assert report.server is None
    assert report.catalog.tools == 0


async def test_in_flight_calls_are_counted(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    await proxy.apply(http("one", backend.url))
    client = await proxy.client()
    calls = [asyncio.create_task(client.call("one_slow")) for _ in range(3)]
    await gate.arrived(3)
    assert proxy.report("one").in_flight == 3
    gate.open()
    await asyncio.gather(*calls)
    assert proxy.report("one").in_flight == 0
