"""Which Kubernetes the tests run against. The versions in go.mod follow this one."""

from __future__ import annotations

VERSION = "v1.36.3"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
NODE_PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubeadm")
"""What a node that is built here runs beside PROGRAMS."""


class Unavailable(Exception):
    """The programs cannot be had this way. The text says why and what would help."""
