"""Starts and stops one etcd and one kube-apiserver on free ports, ready in about three seconds.

There is no kube-controller-manager: nothing is garbage collected, namespaces never finish deleting and nobody makes
pods out of Deployments. There is no kubelet either.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from tests.cluster import credentials
from tests.cluster.leash import Leash

READY_TIMEOUT = 120.0
"""Seconds. Three on an idle machine; the rest is for a busy one."""
STOP_TIMEOUT = 20.0
KUBECTL_TIMEOUT = 90.0
ATTEMPTS = 4
"""Tries with other ports: another process may take one between our look at it and the server's bind."""
HOST = "127.0.0.1"


class NotStarted(Exception):
    """The control plane did not come up. The text holds the end of the logs."""


class ControlPlane:
    """One API server with its own etcd, certificates and tokens, all kept under ``folder``."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._leash: Leash | None = None
        self._admin_token = secrets.token_hex(16)
        self._users = {self._admin_token: ("admin", "system:masters")}
        self.url = ""
        self.ca_file = folder / "ca.crt"
        self.kubeconfig = folder / "admin.kubeconfig"

    def start(self) -> None:
        """Return once ``/readyz`` says so. Raises NotStarted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        credentials.write_certificates(self._folder, HOST)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start_once(self._folder / f"attempt-{attempt}")
                return
            except _PortTaken:
                self.stop()
        raise NotStarted(f"Every port that was free was taken before it could be used, {ATTEMPTS} times over")

    def stop(self) -> None:
        """End both servers and wait for them; the API server goes first, while its etcd still answers."""
        if self._leash is not None:
            self._leash.release()
            self._leash = None
        for name in ("kube-apiserver", "etcd"):
            process = self._processes.pop(name, None)
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002  (as subprocess.run calls it)
        check: bool = True,
        timeout: float = KUBECTL_TIMEOUT,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as cluster administrator. With ``check``, a failure is an AssertionError with its stderr."""
        done = subprocess.run(
            [str(self._binaries / "kubectl"), *args],
            input=input,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            state = "".join(self._dead())
            raise AssertionError(f"kubectl {' '.join(args)}: exit {done.returncode}\n{done.stderr}{done.stdout}{state}")
        return done

    def environment(self) -> dict[str, str]:
        """This process's environment with KUBECONFIG, and kubectl's discovery cache kept to this control plane."""
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self._folder / "cache")}

    def forget_discovery(self) -> None:
        """Have kubectl ask anew which kinds there are: it keeps what it saw for hours, also of a moment when only one
        of two new kinds was served."""
        shutil.rmtree(self._folder / "cache", ignore_errors=True)

    def kubeconfig_for(self, token: str) -> Path:
        """A kubeconfig that authenticates by ``token``, for example one of ``kubectl create token``."""
        path = self._folder / f"{secrets.token_hex(4)}.kubeconfig"
        self._write_kubeconfig(path, token)
        return path

    def log_tail(self, lines: int = 40) -> str:
        """The end of both servers' logs."""
        parts = []
        for log in sorted(self._folder.glob("attempt-*/*.log")):
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {log.parent.name}/{log.name}\n" + "\n".join(tail))
        return "\n".join(parts)

    def _start_once(self, folder: Path) -> None:
        folder.mkdir()
        client, peer, secure = _free_ports(3)
        etcd = f"http://{HOST}:{client}"
        deadline = time.monotonic() + READY_TIMEOUT
        self._spawn(
            folder,
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://{HOST}:{peer}",
        )
        self._leash = Leash(self._processes["etcd"].pid)
        # Only an etcd that is alive once its port answers is ours, and not another test run's.
        self._await(folder, "etcd", lambda: _answers(f"{etcd}/health"), deadline)
        tokens = folder / "tokens.csv"
        tokens.write_text("".join(f'{token},{user},{user},"{group}"\n' for token, (user, group) in self._users.items()))
        self._spawn(
            folder,
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--cert-dir={folder}",
            f"--tls-cert-file={self._folder / 'server.crt'}",
            f"--tls-private-key-file={self._folder / 'server.key'}",
            f"--bind-address={HOST}",
            f"--secure-port={secure}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'sa.pub'}",
            f"--service-account-signing-key-file={self._folder / 'sa.key'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
        )
        self._leash.release()
        self._leash = Leash(*(process.pid for process in self._processes.values()))
        self.url = f"https://{HOST}:{secure}"
        self._write_kubeconfig(self.kubeconfig, self._admin_token)
        self._await(
            folder,
            "kube-apiserver",
            lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0,
            deadline,
        )

    def _spawn(self, folder: Path, name: str, *flags: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(self._binaries / name), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _await(self, folder: Path, name: str, ready: Callable[[], bool], deadline: float) -> None:
        process = self._processes[name]
        while not ready():
            if process.poll() is not None:
                if "address already in use" in (folder / f"{name}.log").read_text(errors="replace"):
                    raise _PortTaken
                raise NotStarted(f"{name} ended with exit code {process.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise NotStarted(f"{name} was not ready within {READY_TIMEOUT:.0f} s\n{self.log_tail()}")
            time.sleep(0.05)
        if process.poll() is not None:
            raise _PortTaken

    def _dead(self) -> Sequence[str]:
        return [
            f"{name} is gone, exit code {process.returncode}\n{self.log_tail()}\n"
            for name, process in self._processes.items()
            if process.poll() is not None
        ]

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))


class _PortTaken(Exception):
    pass


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _free_ports(count: int) -> list[int]:
    holders = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports: list[int] = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports
