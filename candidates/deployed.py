"""A candidate that runs, however it was brought up."""

import functools
import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from candidates import document, placeholders
from candidates.descriptor import Descriptor
from candidates.loopback import Unreachable
from candidates.manifests import CRD
from candidates.patch import Json
from candidates.sections.observe import Endpoint
from clusters.kube import ApiError, ApiUnreachable, Kube
from clusters.provider import SYSTEM_NAMESPACE, Cluster

# Of a field's name, up to the next word.
LEADING_CAPITALS = re.compile(r"^(?:[A-Z]+(?![a-z])|[A-Z])")
# Seconds for a new CRD to be served, and between two looks.
CRD_SERVED = 15.0
POLL = 0.05
# Seconds for which the API server, once a CRD is Established, answers the creation of such objects that much later.
CRD_YOUNG = 2.0
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"


class DeployError(Exception):
    """The candidate cannot be brought up or down. The text names the process or object, what happened and its log."""


class ScrapeError(Exception):
    """An endpoint that the descriptor declares gave no answer, or another one than 200."""


class Deployed(ABC):
    """A candidate that runs. Made by `candidates.deploy`.

    Attributes:
        descriptor: what was deployed, as it is for this Kubernetes version.
        scheduler_names: values of `spec.schedulerName` that it serves.
        version: declared version.
        digest: `sha256:...` over everything that is tested; the same wherever the same bytes are tested.
        processes: names of what runs, in the order of their start: processes of this machine, or Pods.
        starts: how many times something of it was started: what was counted before has begun anew.
    """

    digest: str
    processes: Collection[str]
    starts = 0

    # What an endpoint that refuses a request may be lacking.
    _hint = ""

    def __init__(self, descriptor: Descriptor, cluster: Cluster) -> None:
        self.descriptor, self._cluster = descriptor, cluster
        self.scheduler_names = descriptor.scheduler_names
        self.version = placeholders.expand(descriptor.identity.version, value_of(self._known()))

    @property
    @abstractmethod
    def usernames(self) -> tuple[str, ...]:
        """API usernames of everything that runs."""

    @property
    @abstractmethod
    def username(self) -> str:
        """API username of what binds Pods."""

    @property
    @abstractmethod
    def reported_version(self) -> str | None:
        """What the running program says about its version; None where it says nothing. The last word is the version."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """What a reader of the report should know about the deployment: one sentence each."""

    @abstractmethod
    def exits(self) -> list[tuple[str, int]]:
        """Return name and exit code (negative for a signal) of everything that ended without being stopped."""

    @property
    @abstractmethod
    def probed(self) -> bool:
        """Whether what binds Pods counts as ready only once it says so: by a readiness probe of its own."""

    @abstractmethod
    def logs(self) -> dict[str, str]:
        """Return what each process or container has written so far, by its name; what it wrote before a restart too."""

    @abstractmethod
    def start(self) -> None:
        """Bring up what does not run and wait until it is ready.

        Raises:
            DeployError: something required did not come up; nothing is left running.
        """

    @abstractmethod
    def stop(self) -> Mapping[str, int]:
        """Stop everything and see it gone. Idempotent.

        Returns:
            The exit code of each process, where it is known.

        Raises:
            DeployError: something does not go.
        """

    def signal(self, process: str, number: int) -> None:
        """Send a signal to a process, and see SIGKILL and SIGSTOP take effect; `start` starts again what was killed.

        Raises:
            NotImplementedError: the candidate runs elsewhere.
        """
        raise NotImplementedError

    @abstractmethod
    def _get(self, endpoint: Endpoint) -> tuple[int, bytes]:
        """Return status and body.

        Raises:
            Unreachable: there was no usable answer.
        """

    def restart(self) -> None:
        """Stop and start everything, with the same identities.

        Raises:
            DeployError: as from `stop` and `start`.
        """
        self.stop()
        self.start()

    def metrics(self) -> str | None:
        """Return what the metrics endpoint says now, as Prometheus text; None where the descriptor declares none.

        Raises:
            ScrapeError: it gave no answer, or refused.
        """
        endpoint = self.descriptor.observe.metrics
        return self._read(endpoint).decode(errors="replace") if endpoint else None

    def config(self) -> Json | None:
        """Return the effective configuration it serves; None where the descriptor declares no endpoint for it.

        Fields are named as in its file, also where kube-scheduler (up to 1.35) serves them by the names of its source.

        Raises:
            ScrapeError: it gave no answer, refused, or sent no JSON object.
        """
        endpoint = self.descriptor.observe.config
        if not endpoint:
            return None
        try:
            served = json.loads(self._read(endpoint))
            found: Json = served.get("componentconfig", served)
        except (ValueError, AttributeError) as error:
            raise ScrapeError(f"{endpoint.path} of {self.descriptor.identity.name} is no JSON object") from error
        return spelled(found) if "Profiles" in found else found

    def health(self) -> dict[str, int | None]:
        """Return the HTTP status of each health path now; None where there is no answer."""
        answers: dict[str, int | None] = {}
        for endpoint in self.descriptor.observe.health:
            try:
                answers[endpoint.path] = self._get(endpoint)[0]
            except Unreachable:
                answers[endpoint.path] = None
        return answers

    def _read(self, endpoint: Endpoint) -> bytes:
        try:
            status, body = self._get(endpoint)
        except Unreachable as error:
            raise ScrapeError(str(error)) from error
        if status != 200:  # noqa: PLR2004
            hint = self._hint if status in (401, 403) else ""
            raise ScrapeError(f"{endpoint.path} of {self.descriptor.identity.name} answers {status}{hint}")
        return body

    def _known(self) -> dict[str, Callable[[str], str]]:
        """Return what placeholders stand for outside of processes."""
        version = self._cluster.kubernetes
        return {
            "kubernetes.version": lambda _: version,
            "kubernetes.minor": lambda _: placeholders.minor(version),
            "scheduler-name": lambda _: self.scheduler_names[0],
            "namespace": lambda _: SYSTEM_NAMESPACE,
        }

    def _setup(self) -> Iterator[tuple[Json, str]]:
        """Yield every object of the setup, and where it is written."""
        for index, step in enumerate(self.descriptor.setup):
            where = f"{self.descriptor.path}: setup[{index}]"
            if step.object is not None:
                yield placeholders.expand_all(step.object, value_of(self._known())), where
            else:
                for each in document.read_manifests(self.descriptor.folder / str(step.file)):
                    yield each.data, f"{where} ({step.file})"

    def _digest_with(self, **parts: object) -> str:
        """Digest `parts` and what every candidate has; setup as written, since its placeholders differ by run."""
        setup = [
            step.object if step.object is not None else sha256(self.descriptor.folder / str(step.file))
            for step in self.descriptor.setup
        ]
        whole = json.dumps({
            "setup": setup,
            "schedulerNames": self.scheduler_names,
            "controlPlane": self.descriptor.control_plane.model_dump(),
            **parts,
        }, sort_keys=True)  # fmt: skip
        return f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"


def value_of(known: Mapping[str, Callable[[str], str]]) -> placeholders.Lookup:
    """Return the look-up of placeholders by kind; KeyError for an unknown one."""

    def value(placeholder: str) -> str:
        kind, _, argument = placeholder.partition(":")
        return known[kind](argument)

    return value


def sha256(file: Path) -> str:
    """Digest a file; big programs only once for as long as they stay the same."""
    found = file.stat()
    return _sha256_of(file, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _sha256_of(file: Path, size: int, changed: int) -> str:  # noqa: ARG001 - the key of the cache
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def apply(kube: Kube, manifest: Json, where: str, *, namespace: str = "default") -> Json:
    """Apply one object and return it as it then is; the text of errors begins with `where`.

    Raises:
        DeployError: it is refused.
    """
    described = f"{manifest['kind']} {manifest['metadata']['name']}"
    deadline = time.monotonic() + CRD_SERVED
    while True:
        try:
            return kube.apply(manifest, namespace=namespace)
        except ApiUnreachable as error:
            raise DeployError(f"{where}: {described}: {error}") from error
        except ApiError as error:
            # A kind of a CRD that was applied just now is served a moment later, and a new namespace gets its
            # ServiceAccount then.
            unknown = error.status == 404 and "." in manifest["apiVersion"] and "namespaces" not in error.message  # noqa: PLR2004
            early = unknown or "error looking up service account" in error.message
            if not early or time.monotonic() > deadline:
                raise DeployError(f"{where}: {described} is refused: {error}") from error
            time.sleep(POLL)


def spelled(served: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON with fields as an API names them: `HTTPTimeout` is `httpTimeout`."""
    if isinstance(served, list):
        return [spelled(each) for each in served]
    if not isinstance(served, dict):
        return served
    return {LEADING_CAPITALS.sub(lambda at: at[0].lower(), key): spelled(value) for key, value in served.items()}


def wait_until_served(kube: Kube, applied: Iterable[tuple[Json, str]]) -> None:
    """Return once the kinds of new CRDs are served, and their objects created without delay.

    A candidate that creates its first object while the CRD is young would be late for a reason that is not its own.

    Args:
        kube: the administrator.
        applied: what `apply` has returned, and where each is written.

    Raises:
        DeployError: one does not become Established.
    """
    young = [(each, where) for each, where in applied if each["kind"] == CRD and not _established(each)]
    deadline = time.monotonic() + CRD_SERVED
    for each, where in young:
        name = each["metadata"]["name"]
        while not _established(kube.get(CRDS, name)):
            if time.monotonic() > deadline:
                raise DeployError(f"{where}: {CRD} {name} is not Established after {CRD_SERVED:.0f} s")
            time.sleep(POLL)
    if young:
        time.sleep(CRD_YOUNG)


def _established(crd: Json) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
