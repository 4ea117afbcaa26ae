"""How a candidate is brought up, what must be there before it, and what takes over when it is withdrawn."""

from typing import Annotated, Literal

from pydantic import Field

from candidates.patch import Json
from candidates.sections.values import (
    Duration,
    File,
    FileName,
    Image,
    Model,
    ModFile,
    Name,
    ObjectName,
    Package,
    Port,
    SignalName,
    Text,
    UrlPath,
    Variable,
)

DEFAULT_SCHEDULER = "default-scheduler"


class ControlPlaneSection(Model):
    """What the control plane must switch on."""

    feature_gates: dict[Text, bool] = {}
    """Feature gates of the API server and the controller manager; `$(feature-gates)` hands them to a process."""
    runtime_config: dict[Text, bool] = {}
    """API versions to serve, such as `scheduling.k8s.io/v1beta1: true`."""


class SetupObject(Model):
    """One step of the setup: an object written here, or a file of objects."""

    object: Json | None = None
    """A Kubernetes object. Its placeholders are expanded."""
    file: File | None = None
    """A YAML file, of one or more objects, applied as it is: CRDs are full of `$(...)` that is none of ours."""


class Webhooks(Model):
    """Whether the candidate brings admission webhooks."""

    need: Literal["none", "optional", "required"] = "none"
    """`required` needs `deployment.manifests`: no webhook reaches a host process."""
    disabled_by: Text | None = None
    """What switches optional ones off, in words; the switch itself belongs into `args` or `env`."""


class Readiness(Model):
    """What must answer before the process counts as ready."""

    scheme: Literal["https", "http", "tcp"] = "https"
    """`tcp` is satisfied by a listening port."""
    port: Name
    """Name of one of this process's ports."""
    path: UrlPath = "/readyz"
    """Path that answers 200 when ready."""
    timeout: Duration = 60.0
    """How long it may take."""


class Stop(Model):
    """How the process is asked to end."""

    signal: SignalName = "SIGTERM"
    """Signal that asks."""
    grace: Duration = 10.0
    """How long it may take; then it is killed."""


class Role(Model):
    """A role that the process's ServiceAccount is bound to."""

    kind: Literal["ClusterRole", "Role"]
    """`Role` binds in one namespace, `ClusterRole` everywhere."""
    name: Text
    """Name of the role."""
    namespace: ObjectName | None = None
    """Namespace of a `Role`."""


SCHEDULER_ROLES = (
    Role(kind="ClusterRole", name="system:kube-scheduler"),
    Role(kind="ClusterRole", name="system:volume-scheduler"),
    Role(kind="ClusterRole", name="system:auth-delegator"),
    Role(kind="Role", name="extension-apiserver-authentication-reader", namespace="kube-system"),
)


class Lease(Model):
    """The Lease object that instances compete for."""

    namespace: ObjectName
    """Namespace of the Lease."""
    name: ObjectName
    """Name of the Lease."""


class ShortLease(Model):
    """Shorter timers of the leader election, for scenarios alone: what they wait for is then soon over."""

    args: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Arguments that, appended after `switch`, set them."""
    lease_duration: Duration
    """As in `leaderElection`."""
    renew_deadline: Duration
    """As in `leaderElection`."""
    retry_period: Duration
    """As in `leaderElection`."""
    reason: Text
    """Why what is shown with them holds with the timers of production too."""


class LeaderElection(Model):
    """How several instances of one process agree."""

    enabled: bool = False
    """Whether the process elects with `args` as they stand."""
    switch: tuple[Text, ...] = ()
    """Arguments that, appended to `args`, turn the election on for scenarios with several instances."""
    lease: Lease
    """What they compete for."""
    lease_duration: Duration = 15.0
    """After this time without renewal others may take over."""
    renew_deadline: Duration = 10.0
    """After this time without a successful renewal the leader gives up."""
    retry_period: Duration = 2.0
    """Time between two tries."""
    on_loss: Literal["exit", "standby"] = "exit"
    """What losing the lease does: ends the process (kube-scheduler), or makes it wait again."""
    short: ShortLease | None = None
    """Timers that scenarios may use instead; without it they wait for those of production."""

    def shortened(self) -> "LeaderElection":
        """Return it with the timers that scenarios use, their arguments appended to `switch`."""
        if self.short is None:
            return self
        timers = {each: getattr(self.short, each) for each in ("lease_duration", "renew_deadline", "retry_period")}
        return self.model_copy(update=timers | {"switch": (*self.switch, *self.short.args)})


class RenderedFile(Model):
    """A file that is written into the process's private folder before its start."""

    content: str | None = None
    """The text itself, placeholders expanded."""
    source: File | None = None
    """A file to take the text from, placeholders expanded."""


