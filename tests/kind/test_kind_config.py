"""What kind is told: addresses on loopback, an audit log on the host, the same control plane as the embedded one."""

import json
from pathlib import Path
from typing import Any

import pytest

from clusters import equipment
from clusters.kind import config
from clusters.provider import ControlPlane, ProviderError

LOGS = Path("/results/logs")


def rendered(minor: str = "1.37", wanted: ControlPlane | None = None) -> dict[str, Any]:
    return config.render(minor, wanted or ControlPlane(), port=20001, logs=LOGS)


def patched(minor: str) -> dict[str, Any]:
    """Return kubeadm's configuration after our patch, from the skeleton that kind writes for that minor."""
    lists = minor >= "1.36"
    skeleton: dict[str, Any] = {"extraArgs": [] if lists else {}}
    found: dict[str, Any] = {"apiServer": skeleton, "controllerManager": json.loads(json.dumps(skeleton))}
    (patch,) = rendered(minor)["kubeadmConfigPatchesJSON6902"]
    assert (patch["group"], patch["kind"]) == ("kubeadm.k8s.io", "ClusterConfiguration")
    assert patch["version"] == ("v1beta4" if lists else "v1beta3")
    for operation in json.loads(patch["patch"]):
        assert operation["op"] == "add"
        *path, last = operation["path"].strip("/").split("/")
        target: Any = found
        for part in path:
            target = target[part]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
    return found


def arguments(of: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in of} if isinstance(of, list) else of


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36", "1.37"])
def test_every_minor_gets_the_audit_log_and_the_patience_with_fake_nodes(minor: str) -> None:
    kubeadm = patched(minor)

    api_server = arguments(kubeadm["apiServer"]["extraArgs"])
    assert api_server["audit-log-mode"] == "blocking"
    assert arguments(kubeadm["controllerManager"]["extraArgs"]) == equipment.CONTROLLER_FLAGS
    assert arguments(kubeadm["etcd"]["local"]["extraArgs"]) == {"unsafe-no-fsync": "true"}
    (volume,) = kubeadm["apiServer"]["extraVolumes"]
    mounts = {m["containerPath"]: m["hostPath"] for m in rendered(minor)["nodes"][0]["extraMounts"]}
    assert mounts[api_server["audit-policy-file"]] == str(equipment.AUDIT_POLICY)
    assert mounts[api_server["audit-log-path"].rpartition("/")[0]] == str(LOGS)
    assert api_server["audit-log-path"].startswith(volume["mountPath"])


def test_it_is_reached_on_loopback_alone_and_lives_on_the_guarded_ranges() -> None:
    network = rendered()["networking"]

    assert network["apiServerAddress"] == "127.0.0.1"
    assert network["apiServerPort"] == 20001
    assert (network["serviceSubnet"], network["podSubnet"]) == ("10.96.0.0/16", "10.244.0.0/16")


def test_there_are_two_workers() -> None:
    assert [node["role"] for node in rendered()["nodes"]] == ["control-plane", "worker", "worker"]


def test_switches_of_a_candidate_are_passed_on_as_kind_spells_them() -> None:
    wanted = ControlPlane({"GenericWorkload": True, "Alpha": False}, {"scheduling.k8s.io/v1beta1": True})

    found = rendered(wanted=wanted)

    assert found["featureGates"] == {"Alpha": False, "GenericWorkload": True}
    assert found["runtimeConfig"] == {"scheduling.k8s.io/v1beta1": "true"}


def test_a_switch_that_is_none_is_refused() -> None:
    with pytest.raises(ProviderError, match="no feature gate"):
        rendered(wanted=ControlPlane({"A=true,B": True}))
