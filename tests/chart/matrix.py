"""Values that users have, and every one of the chart's settings in at least one of them."""

from __future__ import annotations

from typing import Any

MONITORING = ",".join(f"monitoring.coreos.com/v1/{kind}" for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule"))
"""What a cluster with the Prometheus operator serves."""
DIGEST = "sha256:" + "0123456789abcdef" * 4

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "operator only": {"proxy": {"create": False}, "crds": {"enabled": False}},
    "definitions that go": {"crds": {"keep": False}},
    "all namespaces": {"watchAllNamespaces": True},
    "some namespaces": {"watchNamespaces": ["apps", "team-a", "team-b", "team-a"]},
    "rights from elsewhere": {"rbac": {"create": False}, "serviceAccount": {"create": False}},
    "an account from elsewhere": {"serviceAccount": {"create": False, "name": "operators"}},
    "names": {"nameOverride": "mcp", "fullnameOverride": "agents-mcp", "serviceAccount": {"name": "agents"}},
    "an image by digest": {
        "image": {"repository": "registry.example:5000/mcp/mcp-connections", "digest": DIGEST, "pullPolicy": "Always"}
    },
    "a private image": {
        "image": {"tag": "1.2.3-rc.1", "pullSecrets": [{"name": "registry"}], "pullPolicy": "IfNotPresent"},
        "proxy": {"spec": {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}},
    },
    "labels and annotations": {
        "commonLabels": {"team": "agents", "app.kubernetes.io/name": "not-this"},
        "commonAnnotations": {"example.com/owner": "agents"},
        "serviceAccount": {"annotations": {"example.com/role": "mcp"}},
        "operator": {"podLabels": {"tier": "control"}, "podAnnotations": {"example.com/inject": "false"}},
    },
    "scheduling": {
        "operator": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
                    }
                }
            },
            "priorityClassName": "system-cluster-critical",
            "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        }
    },
    "environment": {
        "operator": {
            "logLevel": "debug",
            "logFormat": "text",
            "env": [
                {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
        }
    },
    "a scaled proxy": {
        "proxy": {
            "name": "agents",
            "autoscaling": {
                "enabled": True,
                "minReplicas": 3,
                "maxReplicas": 9,
                "targetCPUUtilizationPercentage": 50,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
            },
            "podDisruptionBudget": {"enabled": True, "maxUnavailable": "25%"},
        }
    },
    "closed networks": {
        "operator": {"networkPolicy": {"enabled": True, "apiServerPorts": [6443]}},
        "proxy": {
            "networkPolicy": {
                "enabled": True,
                "clients": [
                    {"namespaceSelector": {"matchLabels": {"team": "agents"}}},
                    {"ipBlock": {"cidr": "10.0.0.0/8"}},
                ],
                "scrapers": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            },
            "podDisruptionBudget": {"enabled": True},
        },
    },
    "networks open to clients": {"proxy": {"networkPolicy": {"enabled": True}}},
    "metrics by pod": {
        "metrics": {
            "monitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "annotations": {"grafana_folder": "MCP"}},
        }
    },
    "metrics by service": {"metrics": {"monitor": {"enabled": True, "kind": "ServiceMonitor"}}},
    "a proxy with a token": {
        "proxy": {
            "spec": {
                "replicas": 2,
                "auth": {"bearerTokenRef": {"name": "clients", "key": "token"}},
                "service": {"type": "LoadBalancer", "port": 9000},
            }
        },
        "test": {"timeoutSeconds": 30},
    },
    "a proxy with web tokens": {
        "proxy": {
            "spec": {
                "auth": {
                    "jwt": {"issuer": "https://id.example", "audience": "mcp", "jwksUri": "https://id.example/keys"}
                },
                "separator": ".",
                "startPolicy": "Strict",
            }
        }
    },
    "within another chart": {"global": {"imageRegistry": "registry.example"}},
}
