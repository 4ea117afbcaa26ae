"""pytest-kind, and nothing else: the only module that imports it, since it is GPL-3.0-or-later and optional.

Of its class we use what creates, loads into and deletes a cluster. Its fixture deletes clusters it did not make, its
`port_forward` takes ten seconds each time, and its `api` is another client: none of them is touched.
"""

import contextlib
import importlib.util
from pathlib import Path
from typing import Any

from clusters.provider import ProviderError

REMEDY = "`make .venv/kind` installs it (requirements-kind.lock)"


def installed() -> bool:
    """Whether the extra `kind` is installed."""
    return importlib.util.find_spec("pytest_kind") is not None


def require() -> None:
    """Raise unless the extra `kind` is installed.

    Raises:
        ProviderError: it is not; the text says how to install it.
    """
    if not installed():
        raise ProviderError(f"pytest-kind is not installed; {REMEDY}")


def kind_cluster(name: str, *, kubeconfig: Path, image: str, kind: Path, kubectl: Path, folder: Path) -> Any:  # noqa: ANN401 - untyped
    """Return pytest-kind's `KindCluster` with every path given, so that it downloads nothing.

    Its constructor makes a `.pytest-kind` in the working folder: that is `folder` meanwhile.
    """
    require()
    from pytest_kind.cluster import KindCluster  # noqa: PLC0415 - optional

    with contextlib.chdir(folder):
        return KindCluster(name, kubeconfig=kubeconfig, image=image, kind_path=kind, kubectl_path=kubectl)
