"""Who talks to the API server: kubeconfigs, and one ServiceAccount with its own token for each identity."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path

from clusters.kube import ApiError, Json, Kube
from clusters.provider import SYSTEM_NAMESPACE, Identity

# Longer than any run. A real kubelet would renew the token; a kubeconfig holds it fast.
TOKEN_SECONDS = 24 * 3600
RBAC = "rbac.authorization.k8s.io"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read, whatever the umask (mode 0600); an older one is replaced whole."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)


def write_kubeconfig(path: Path, *, server: str, authority: bytes, user: Json) -> Path:
    """Write a kubeconfig (mode 0600) that stands alone. `authority` is a PEM; `user` as under `users[].user`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "unreserve", "cluster": {"server": server, "certificate-authority-data": encoded(authority)}}
        ],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [{"name": "unreserve", "context": {"cluster": "unreserve", "user": path.stem}}],
        "current-context": "unreserve",
    }
    write_private(path, json.dumps(content, indent=1).encode())
    return path


def encoded(content: bytes) -> str:
    """Return bytes as a kubeconfig holds them."""
    return base64.b64encode(content).decode("ascii")


def make_identity(
    kube: Kube, name: str, roles: Sequence[Json], *, server: str, authority: bytes, folder: Path
) -> Identity:
    """Make a ServiceAccount in SYSTEM_NAMESPACE, bind it to `roles` and give it a new token.

    Roles bound earlier stay; tokens given earlier stay valid. `roles` as in `Cluster.identity`.

    Raises:
        ApiError: the API server refuses the name or a role.
    """
    _create(kube, "serviceaccounts", {"metadata": {"name": name}}, SYSTEM_NAMESPACE)
    for role in roles:
        namespace = role.get("namespace")
        kind = "rolebindings" if namespace else "clusterrolebindings"
        binding = {
            "metadata": {"name": f"unreserve:{name}:{role['name']}"},
            "roleRef": {"apiGroup": RBAC, "kind": role["kind"], "name": role["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}],
        }
        _create(kube, f"{RBAC}/v1/{kind}", binding, namespace)
    request = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    answer = kube.create("serviceaccounts", request, SYSTEM_NAMESPACE, name=name, subresource="token")
    kubeconfig = write_kubeconfig(
        folder / f"{name}.kubeconfig", server=server, authority=authority, user={"token": answer["status"]["token"]}
    )
    return Identity(name, f"system:serviceaccount:{SYSTEM_NAMESPACE}:{name}", kubeconfig)


def _create(kube: Kube, resource: str, manifest: Json, namespace: str | None) -> None:
    try:
        kube.create(resource, manifest, namespace)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
