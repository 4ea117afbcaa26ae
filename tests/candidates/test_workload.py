"""How a descriptor dresses Pods, Jobs, nodes and gangs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import candidates
from candidates.patch import merged

HERE = Path(__file__).parent
POD = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "main"}, {"name": "side"}]}}
LABEL = "infra.example.com/high-speed-network"
AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
GANG = candidates.Gang("g", "ns", 3, timeout=90)


def third_party(name: str) -> candidates.Descriptor:
    return candidates.load(HERE / f"third_party/{name}.yaml")


def terms(pod: dict[str, Any]) -> list[Any]:
    found: list[Any] = pod["spec"]["affinity"]["nodeAffinity"][AFFINITY]["nodeSelectorTerms"]
    return found


@pytest.mark.parametrize("name", ["gpu-packing", "stock"])
def test_shipped_candidates_ask_for_the_network_by_required_node_affinity(name: str) -> None:
    found = candidates.load(HERE.parent.parent / f"candidates/{name}.yaml")

    pod = found.pod(POD)

    assert pod["spec"]["schedulerName"] == found.scheduler_names[0]
    assert terms(pod) == [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["true"]}]}]
    assert "affinity" not in found.pod(POD, hard=False)["spec"]
    assert POD["spec"] == {"containers": [{"name": "main"}, {"name": "side"}]}


def test_a_scenario_keeps_its_own_scheduler_name_and_affinity(written: Callable[..., Path]) -> None:
    own = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    pod = merged(POD, {
        "spec": {"schedulerName": "nobody", "affinity": {"nodeAffinity": {AFFINITY: {"nodeSelectorTerms": [own]}}}},
    })  # fmt: skip

    dressed = candidates.load(written()).pod(pod)

    assert dressed["spec"]["schedulerName"] == "nobody"
    assert [each["key"] for each in terms(dressed)[0]["matchExpressions"]] == ["zone", LABEL]
    assert len(terms(dressed)) == 1


def test_a_platform_that_enforces_the_condition_is_not_asked(written: Callable[..., Path]) -> None:
    found = candidates.load(written(more="workload: {hardNodeLabel: {key: fast, value: '1', pod: {}}}\n"))

    assert "affinity" not in found.pod(POD)["spec"]
    assert (found.workload.hard_node_label.key, found.workload.hard_node_label.value) == ("fast", "1")


def test_every_container_gets_a_resource() -> None:
    containers = third_party("hami").pod(POD)["spec"]["containers"]

    limits = {"limits": {"nvidia.com/gpumem": "16000"}}
    assert containers == [{"name": "main", "resources": limits}, {"name": "side", "resources": limits}]


def test_nodes_get_what_a_device_plugin_would_write() -> None:
    has = {"cpu": "8"}
    node = third_party("gpushare").node({"metadata": {"name": "n"}, "status": {"capacity": has}}, gpus=2)
    both = third_party("gpushare").node(
        {"metadata": {"name": "n"}, "status": {"capacity": has, "allocatable": has}}, gpus=2
    )
    handshake = third_party("hami").node({"metadata": {"name": "n"}})["metadata"]["annotations"]

    cards = {"aliyun.com/gpu-count": "8", "aliyun.com/gpu-mem": "32"}
    assert node["status"] == {"capacity": has | cards}
    assert both["status"] == {"capacity": has | cards, "allocatable": has | cards}
    assert node["metadata"]["annotations"] == {"example.com/cards": "2"}
    assert handshake["hami.io/node-handshake"].startswith("Reported 20")
    assert handshake["hami.io/node-nvidia-register"].startswith("n-GPU-0,")


@pytest.mark.parametrize(
    ("name", "place", "mark"),
    [
        ("in-tree-gang", ("spec", "schedulingGroup"), {"podGroupName": "g"}),
        ("coscheduling", ("metadata", "labels"), {"scheduling.x-k8s.io/pod-group": "g"}),
        ("volcano", ("metadata", "annotations"), {"scheduling.k8s.io/group-name": "g"}),
        ("koordinator", ("metadata", "annotations"), {
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/min-available": "3",
            "gang.scheduling.koordinator.sh/waiting-time": "90s",
        }),
        ("yunikorn", ("metadata", "annotations"), {
            "yunikorn.apache.org/task-group-name": "workers",
            "yunikorn.apache.org/task-groups":
                '[{"name": "workers", "minMember": 3, "minResource": {"nvidia.com/gpu": "1"}}]',
            "yunikorn.apache.org/schedulingPolicyParameters":
                "placeholderTimeoutInSeconds=90 gangSchedulingStyle=Hard",
        }),
    ],
)  # fmt: skip
def test_members_carry_the_mark_of_their_gang(name: str, place: tuple[str, str], mark: dict[str, str]) -> None:
    member = third_party(name).pod(POD, gang=GANG)

    assert member[place[0]][place[1]] == mark


def test_gang_objects_get_numbers_and_names() -> None:
    found = third_party("coscheduling").gang_object(GANG)

    assert found
    assert found["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 90}
    assert third_party("koordinator").gang_object(GANG) is None


SLOTS = """\
workload:
  hardNodeLabel: {pod: {metadata: {annotations: {example.com/slots: "1"}}}}
  slots:
    pod:
      metadata: {annotations: {example.com/slots: $(slots), example.com/of: $(pod.name)}}
      spec: {schedulingSlots: $(slots)}
    node: {metadata: {annotations: {example.com/slots: $(slots)}}}
    published: {resource: network.example.com/v1/networkcapacities, field: status.slots}
    owners: {resource: network.example.com/v1/networkallocations, list: spec.owners, uid: uid, amount: slots}
