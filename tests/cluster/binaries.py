"""Where the control plane's programs come from: etcd, kube-apiserver and kubectl.

In this order: ``KUBEBUILDER_ASSETS``, the cache, the published envtest archive, a build from Go modules. What was
fetched or built stays in the cache, keyed by version. ``python -m tests.cluster.binaries`` prepares it ahead of the
tests; parallel test workers that find nothing wait for the first of them to do it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.cluster import envtest, go_build
from tests.cluster.cache import Say, cache_root, exclusive
from tests.cluster.version import PROGRAMS, VERSION, Unavailable


def cache_folder() -> Path:
    """The folder that keeps the programs of this version between runs."""
    return cache_root() / f"kubernetes-{VERSION}"


def missing_programs(folder: Path) -> list[str]:
    """The programs that ``folder`` does not hold as executable files."""
    return [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]


def find_or_prepare(say: Say = lambda _: None) -> Path:
    """The folder that holds all programs, fetched or built first where they are missing.

    Raises Unavailable, which says what was tried and what to install.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if missing := missing_programs(Path(assets)):
            raise Unavailable(
                f"KUBEBUILDER_ASSETS={assets} holds no executable {', '.join(missing)}: point it at a folder with "
                f"{', '.join(PROGRAMS)}, or unset it to have them fetched or built"
            )
        return Path(assets)
    folder = cache_folder()
    if missing_programs(folder):
        with exclusive(folder.with_name(f".{folder.name}.lock")):
            if missing := missing_programs(folder):
                _prepare(folder, missing, say)
    return folder


def _prepare(folder: Path, missing: list[str], say: Say) -> None:
    failures: list[str] = []
    for source in (envtest.fetch, go_build.build):
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            try:
                for program in source(missing_programs(folder), Path(scratch), say):
                    folder.mkdir(exist_ok=True)
                    program.chmod(0o755)
                    program.replace(folder / program.name)
                return
            except Unavailable as error:
                failures.append(str(error))
                say(str(error))
    raise Unavailable(
        f"The tests need {', '.join(missing)} of Kubernetes {VERSION}, and none was found in {folder}.\n"
        + "".join(f"  - {failure}\n" for failure in failures)
        + "Install Go and make its module proxy reachable, or give access to GitHub releases, or put the programs into "
        "a folder and set KUBEBUILDER_ASSETS to it."
    )


if __name__ == "__main__":
    try:
        print(find_or_prepare(lambda line: print(line, file=sys.stderr, flush=True)))
    except Unavailable as error:
        sys.exit(str(error))
