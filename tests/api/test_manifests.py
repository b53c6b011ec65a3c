"""What the models accept and refuse, and in which words."""

from __future__ import annotations

import pytest

from mcp_connections.api.parsing import InvalidManifest, parse
from tests.api.manifests import INVALID, VALID, Invalid, Valid


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_valid(case: Valid, strict: bool) -> None:
    resource = parse(case.manifest, strict=strict)

    assert resource.kind == case.kind


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.id)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_invalid(case: Invalid, strict: bool) -> None:
    with pytest.raises(InvalidManifest) as refused:
        parse(case.manifest, strict=strict)

    assert sorted(str(error) for error in refused.value.errors) == sorted(case.errors)


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
def test_what_a_model_dumps_it_reads_back(case: Valid) -> None:
    resource = parse(case.manifest)

    assert parse(resource.dump()) == resource
