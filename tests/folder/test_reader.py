"""A folder of manifests: what it holds, and what is wrong with it."""

from __future__ import annotations

import base64
import json
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.folder.reader import Folder, FolderState
from mcp_connections.mounts.spec import HttpServer, StdioServer
from tests.folder.manifests import connection, proxy, secret, write

HEAD = "apiVersion: mcp-connections.io/v1alpha1\nkind: McpConnection\n"


def names(state: FolderState) -> list[str]:
    return [each.metadata.name for each in state.connections]


def errors(state: FolderState) -> list[str]:
    return [str(error) for error in state.errors]


def test_all_kinds_over_several_files(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", connection("beta"), secret("token", value="s3cret"), connection("alpha"))
    write(tmp_path / "b.yml", proxy(separator="."))
    write(tmp_path / "c.json", connection("gamma"))
    (tmp_path / "notes.txt").write_text("kind: [")
    (tmp_path / ".hidden.yaml").write_text("kind: [")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "d.yaml", connection("delta"))

    state = Folder(tmp_path).read()

    assert errors(state) == []
    assert names(state) == ["beta", "alpha", "gamma"]
    assert state.proxy is not None
    assert state.secret_data == {("Secret", "default", "token"): {"value": b"s3cret"}}
    assert state.desired.separator == "."
    assert [str(spec.connection) for spec in state.desired.mounts] == ["default/alpha", "default/beta", "default/gamma"]


def test_secrets_reach_headers_and_env_from_both_data_and_string_data(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        textwrap.dedent(
            f"""\
            apiVersion: v1
            kind: Secret
            metadata: {{name: token}}
            data:
              a: {base64.b64encode(b"plain-a").decode()}
              b: {base64.b64encode(b"shadowed").decode()}
            stringData:
              b: plain-b
            ---
            apiVersion: mcp-connections.io/v1alpha1
            kind: McpConnection
            metadata: {{name: remote}}
            spec:
              transport: {{http: {{url: "http://127.0.0.1:1/mcp"}}}}
              auth: {{bearer: {{secretKeyRef: {{name: token, key: a}}}}}}
            ---
            apiVersion: mcp-connections.io/v1alpha1
            kind: McpConnection
            metadata: {{name: local}}
            spec:
              transport:
                stdio:
                  command: [python3, server.py]
                  env: [{{name: KEY, valueFrom: {{secretKeyRef: {{name: token, key: b}}}}}}]
            """
        )
    )

    state = Folder(tmp_path).read()
    local, remote = state.desired.mounts

    assert errors(state) == []
    assert isinstance(local.server, StdioServer)
    assert local.server.env == {"KEY": "plain-b"}
    assert isinstance(remote.server, HttpServer)
    assert remote.server.headers == {"Authorization": "Bearer plain-a"}
    assert "plain-a" not in repr(state)
    assert "plain-b" not in repr(state.desired)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: [1\n", ":2:1: is not valid YAML"),
        (
            f"{HEAD}metadata:\n  name: a\nspec:\n  transport:\n    http:\n      url: ftp://x\n",
            ":8:7: spec.transport.http.url: must be an absolute http:// or https:// URL",
        ),
        (
            f"{HEAD}metadata:\n  name: a\nspec:\n  transport: {{stdio: {{command: [x]}}}}\n  prefx: a\n",
            ":7:3: spec.prefx: is not a known field, did you mean prefix?",
        ),
        (
            "apiVersion: mcp-connections.io/v1alpha1\nkind: McpConnection\nmetadata: {name: a}\nspec: {}\n",
            ":4:1: spec.transport: must be set",
        ),
        ("apiVersion: mcp-connections.io/v1\nkind: McpProxy\nmetadata: {name: default}\n", ":1:1: apiVersion: must be"),
        (
            "apiVersion: mcp-connections.io/v1alpha1\nkind: McpProxy\nmetadata:\n  name: other\n",
            ":4:3: metadata.name: must be default, is 'other'",
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  tls.crt: '%%%'\n",
            ":5:3: data.tls.crt: must be base64",
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {n: 1}\n",
            ":4:14: stringData.n: must be a string",
        ),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: [n]\n", ":4:1: stringData: must be an object"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", ":3:1: metadata.name: must be set"),
        ("apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}\n", ":1:1: apiVersion: must be v1"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: 1}\n",
            ":3:21: metadata.namespace: must be a string",
        ),
        (
            "kind: McpConection\napiVersion: mcp-connections.io/v1alpha1\nmetadata: {name: a}\n",
            ":1:1: kind: McpConection is not a kind of mcp-connections.io, did you mean McpConnection?",
        ),
        (
            "apiVersion: mcp-connections.io/v1alpha1\nkind: Job\n",
            ":2:1: kind: Job is not a kind of mcp-connections.io, which has McpConnection and McpProxy.",
        ),
        ("just text\n", ":1:1: kind: must be set to McpConnection, McpProxy, Secret or ConfigMap"),
        ("a: 1\n", ":1:1: kind: must be set"),
    ],
)
def test_faults_name_file_line_field_and_reason(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)

    (error,) = errors(Folder(tmp_path).read())

    assert error.startswith(f"{tmp_path / 'bad.yaml'}{expected}")


