"""Packs the chart of a release: its version that of the product, its image the one that was just built, by digest.

python charts/package.py --repository registry.example/mcp --digest sha256:… --output dist --helm helm
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHART = Path(__file__).parent / "mcp-connections"
VERSION = Path(__file__).parents[1] / "controller" / "mcp_connections" / "__init__.py"
TIMEOUT = 120.0
"""Seconds that Helm may take."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Pack the chart of a release.")
    parser.add_argument("--repository", required=True, help="Image without tag and digest.")
    parser.add_argument("--digest", required=True, help="Its digest, sha256:…")
    parser.add_argument("--output", required=True, type=Path, help="Folder for the package.")
    parser.add_argument("--helm", default="helm", help="The Helm program.")
    options = parser.parse_args(arguments)
    found = re.search(r'__version__ = "([^"]+)"', VERSION.read_text())
    if found is None:
        print(f"{VERSION} does not say which version this is.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / CHART.name
        shutil.copytree(CHART, chart)
        values = chart / "values.yaml"
        text = _set(
            values.read_text(), "  repository: mcp-connections\n", f"  repository: {options.repository.lower()}\n"
        )
        values.write_text(_set(text, '  digest: ""\n', f"  digest: {options.digest}\n"))
        stamps = ("--version", found[1], "--app-version", found[1])
        command = [options.helm, "package", str(chart), *stamps, "--destination", str(options.output)]
        return subprocess.run(command, timeout=TIMEOUT, check=False).returncode


def _set(text: str, before: str, after: str) -> str:
    if text.count(before) != 1:
        raise SystemExit(f"values.yaml does not hold {before.strip()!r} exactly once: correct charts/package.py.")
    return text.replace(before, after)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
