"""What is imported is declared in pyproject.toml, and constraints.txt pins all that an installation brings along."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"([A-Za-z0-9._-]+)==([0-9][A-Za-z0-9.+!]*)")


def imported(folder: Path) -> set[str]:
    """Top-level names of what the modules below ``folder`` import, the standard library and our own left out."""
    trees = [ast.parse(path.read_bytes()) for path in folder.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"mcp_connections", "tests"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = [LINE.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert all(matches), "every line is name==version: no addresses, no options, no ranges"
    return {canonical(match[1]): match[2] for match in matches if match}


def installed(requirement: Requirement, seen: set[tuple[str, str]], extra: str = "") -> Iterator[tuple[str, str]]:
    """Name and version of what ``requirement`` brought along, itself included."""
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
        return
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        return
    yield canonical(requirement.name), found.version
    for wanted in sorted(requirement.extras) or [""]:
        if (canonical(requirement.name), wanted) not in seen:
            seen.add((canonical(requirement.name), wanted))
            for line in found.requires or ():
                yield from installed(Requirement(line), seen, wanted)


@pytest.mark.parametrize(("folder", "extra"), [("controller", ""), ("examples", ""), ("tests", "dev")])
def test_every_import_is_declared(folder: str, extra: str) -> None:
    requirements = map(Requirement, distribution("mcp-connections").requires or ())
    declared = {
        canonical(one.name) for one in requirements if one.marker is None or one.marker.evaluate({"extra": extra})
    }
    # Each belongs to a declared one, to its very version.
    declared |= {"fastmcp-slim", "mcp-types", "pydantic-core"}
    providers = packages_distributions()
    undeclared = {
        name for name in imported(ROOT / folder) if declared.isdisjoint(map(canonical, providers.get(name, ())))
    }
    assert undeclared == set()


def test_everything_that_is_installed_is_pinned() -> None:
    tree = dict(installed(Requirement("mcp-connections[dev]"), set()))
    del tree["mcp-connections"]
    assert len(tree) > 50, "the tree of requirements was not walked"
    pinned = pins()
    assert {name: version for name, version in tree.items() if pinned.get(name) != version} == {}


def test_what_builds_the_package_is_pinned() -> None:
    assert "hatchling" in pins()
