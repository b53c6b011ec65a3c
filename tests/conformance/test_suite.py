"""Getting the suite: from the cache, or a clear word about what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.suite import NODE, PROGRAM, VERSION, Suite, Unavailable, cache_folder, find_or_install


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mcp-connections" / f"conformance-{VERSION}"


def program(folder: Path, path: Path, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    (folder / path).chmod(0o755)


def npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An npm that does what a test wants; the folder to install into is $PREFIX."""
    find = 'while [ "$1" != --prefix ]; do shift; done; PREFIX=$2'
    program(folder, Path("npm"), f"#!/bin/sh\n{find}\n{script}\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_npm_it_says_what_to_install(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"no npm on the PATH: install Node\.js with npm"):
        find_or_install()
    assert not cache.exists()


def test_what_is_installed_is_kept(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = "#!/bin/sh\\necho '  - one [2025-11-25]'"
    made = f'mkdir -p "$PREFIX/{NODE.parent}" "$PREFIX/{PROGRAM.parent}"; touch "$PREFIX/{PROGRAM}"'
    npm(tmp_path, monkeypatch, f'{made}; printf "{node}" > "$PREFIX/{NODE}"; chmod +x "$PREFIX/{NODE}"')
    assert find_or_install().scenarios("2025-11-25") == ["one"]
    assert (cache / PROGRAM).is_file()
    (tmp_path / "npm").unlink()
    assert isinstance(find_or_install(), Suite)
    assert [path.name for path in cache.parent.iterdir() if path.is_dir()] == [cache.name], "nothing else is left"


def test_a_failed_installation_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, monkeypatch, 'mkdir "$PREFIX/half"; echo "no such package" >&2; exit 1')
    with pytest.raises(Unavailable, match="no such package"):
        find_or_install()
    npm(tmp_path, monkeypatch, 'mkdir "$PREFIX/node_modules"')
    with pytest.raises(Unavailable, match="allow npm to run the install script"):
        find_or_install()
    assert [path for path in cache.parent.iterdir() if path.is_dir()] == []


def test_the_cache_is_in_the_home_directory_unless_it_is_said_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "mcp-connections" / f"conformance-{VERSION}"
