"""The programs are found, fetched or built in that order, once for all workers, and whole or not at all."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.cluster import binaries, envtest, go_build
from tests.cluster.cache import Say
from tests.cluster.version import PROGRAMS, VERSION, Unavailable

SUFFIXES = [
    f"{system}-{machine}.tar.gz" for system in ("linux", "darwin") for machine in ("amd64", "arm64", "ppc64le", "s390x")
]


def publish(folder: Path, *, programs: tuple[str, ...] = PROGRAMS, digest: str | None = None) -> str:
    """An index and an archive in the published layout. Returns the index's URL."""
    archive = folder / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        for program in programs:
            member = tarfile.TarInfo(f"controller-tools/envtest/{program}")
            body = f"this is {program}".encode()
            member.size = len(body)
            content.addfile(member, io.BytesIO(body))
    entry = {"hash": digest or hashlib.sha512(archive.read_bytes()).hexdigest(), "selfLink": archive.as_uri()}
    index = folder / "index.yaml"
    index.write_text(
        yaml.safe_dump({"releases": {VERSION: {f"envtest-{VERSION}-{suffix}": entry for suffix in SUFFIXES}}})
    )
    return index.as_uri()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, nothing to fetch and no Go."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(envtest, "INDEX", (tmp_path / "no-index.yaml").as_uri())
    return binaries.cache_folder()


def test_a_complete_assets_folder_is_used_as_it_is(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in PROGRAMS:
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    assert binaries.find_or_prepare() == tmp_path
    assert not cache.exists()


def test_an_incomplete_assets_folder_is_an_error_that_names_what_it_lacks(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etcd").touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    with pytest.raises(Unavailable, match=r"holds no executable kube-apiserver, kubectl"):
        binaries.find_or_prepare()


def test_a_published_archive_fills_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envtest, "INDEX", publish(tmp_path))

    assert binaries.find_or_prepare() == cache
    assert binaries.missing_programs(cache) == []
    assert (cache / "kubectl").read_text() == "this is kubectl"
    assert [path.name for path in cache.parent.iterdir() if path.is_dir()] == [cache.name]


def test_a_wrong_checksum_leaves_the_cache_empty(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envtest, "INDEX", publish(tmp_path, digest="00"))

    with pytest.raises(Unavailable, match="its index says 00"):
        binaries.find_or_prepare()
    assert not cache.exists()


def test_what_a_fetched_archive_lacks_is_tried_from_modules(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envtest, "INDEX", publish(tmp_path, programs=("etcd",)))

    with pytest.raises(Unavailable, match=r"holds no kube-apiserver(.|\n)*no go command in PATH(.|\n)*Install Go"):
        binaries.find_or_prepare()
    assert binaries.missing_programs(cache) == ["kube-apiserver", "kubectl"]


def test_parallel_workers_prepare_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[str] = []

    def build(programs: list[str], folder: Path, say: Say) -> Iterator[Path]:
        for program in programs:
            builds.append(program)
            (folder / program).write_text(program)
            yield folder / program

    monkeypatch.setattr(go_build, "build", build)

    with ThreadPoolExecutor(4) as workers:
        found = list(workers.map(lambda _: binaries.find_or_prepare(), range(4)))

    assert found == [cache] * 4
    assert builds == list(PROGRAMS)


def test_the_newest_patch_stands_in_for_an_unpublished_one() -> None:
    entries = {
        release: {f"envtest-{release}-{suffix}": {"hash": "h", "selfLink": release} for suffix in SUFFIXES}
        for release in ("v1.35.9", "v1.36.1", "v1.36.10", "v1.36.2")
    }

    assert envtest.choose({"releases": entries}, "v1.36.3")[1] == "v1.36.10"
    assert envtest.choose({"releases": entries}, "v1.36.2")[1] == "v1.36.2"


def test_an_unpublished_minor_release_is_said_to_be_missing() -> None:
    with pytest.raises(Unavailable, match=r"lists no v1\.36\.x archive"):
        envtest.choose({"releases": {}}, "v1.36.3")
