"""Tries to list Secrets with the credentials of the pod, in each namespace named ("" for all of them).

Prints the HTTP status of each attempt as JSON; null where the pod has no credentials.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def status_in(namespace: str) -> int | None:
    """What the API server answers."""
    if not (ACCOUNT / "token").exists():
        return None
    within = f"namespaces/{namespace}/" if namespace else ""
    url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/api/v1/{within}secrets?limit=1"
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})
    try:
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    print(json.dumps([status_in(namespace) for namespace in sys.argv[1:]]))
