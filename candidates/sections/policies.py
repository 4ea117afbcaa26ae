"""What a candidate does by itself: its timers, and what becomes of Pods when something does not come or fails."""

from typing import Annotated, Literal

from pydantic import Field

from candidates.patch import Json
from candidates.sections.values import Duration, Model, Name, Regex, Text

Outcome = Literal["requeue", "fail", "evict-and-requeue", "evict-survivors"]


class Backoff(Model):
    """Wait before a Pod is tried again."""

    initial: Duration = 1.0
    """After the first failure; doubled by each further one."""
    max: Duration = 10.0
    """Longest wait."""


class PermitPolicy(Model):
    """The wait at Permit."""

    timeout: Duration
    """How long a Pod may wait."""
    outcome: Outcome
    """What becomes of it then."""


class Answers(Model):
    """Answers of a dependency that are well-formed and of no use, as bodies of its HTTP protocol."""

    wrong_node: Text | None = None
    """Body of an answer that names a node which nobody has asked about."""
    empty: Text | None = None
    """Body of an answer in which no node passes."""


class Dependency(Model):
    """Something outside the scheduler that its decisions need."""

    process: Name | None = None
    """The process that is the dependency, where the candidate brings it."""
    address: Text | None = None
    """`host:port` where it answers plain HTTP, such as `127.0.0.1:$(port:extender)`. A process that is told it as
    `$(dependency:NAME)` can be cut off from it: the suite then stands in between."""
    on_failure: Literal["closed", "degrade"]
    """`closed`: Pods that need it wait; `degrade`: Pods that need it go on without."""
    pod: Json | None = None
    """Patch by which a Pod comes to need it. Without it, Pods with GPUs and the hard condition do."""
    binds: bool = False
    """Whether it is asked to bind Pods: then every Pod needs it."""
    degraded: Regex | None = None
    """With `degrade`: what a log, an event or a condition says of a Pod that went on without it."""
    answers: Answers = Answers()
    """What it could answer wrongly; without an `address` nothing."""
    max_age: Duration | None = None
    """Oldest snapshot that is still trusted."""


class Policies(Model):
    """Declared timers and policies. What /configz serves is read there, and compared with these."""

    backoff: Backoff | None = None
    """Wait before a Pod is tried again."""
    unschedulable_flush: Duration | None = None
    """Period after which waiting Pods are tried again without cause: keep it out of reach, it hides lost wake-ups."""
    permit: PermitPolicy | None = None
    """The wait at Permit."""
    bind_retries: Annotated[int, Field(ge=0, le=10)] | None = None
    """Binding requests that may follow a failed one for the same attempt."""
    extender_timeout: Duration | None = None
    """How long an answer of an extender is waited for."""
    dependencies: dict[Name, Dependency] = {}
    """What must be there for decisions to be made."""
