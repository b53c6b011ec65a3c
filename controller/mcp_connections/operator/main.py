"""The operator process: kopf for watching, workers for reconciling, one client for each API, and a liveness probe."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import kopf

from mcp_connections import __version__
from mcp_connections.operator import rights, watching
from mcp_connections.operator.admin_client import AdminClient
from mcp_connections.operator.cluster import CONNECTION, PROXY, Cluster, ClusterError
from mcp_connections.operator.default_proxy import ConfigMapName, DefaultProxy
from mcp_connections.operator.events import Recorder
from mcp_connections.operator.gather import proxy_key
from mcp_connections.operator.reconcile import ProxyReconciler
from mcp_connections.operator.references import References
from mcp_connections.operator.served_schema import ServedSchemas
from mcp_connections.operator.statuses import StatusWriter
from mcp_connections.operator.trigger import ProxyKey, Trigger
from mcp_connections.operator.workers import Workers

log = logging.getLogger(__name__)

DEFAULT_IMAGE = f"mcp-connections:{__version__}"
WATCH_SECONDS = 300
"""Whole seconds that one watch lasts before it is begun again where it ended. No way of falling silent lasts longer."""
LIVENESS_PATH = "/healthz"


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """How an operator runs."""

    namespaces: Sequence[str] = ()
    """Namespaces to serve. Empty: all of them."""
    image: str = DEFAULT_IMAGE
    """Image of proxy pods whose McpProxy names none."""
    liveness_port: int | None = 8080
    """Port of ``GET /healthz``, on every interface. None: no probe."""
    default_proxy: ConfigMapName | None = None
    """ConfigMap to make an McpProxy of. None: there are only those that users make."""


async def run_operator(options: OperatorOptions) -> None:
    """Serve until SIGINT or SIGTERM.

    Credentials are those of the pod's service account, else of the KUBECONFIG variable. Raises ClusterError where the
    cluster cannot be reached or used as it is; its text says what to do.
    """
    async with await Cluster.connect() as cluster, AdminClient() as admin:
        await cluster.check_resources()
        await _report_missing_rights(options, cluster)
        schemas = ServedSchemas(cluster)
        await schemas.try_refresh()
        trigger, references = Trigger(), References()
        workers = _workers(options, cluster, admin, trigger, references, schemas)
        registry = kopf.OperatorRegistry()
        default_proxy = _default_proxy(options, cluster)
        watching.register(
            registry, trigger, references, notice=default_proxy.notice if default_proxy else lambda _: None
        )
        working = asyncio.create_task(workers.run(), name="workers")
        _register_activities(registry, workers, working)
        providing = asyncio.create_task(default_proxy.run(), name="default proxy") if default_proxy else None
        stop = asyncio.Event()
        working.add_done_callback(lambda _: stop.set())
        log.info("Serving %s", ", ".join(options.namespaces) or "all namespaces")
        try:
            await kopf.operator(
                registry=registry,
                settings=_settings(),
                standalone=True,
                stop_flag=stop,
                clusterwide=not options.namespaces,
                namespaces=list(options.namespaces),
                liveness_endpoint=(
                    f"http://0.0.0.0:{options.liveness_port}{LIVENESS_PATH}" if options.liveness_port else None
                ),
            )
        finally:
            if providing is not None:
                await _end(providing)
            await _end(working)


async def _report_missing_rights(options: OperatorOptions, cluster: Cluster) -> None:
    await rights.report_missing(cluster, rights.NEEDED, options.namespaces or (None,))


def _default_proxy(options: OperatorOptions, cluster: Cluster) -> DefaultProxy | None:
    return DefaultProxy(cluster, options.default_proxy, Recorder(cluster)) if options.default_proxy else None


def _workers(
    options: OperatorOptions,
    cluster: Cluster,
    admin: AdminClient,
    trigger: Trigger,
    references: References,
    schemas: ServedSchemas,
) -> Workers:
    statuses = StatusWriter(cluster, Recorder(cluster), schemas)

    def reconciler(key: ProxyKey) -> ProxyReconciler:
        return ProxyReconciler(
            key,
            cluster=cluster,
            admin=admin,
            references=references,
            statuses=statuses,
            default_image=options.image,
        )

    async def keys() -> Iterable[ProxyKey]:
        await schemas.try_refresh()
        found: set[ProxyKey] = set()
        for namespace in options.namespaces or (None,):
            proxies, connections = await asyncio.gather(
                cluster.list_all(PROXY, namespace), cluster.list_all(CONNECTION, namespace)
            )
            found |= {ProxyKey(each["metadata"]["namespace"], each["metadata"]["name"]) for each in proxies}
            found |= set(map(proxy_key, connections))
        return found

    return Workers(trigger, keys, reconciler)


def _register_activities(registry: kopf.OperatorRegistry, workers: Workers, working: asyncio.Task[None]) -> None:
    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return await kopf.login_via_async_client(**kwargs)

    @kopf.on.probe(registry=registry, id="reconcile")
    async def probe(**_: Any) -> str:
        return liveness(workers)

    @kopf.on.cleanup(registry=registry)
    async def end_workers(**_: Any) -> None:
        # Tasks younger than kopf that are left when it ends get five seconds, and those of the workers need none.
        working.cancel()
        await asyncio.wait([working])


def liveness(workers: Workers) -> str:
    """What the liveness probe answers. Raises PermanentError while something is stuck: any other exception kopf would
    retry for minutes, and keep the probe waiting as long."""
    if stuck := workers.stuck:
        raise kopf.PermanentError(f"stuck on {', '.join(stuck)}")
    return "ok"


async def _end(working: asyncio.Task[None]) -> None:
    """Raise what the workers failed on, if that is why kopf ended."""
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    watching.select(settings)
    # kopf's own Events would be one for each thing it does.
    settings.posting.enabled = False
    # The CRDs were checked. Watching for further ones would need rights over the whole cluster.
    settings.scanning.disabled = True
    settings.peering.standalone = True
    # A watch that tells nothing looks like one that has nothing to tell. A live one brings a bookmark each minute.
    settings.watching.inactivity_timeout = 70
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + 30
    settings.networking.request_timeout = 60
    settings.networking.connect_timeout = 10
    # The default gives up, and ends the operator, after a minute of an API server that answers 5xx.
    settings.networking.error_backoffs = [1, 2, 5] + [10] * 60
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return settings


__all__ = ["DEFAULT_IMAGE", "ClusterError", "ConfigMapName", "OperatorOptions", "run_operator"]
