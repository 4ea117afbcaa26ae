"""What a request asks for, which rule takes it, and what of HTTP is understood."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.proxy.request import ApiRequest, api_request, name_in
from fixtures.proxy.rules import Match, Rule, Standing

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("method", "target", "asked"),
    [
        ("GET", "/api/v1/nodes", ApiRequest("list", "nodes")),
        ("GET", "/api/v1/nodes/n1", ApiRequest("get", "nodes", "", "n1")),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=5", ApiRequest("watch", "pods", resuming=True)),
        ("GET", "/api/v1/pods?watch=1", ApiRequest("watch", "pods")),
        ("GET", "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersion=5", ApiRequest("watch", "pods")),
        ("GET", "/api/v1/pods?watch=false", ApiRequest("list", "pods")),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", ApiRequest("list", "pods", "", "p")),
        ("GET", "/api/v1/pods?fieldSelector=status.phase!=Failed", ApiRequest("list", "pods")),
        ("POST", "/api/v1/namespaces/ns/pods", ApiRequest("create", "pods", "ns")),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", ApiRequest("create", "pods/binding", "ns", "p")),
        ("POST", "/api/v1/namespaces/ns/bindings", ApiRequest("create", "bindings", "ns")),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", ApiRequest("patch", "pods/status", "ns", "p")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
         ApiRequest("update", "leases", "kube-system", "l")),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", ApiRequest("delete", "pods", "ns", "p")),
        ("DELETE", "/api/v1/namespaces/ns/pods", ApiRequest("deletecollection", "pods", "ns")),
        ("GET", "/api/v1/namespaces", ApiRequest("list", "namespaces")),
        ("GET", "/api/v1/namespaces/ns", ApiRequest("get", "namespaces", "ns", "ns")),
        ("PUT", "/api/v1/namespaces/ns/finalize", ApiRequest("update", "namespaces/finalize", "ns", "ns")),
        ("GET", "/apis/resource.k8s.io/v1/resourceslices", ApiRequest("list", "resourceslices")),
        ("GET", "/healthz", ApiRequest("get")),
        ("GET", "/apis/apps/v1", ApiRequest("get")),
        ("GET", "/", ApiRequest("get")),
    ],
)  # fmt: skip
def test_a_request_is_read_as_the_api_server_reads_it(method: str, target: str, asked: ApiRequest) -> None:
    assert api_request(method, target) == asked


@given(st.text(max_size=60))
def test_any_target_can_be_read(target: str) -> None:
    api_request("GET", target)


@given(NAMES)
def test_a_name_is_found_in_json(name: str) -> None:
    assert name_in(json.dumps({"kind": "Binding", "metadata": {"name": name}}).encode()) == name


@given(NAMES, NAMES)
def test_a_name_is_found_in_protobuf(name: str, generate: str) -> None:
    def field(number: int, content: bytes) -> bytes:
        length, size = len(content), b""
        while length > 0x7F:
            size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + content

    metadata = field(1, name.encode()) + field(2, generate.encode()) + bytes([7 << 3, 0x96, 0x01])
    type_meta = field(1, field(1, b"v1") + field(2, b"Binding"))
    assert name_in(b"k8s\x00" + type_meta + field(2, field(1, metadata) + field(2, b"target"))) == name


@given(st.binary(max_size=80))
def test_any_body_can_be_looked_into(body: bytes) -> None:
    name_in(body)
    name_in(b"k8s\x00" + body)


@pytest.mark.parametrize(
    ("resources", "resource", "fits"),
    [
        (("pods",), "pods", True),
        (("pods",), "pods/binding", False),
        (("pods/*",), "pods/binding", True),
        (("pods/binding", "bindings"), "bindings", True),
        (("*",), "leases", True),
        (("*",), "", False),
        ((), "", True),
    ],
)
def test_resources_are_meant_as_in_rbac(resources: tuple[str, ...], resource: str, *, fits: bool) -> None:
    assert Match(resources=resources).fits(ApiRequest("create", resource), "any") is fits


def test_a_name_is_looked_up_in_the_body_only_where_the_url_has_none() -> None:
    match = Match(names=("one",))
    body = b'{"metadata":{"name":"one"}}'
    assert match.fits(ApiRequest("create", "bindings", "ns"), "", body)
    assert not match.fits(ApiRequest("create", "pods/binding", "ns", "two"), "", body)
    assert not match.fits(ApiRequest("list", "pods", "ns"), "", body)


@given(
    st.builds(
        Rule, NAMES, st.builds(Match, st.tuples(NAMES), st.tuples(), st.tuples(NAMES, NAMES), resuming=st.booleans()),
        st.sampled_from(["pass", "answer", "reset", "half-close", "hang", "hold", "stall"]),
        applied=st.booleans(), delay=st.floats(0, 10), first=st.none() | st.integers(0, 5), rate=st.floats(0, 1),
    )
)  # fmt: skip
def test_a_rule_survives_being_written_down(rule: Rule) -> None:
    assert Rule.parse(json.loads(json.dumps(rule.written()))) == rule


@pytest.mark.parametrize(
    "wrong", [{}, {"id": "a"}, {"id": "a", "match": {"verb": 1}}, {"id": "a", "match": {}, "do": "explode"}]
)
def test_what_is_no_rule_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no rule"):
        Rule.parse(wrong)


def test_a_rule_counts_what_it_takes_and_nothing_else() -> None:
    standing = Standing(Rule("a", Match(("create",)), first=1))
    assert not standing.takes(ApiRequest("get"), "")
    assert standing.takes(ApiRequest("create"), "")
    assert not standing.takes(ApiRequest("create"), "")
    assert standing.taken == 1
