"""What is written in two places is the same in both."""

from __future__ import annotations

import re

from tests.cluster.kind.product_image import ROOT
from tests.cluster.kind.versions import STOCK_BASE


def test_the_stock_base_is_that_of_the_dockerfile() -> None:
    found = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert found is not None
    assert found[1] == STOCK_BASE