class ProcessSection(Model):
    """One program on this machine."""

    name: Name
    """Name of the process, unique in this file."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Program and its first arguments: `[$(component:kube-scheduler)]`, `[$(folder)/bin/mine]`, `[python3, ...]`."""
    args: tuple[str, ...] = ()
    """Further arguments. No shell looks at them."""
    env: dict[Variable, str] = {}
    """Environment, beside PATH and a HOME in the private folder. Nothing else is inherited."""
    working_dir: Text = "$(workdir)"
    """Folder that the process starts in."""
    files: dict[FileName, RenderedFile] = {}
    """Files by name: `$(file:NAME)` is the path."""
    ports: dict[Name, Port] = {}
    """Ports by a name that is unique in this file: `auto`, or a number where the program cannot be told."""
    readiness: Readiness | None = None
    """Without it the process counts as ready when it is still alive after `warmUp`."""
    warm_up: Duration = 0.0
    """How long it needs after it is ready before it works as it should."""
    required: bool = True
    """Whether the candidate is broken without it."""
    stop: Stop = Stop()
    """How it is ended."""
    roles: tuple[Role, ...] = SCHEDULER_ROLES
    """Rights of its ServiceAccount. Roles of its own belong into `setup`."""
    leader_election: LeaderElection | None = None
    """Without it the process knows no leader election."""
    version_args: tuple[Text, ...] = ()
    """Arguments that make the program print its version, such as `[--version]`; compared with `identity.version`."""


class SchedulerWorkload(Model):
    """One workload of the manifests."""

    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"]
    """Its kind."""
    name: ObjectName
    """Its name."""


class Manifests(Model):
    """What to apply to a cluster that runs images."""

    files: Annotated[tuple[File, ...], Field(min_length=1)]
    """YAML files, applied as they are: what `helm template` prints will do. Hooks of Helm are left out."""
    namespace: ObjectName = "default"
    """Namespace of objects that name none; made if no file holds it."""
    images: tuple[Image, ...] = ()
    """Images to load into the nodes: a file as `docker save` writes it (`*.tar`), or a name that docker knows."""
    scheduler: SchedulerWorkload | None = None
    """The workload that binds Pods and answers on the endpoints, where the files hold more than one."""
    lease: Lease | None = None
    """The Lease of its leader election; needed with several replicas, since the leader alone is asked."""
    timeout: Duration = 120.0
    """How long it may take until every workload is ready."""


class Deployment(Model):
    """How the candidate is brought up: as host processes, or inside the cluster."""

    processes: tuple[ProcessSection, ...] = ()
    """Started in this order, each when the one before is ready; stopped in the reverse order."""
    manifests: Manifests | None = None
    """In place of processes: what to apply to a cluster that runs images."""
    binder: Name | None = None
    """The process that binds Pods, where that is not the first: an extender, a separate binder."""

    @property
    def binding(self) -> ProcessSection:
        """The process that binds Pods; there must be processes."""
        return next((each for each in self.processes if each.name == self.binder), self.processes[0])


class BuildSection(Model):
    """A Go program, built from source before the run: once, and kept in the cache outside the checkout."""

    folder: Text = "."
    """Folder of the module, with its `go.mod`: that of the descriptor or one below."""
    package: Package
    """Package of the program as its path in the module: `./cmd/scheduler`."""
    modfile: ModFile | None = None
    """Pins in place of `go.mod`, with the sums beside them: `kubernetes-$(kubernetes.minor).mod`."""
    tags: tuple[Text, ...] = ()
    """Build tags, such as `kubernetes$(kubernetes.minor)`."""


class Baseline(Model):
    """What to go back to."""

    scheduler_name: ObjectName = DEFAULT_SCHEDULER
    """Scheduler that takes over when the candidate is withdrawn."""
    descriptor: File | None = None
    """Descriptor of the previous version or configuration."""