def test_all_faults_of_a_file_are_told_and_no_secret_is(tmp_path: Path) -> None:
    broken = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "hunter2!"}})
    write(tmp_path / "bad.yaml", connection("a", enabled="perhaps"), broken, connection("b", prefix="_"))

    found = errors(Folder(tmp_path).read())

    assert [error.split(": ")[1] for error in found] == ["spec.enabled", "data.k", "spec.prefix"]
    assert "hunter2" not in "".join(found)


def test_an_invalid_file_keeps_its_own_last_good_state(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(tmp_path / "a.yaml", connection("a", 1), connection("b", 2))
    write(tmp_path / "c.yaml", connection("c", 3))
    before = folder.read()

    write(tmp_path / "a.yaml", connection("a", 11), "kind: McpConnection")
    write(tmp_path / "c.yaml", connection("c", 33))
    state = folder.read()

    assert [(error.file, error.field) for error in state.errors] == [(str(tmp_path / "a.yaml"), "apiVersion")]
    assert state.desired.mounts[:2] == before.desired.mounts[:2]
    assert state.desired.mounts[2] != before.desired.mounts[2]

    write(tmp_path / "a.yaml", connection("a", 11))
    mended = folder.read()

    assert errors(mended) == []
    assert names(mended) == ["a", "c"]


def test_a_new_invalid_file_adds_nothing_and_a_deleted_one_is_dropped(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(tmp_path / "a.yaml", connection("a"), "kind: [")
    write(tmp_path / "b.yaml", connection("b"))

    assert names(folder.read()) == ["b"]

    (tmp_path / "a.yaml").unlink()
    (tmp_path / "b.yaml").unlink()

    assert folder.read() == FolderState()


def test_a_duplicate_names_both_files_and_the_first_wins(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(tmp_path / "b.yaml", connection("x", 2), connection("y"))
    assert names(folder.read()) == ["x", "y"]

    write(tmp_path / "a.yaml", connection("x", 1))
    state = folder.read()

    assert [each.spec.transport.http.url for each in state.connections if each.spec.transport.http] == [
        "http://127.0.0.1:1/mcp",
        "http://127.0.0.1:9001/mcp",
    ]
    (error,) = errors(state)
    assert error.startswith(f"{tmp_path / 'b.yaml'}:1: metadata.name: McpConnection default/x is already declared in")
    assert f"{tmp_path / 'a.yaml'}:1" in error

    (tmp_path / "a.yaml").unlink()
    assert errors(folder.read()) == []


def test_a_duplicate_within_a_file_is_a_fault_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", connection("x"), connection("x"))

    (error,) = errors(Folder(tmp_path).read())

    assert ":3:" in error
    assert "is the McpConnection default/x of line 1 again" in error


def test_equal_names_in_two_namespaces_are_two_connections(tmp_path: Path) -> None:
    other = connection("x").replace('"name": "x"', '"name": "x", "namespace": "team"')
    write(tmp_path / "a.yaml", connection("x"), other)

    state = Folder(tmp_path).read()

    first, second = state.desired.mounts
    assert (str(first.connection), first.prefix) == ("default/x", "x")
    assert (str(second.connection), second.prefix[:2]) == ("team/x", "x-")


def test_one_proxy_only(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", proxy(separator="."))
    write(tmp_path / "b.yaml", proxy().replace('"name": "default"', '"name": "default", "namespace": "team"'))

    state = Folder(tmp_path).read()

    assert state.desired.separator == "."
    (error,) = errors(state)
    assert "McpProxy team/default is already declared as McpProxy default/default in" in error


def test_other_kinds_are_left_out_with_a_note_and_lists_are_unpacked(tmp_path: Path) -> None:
    deployment = '{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}'
    listed = f'{{"apiVersion": "v1", "kind": "List", "items": [{connection("a")},\n{connection("b", enabled=1)}]}}'
    write(tmp_path / "a.yaml", connection("c"), deployment)
    write(tmp_path / "b.yaml", listed)

    state = Folder(tmp_path).read()

    assert names(state) == ["c"]
    assert state.notes == (
        f"{tmp_path / 'a.yaml'}: line 3: a Deployment is not used by mcp-connections and was left out",
    )
    (error,) = errors(state)
    assert error.startswith(f"{tmp_path / 'b.yaml'}:2:")
    assert "spec.enabled: must be true or false" in error


def test_a_folder_that_is_not_there_keeps_the_last_state(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    assert "cannot be read" in errors(Folder(path).read())[0]
    path.mkdir()
    write(path / "a.yaml", connection("a"))
    folder = Folder(path)
    folder.read()

    path.rename(tmp_path / "elsewhere")
    state = folder.read()

    assert names(state) == ["a"]
    assert "cannot be read" in errors(state)[0]


def test_an_unreadable_file_recovers_with_the_same_content(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = tmp_path / "a.yaml"
    write(path, connection("a"))
    folder.read()
    content = path.read_bytes()

    path.write_bytes(b"#" * (16 * 1024 * 1024 + 1))
    too_large = folder.read()
    path.write_bytes(content)
    state = folder.read()

    assert names(too_large) == ["a"]
    assert "is larger than 16 MiB" in errors(too_large)[0]
    assert (names(state), errors(state)) == (["a"], [])


def test_a_link_to_nowhere_and_a_directory_of_that_name_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "b.yaml").mkdir()

    assert Folder(tmp_path).read() == FolderState()


VERSIONS = st.sampled_from(["a1", "a2", "broken", "gone", "b"])


@given(history=st.lists(st.tuples(st.sampled_from(["1.yaml", "2.yaml"]), VERSIONS), max_size=8))
@settings(max_examples=40, deadline=None)
def test_the_state_follows_the_last_good_content_of_every_file(
    history: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = {"a1": connection("a", 1), "a2": connection("a", 2), "b": connection("b"), "broken": "kind: ["}
    root = tmp_path_factory.mktemp("folder")
    folder = Folder(root)
    good: dict[str, str] = {}
    for file, version in history:
        if version == "gone":
            (root / file).unlink(missing_ok=True)
            good.pop(file, None)
        else:
            write(root / file, texts[version])
            if version != "broken":
                good[file] = version
        state = folder.read()

        wanted = {version[0]: version for _, version in sorted(good.items(), reverse=True)}
        assert {each.metadata.name for each in state.connections} == set(wanted)
        urls = {each.spec.transport.http.url for each in state.connections if each.spec.transport.http}
        assert ("http://127.0.0.1:1/mcp" in urls) == (wanted.get("a") == "a1")


BEARER = {"bearerTokenRef": {"name": "token", "key": "value"}}


@pytest.mark.parametrize(
    "text",
    [
        proxy(auth=BEARER, seperator="."),
        proxy(auth=BEARER)[:-1],
        proxy(auth=BEARER).replace("McpProxy", "McpPorxy") + "\n---\nkind: [",
        proxy(auth=BEARER).replace('"kind"', '"knd"'),
        "\ufeff" + proxy(auth=BEARER) + "}",
    ],
)
def test_an_invalid_file_that_may_hide_the_proxy_is_told_apart(tmp_path: Path, text: str) -> None:
    write(tmp_path / "proxy.json", text)
    state = Folder(tmp_path).read()
    assert state.proxy_errors == state.errors != ()


def test_text_in_utf_16_may_hide_the_proxy_and_a_connection_does_not(tmp_path: Path) -> None:
    (tmp_path / "proxy.json").write_bytes(proxy(auth=BEARER).encode("utf-16"))
    write(tmp_path / "alpha.yaml", connection("alpha", proxyRef={"name": "default"}, colour="red"))
    state = Folder(tmp_path).read()
    assert [Path(each.file).name for each in state.proxy_errors] == ["proxy.json"]
    assert len(state.errors) == 2


def test_the_last_good_proxy_stays_while_another_file_may_hide_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(tmp_path / "proxy.yaml", proxy(separator="."))
    good = folder.read().proxy
    assert good is not None

    (tmp_path / "proxy.yaml").unlink()
    write(tmp_path / "settings.yaml", proxy(seperator="."))
    assert folder.read().proxy == good

    (tmp_path / "settings.yaml").unlink()
    assert folder.read().proxy is None
    write(tmp_path / "settings.yaml", proxy(seperator="."))
    assert folder.read().proxy is None


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (f"{HEAD}metadata: {{name: a}}\nspec: {{}}", {("default", "a")}),
        (f"{HEAD}metadata: {{name: a, namespace: n}}\nspec: {{}}\n---\nkind: ConfigMap", {("n", "a")}),
        ("kind: McpConnectionList\nitems: [{kind: McpConnection, metadata: {name: a}}]", {("default", "a")}),
        ("apiVersion: v1\nkind: Secret", set()),
        (f"{HEAD}spec: {{}}", None),
        (f"{HEAD}metadata: {{name: 1}}", None),
        ("apiVersion: mcp-connections.io/v1alpha1\nkind: McpConnectionList\nitems: 1", None),
        ("apiVersion: mcp-connections.io/v1\nkind: McpConection\nmetadata: {name: a}", None),
        ("metadata: {name: a}", None),
        ("[]", None),
        ("kind: [", None),
    ],
)
def test_the_connections_that_an_invalid_file_declares(
    tmp_path: Path, text: str, declared: set[tuple[str, str]] | None
) -> None:
    write(tmp_path / "good.yaml", connection("good"))
    folder = Folder(tmp_path)
    (tmp_path / "bad.yaml").write_text(text)
    (invalid,) = folder.read().invalid
    assert invalid.file == str(tmp_path / "bad.yaml")
    assert invalid.connections == declared

    (tmp_path / "bad.yaml").unlink()
    assert folder.read().invalid == ()


def test_a_folder_that_cannot_be_listed_may_have_held_anything(tmp_path: Path) -> None:
    (invalid,) = Folder(tmp_path / "missing").read().invalid
    assert invalid.connections is None


def test_all_faults_of_a_secret_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "apiVersion: v2\nkind: Secret\nmetadata: {namespace: 1}\ndata: {a: '%', b: 1}\nstringData: [c]"
    )
    found = Folder(tmp_path).read().errors
    assert [(each.line, each.field) for each in found] == [
        (1, "apiVersion"),
        (3, "metadata.name"),
        (3, "metadata.namespace"),
        (4, "data.a"),
        (4, "data.b"),
        (5, "stringData"),
    ]


def test_a_key_that_is_missing_counts_in_a_valid_file_and_not_in_an_invalid_one(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", connection("a", auth={"bearer": {"secretKeyRef": {"name": "token", "key": "value"}}}))
    write(tmp_path / "s.yaml", secret("token", value="s3cret"))
    folder = Folder(tmp_path)
    assert len(folder.read().desired.mounts) == 1

    (tmp_path / "s.yaml").write_text("kind: Secret")
    assert len(folder.read().desired.mounts) == 1

    write(tmp_path / "s.yaml", secret("token", other="s3cret"))
    desired = folder.read().desired
    assert (desired.mounts, [each.reason for each in desired.rejected]) == ((), ["KeyNotFound"])