"""


def test_slots_are_asked_for_as_text(written: Callable[..., Path]) -> None:
    found = candidates.load(written(more=SLOTS))

    three, none, unsaid = found.pod(POD, slots=3), found.pod(POD, slots=0), found.pod(POD)

    assert three["metadata"]["annotations"] == {"example.com/slots": "3", "example.com/of": "p"}
    assert three["spec"]["schedulingSlots"] == "3"
    assert none["metadata"]["annotations"]["example.com/slots"] == "0"
    assert unsaid["metadata"]["annotations"] == {"example.com/slots": "1"}  # the hard condition alone


def test_a_node_has_the_slots_of_the_scenario_or_those_of_the_descriptor(written: Callable[..., Path]) -> None:
    node = {"metadata": {"name": "n", "annotations": {"kept": "x"}}}
    path = written(more=SLOTS)
    found = candidates.load(path)

    assert found.node(node)["metadata"]["annotations"] == {"kept": "x", "example.com/slots": "16"}
    assert found.node(node, slots=0)["metadata"]["annotations"] == {"kept": "x", "example.com/slots": "0"}
    assert found.node_slots(7) == {"metadata": {"annotations": {"example.com/slots": "7"}}}
    path.write_text(path.read_text().replace("    published:", "    perNode: 4\n    published:"))
    assert candidates.load(path).node(node)["metadata"]["annotations"]["example.com/slots"] == "4"


def test_where_slots_are_published_and_owned_is_told(written: Callable[..., Path]) -> None:
    found = candidates.load(written(more=SLOTS)).workload.slots

    assert found
    assert found.published
    assert (found.published.resource, found.published.field) == (
        "network.example.com/v1/networkcapacities", "status.slots",
    )  # fmt: skip
    assert found.owners
    assert (found.owners.list, found.owners.uid, found.owners.amount) == ("spec.owners", "uid", "slots")


def test_slots_asked_of_a_candidate_without_slots_are_refused(written: Callable[..., Path]) -> None:
    path = written()
    found = candidates.load(path)

    refused = rf"{path}: workload\.slots"
    with pytest.raises(ValueError, match=refused):
        found.pod(POD, slots=1)
    with pytest.raises(ValueError, match=refused):
        found.node({"metadata": {"name": "n"}}, slots=1)
    with pytest.raises(ValueError, match=refused):
        found.node_slots(1)
    assert found.node({"metadata": {"name": "n"}})["metadata"]["annotations"] == {}


def test_a_cause_that_nobody_names_is_never_found(written: Callable[..., Path]) -> None:
    silent = candidates.load(written())
    named = candidates.load(written(more="signals: {causes: {slots: too few .* slots}}\n"))

    assert not re.search(silent.cause("slots"), "0/3 nodes are available: 3 node(s) have too few free network slots.")
    assert re.search(named.cause("slots"), "0/3 nodes are available: 3 node(s) have too few free network slots.")


def test_a_gang_asked_of_a_candidate_without_gangs_is_refused(written: Callable[..., Path]) -> None:
    path = written()

    with pytest.raises(ValueError, match=r"candidate\.yaml: workload\.gang"):
        candidates.load(path).pod(POD, gang=GANG)


def test_gpus_are_asked_for_by_a_claim() -> None:
    found = candidates.load(HERE.parent.parent / "candidates/dra.yaml")
    gpus = {"limits": {"nvidia.com/gpu": "4", "cpu": "1"}}
    written = merged(POD, {"spec": {"containers": [{"name": "main", "resources": gpus}]}})

    pod, claim = found.by_claim(written, 4)

    assert claim["metadata"]["name"] == "p"
    assert claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 4
    assert "constraints" not in claim["spec"]["spec"]["devices"]
    assert pod["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimTemplateName": "p"}]
    main, side = (container["resources"] for container in pod["spec"]["containers"])
    assert main["limits"] == {"cpu": "1"}
    assert main["claims"] == side["claims"] == [{"name": "gpus"}]
    _, claim = found.by_claim(written, 4, together=True)
    assert claim["spec"]["spec"]["devices"]["constraints"][0]["requests"] == ["gpus"]
    assert found.device("n", 5) == {
        "name": "gpu-5", "attributes": {"numa": {"int": 1}, "nvlink": {"string": "nvlink-1"}}
    }  # fmt: skip
    assert "nvidia.com/gpu" not in found.node({"metadata": {"name": "n"}, "status": {}}, gpus=8)["status"]


def test_devices_asked_of_a_candidate_without_devices_are_refused(written: Callable[..., Path]) -> None:
    found = candidates.load(written())

    with pytest.raises(ValueError, match="describes no such devices"):
        found.by_claim(POD, 1)
    with pytest.raises(ValueError, match="describes no devices"):
        found.device("n", 0)


def test_jobs_get_their_own_patch() -> None:
    job = third_party("kueue").job({"metadata": {"name": "j"}, "spec": {"template": POD}})

    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert job["spec"]["suspend"] is True
    assert job["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert terms(job["spec"]["template"])


def test_lists_keep_what_the_scenario_wrote() -> None:
    mine = {"tolerations": [{"key": "a"}], "args": ["x"], "old": 1, "env": [{"name": "A", "value": "1"}]}
    patch = {
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "old": None,
        "env": [{"name": "A", "value": "2"}, {"name": "B"}],
    }

    assert merged(mine, patch) == {
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "args": ["x"],
        "env": [{"name": "A", "value": "2"}, {"name": "B"}],
    }


PLAIN = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "b"]), inner, max_size=3),
    max_leaves=8,
)
MANIFEST = st.dictionaries(st.sampled_from(["name", "a", "b", "c"]), PLAIN, max_size=4)


@given(MANIFEST, MANIFEST)
def test_a_patch_applied_twice_is_as_good_as_once(manifest: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merged(manifest, patch)

    assert merged(once, patch) == once
