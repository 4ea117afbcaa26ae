"""Schedulers that are wrong in one known way, and the requirement that must catch each."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.proof.descriptors import (
    Json,
    beside_stock,
    dra,
    extender,
    ignorable,
    overwriting,
    reference,
    stock,
    stock_unheard_when_built_for,
    stock_with,
    through_shim,
    toy,
    toy_bound_by_extender,
    toy_taking_back,
    unheard,
)


@dataclass(frozen=True)
class Variant:
    """One wrong scheduler.

    Attributes:
        name: as in the column `variant` of suites/requirements.yaml.
        wrong: what it does, as a sentence without its subject.
        descriptor: what it is.
        caught_by: requirements that must fail, each with a regular expression that a failing message must match.
        collateral: requirements that may fail too, each with the reason; it may be a matter of timing.
        run: requirements to run, where those of `caught_by` alone do not do: an invariant has no scenario of its own,
            and INV-4 is judged only where a scenario holds up to its end.
    """

    name: str
    wrong: str
    descriptor: Json
    caught_by: Mapping[str, str]
    collateral: Mapping[str, str] = field(default_factory=dict)
    run: tuple[str, ...] = ()

    def selected(self) -> tuple[str, ...]:
        """Return the requirements to run: those that catch it, and a few others that must pass.

        Running the whole sample with each would double the time, so each gets a part of it, always the same.
        """
        sample, start = WIDER if "gang" in self.descriptor.get("claims", {}) else SAMPLE, zlib.crc32(self.name.encode())
        turned = [sample[(start + step) % len(sample)] for step in range(len(sample))]
        others = [name for name in turned if name not in (*self.collateral, *self.caught_by)][:OTHERS]
        return tuple(dict.fromkeys([*(self.run or self.caught_by), *others]))


# What no variant may fail unless it says why: cheap ones of several families; the same for one that claims gangs, slots
# and the platform's word; and how many to run with each variant.
SAMPLE = ("HARD-1", "CAP-6", "WAKE-5", "OBS-6", "ISO-1")
WIDER = ("HARD-1", "WAKE-8", "CAP-6", "GANG-7", "WAKE-5", "HARD-11", "OBS-6", "OBS-7", "ISO-1")
OTHERS = 1

AT_BINDING = "the same binding, judged as an invariant"
AFTERWARDS = "kube-scheduler's own deviation: what it says of a Pod whose bind failed and that is bound all the same"
FULL = "its nodes are full, which this scheduler does not see"
NOT_ELIGIBLE = r"seen: .*bound to .*, which is not eligible: .*{}"
NOT_BOUND = r"expected: Pod .* bound to .*\nseen: .* is not bound; .*{}"
SLOTS_HELD = r"free slots can be used .*\nseen: .* is refused: .*too few free network slots"
NEEDED = "it needs node label infra.example.com/high-speed-network='true'"
PROVOKED = "its attempts are provoked by a node that is added"
UNTOLD = "nothing says why its Pods wait, nor that they were tried"
DURATIONS = "scheduler_framework_extension_point_duration_seconds"
SWITCHED_BACK = "Pods? .* names? 'default-scheduler'\nseen: .* names 'toy'"
AFFINITY = "required node affinity infra.example.com/high-speed-network In"

VARIANTS = (
    # The stock scheduler, configured wrongly.
    Variant(
        "ignore-taint",
        "does not look at taints",
        stock("TaintToleration"),
        {"HARD-9": NOT_ELIGIBLE.format("taint example.com/maintenance")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "overcommit",
        "does not look at what a node has left",
        stock("NodeResourcesFit"),
        {
            "CAP-4": r"requested \d+ of 8 allocatable nvidia.com/gpu",
            "CAP-6": NOT_ELIGIBLE.format("request 9 nvidia.com"),
            "CONF-4": NOT_ELIGIBLE.format("request 16 nvidia.com/gpu, it has 8"),
        },
        {"HARD-1": FULL, "WAKE-5": FULL, "OBS-6": FULL},
        run=("CAP-4", "CAP-6", "CONF-4", "ISO-1"),
    ),
    Variant(
        "sum-overflows",
        "adds requests up in 64 bits and does not notice that they wrap, as kube-scheduler is up to 1.37",
        stock(),
        {"ROB-5": NOT_ELIGIBLE.format("its Pods request 18446744073709551614 nvidia.com/gpu")},
    ),
    Variant(
        "overwrites-profiles",
        "brings its own scores into the default profile too",
        overwriting(),
        {"ISO-7": r"pluginConfig.NodeResourcesFit.args.scoringStrategy.type: LeastAllocated became MostAllocated"},
    ),
    Variant(
        "merged-durations",
        "exposes the durations of all extension points as those of one",
        stock_with(f"--allow-metric-labels={DURATIONS},extension_point='Filter,Score'"),
        {"OBS-3": "seen: .*none of PreFilter, .*exposed are extension_point=.unexpected."},
    ),
    Variant(
        "open-metrics",
        "shows its metrics to everybody, and declares that it does not",
        stock_with("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"),
        {"OBS-8": r"/metrics, declared as wanting a token, refuses who shows none .*\nseen: .*of nobody .* 200"},
    ),
    Variant(
        "swallowed-log",
        "keeps to itself what it writes and how it ends",
        unheard("stock.yaml"),
        {
            "ROB-3": "says that the right to write events is missing: in its log.*\nseen: .*none of its 0 lines",
            "ROB-4": "says that the right to write leases is missing: in its log.*\nseen: .*none of its 0 lines",
        },
    ),
    Variant(
        "silent-refusal",
        "does not say why it refuses its configuration",
        unheard("reference.yaml"),
        {"CONF-6": "is refused at the start, by its name\nseen: .*ended without saying so"},
    ),
    Variant(
        "silent-on-skew",
        "ends without a word, as if nothing were wrong, where it was built for the minor before (1.36)",
        stock_unheard_when_built_for("1.36"),
        {"ROLL-9": r"built for 1.36 it comes up on v1.37.*, or says why not\nseen: .*exited with code 0"},
    ),
    # The stock scheduler with an extender, configured wrongly.
    Variant(
        "ignorable",
        "goes on without an extender that a hard condition rests on",
        ignorable(),
        {"DEP-6": r"waits while network is down\nseen: .*marks the extender network as ignorable: true.*In production"},
        {"INV-1": AT_BINDING, "DEP-1": "so it does in every other outage"},
        run=("DEP-6",),
    ),
    Variant(
        "takes-any-node",
        "takes a node for an answer that it has not asked about",
        through_shim("takes-any-node", whole_nodes=True),
        {"DEP-1": r"network, which it needs, fails: wrong node\nseen: .*bound to nobody-asked-about-this-node"},
        {},
    ),
    Variant(
        "never-degrades",
        "lets a Pod wait for a dependency that it may go on without",
        extender("locality", ignorable=False),
        {"DEP-3": NOT_BOUND.format("SchedulerError")},
    ),
    Variant(
        "fail-open",
        "lets every node pass when the dependency cannot be asked",
        through_shim("fail-open"),
        {"DEP-1": r"never bound while network, which it needs, fails: hang\nseen: +it was bound to"},
    ),
    Variant(
        "fail-open-on-garbage",
        "lets every node pass when the dependency's answer cannot be read",
        through_shim("fail-open-on-garbage"),
        {"DEP-1": r"never bound while network, which it needs, fails: garbage\nseen: +it was bound to"},
    ),
    Variant(
        "no-retry-after-error",
        "refuses a Pod for ever once the dependency could not be asked about it",
        through_shim("no-retry-after-error"),
        {"DEP-2": NOT_BOUND.format("it is refused")},
    ),
    # The stock scheduler with GPUs as devices.
    Variant(
        "topology-blind",
        "asks for no domain where the devices of a Pod are to be of one",
        dra(together=False),
        {"CAP-3": r"expected: Pod .* unscheduled, .*\nseen: .*it was bound to"},
    ),
    Variant(
        "binds-without-devices",
        "binds Pods without writing down which devices are theirs",
        dra(plugins={"preBind": {"disabled": [{"name": "DynamicResources"}]}}),
        {
            "INV-6": "was bound to .*, and its ResourceClaim .* had no devices",
            "WAKE-6": r"owns 8 devices of its node .*\nseen: +it owns none",
        },
        {"INV-4": "what it has in mind for them is never free again"},
        run=("WAKE-6",),
    ),
    Variant(
        "leak-devices",
        "keeps the devices of a Pod in mind when its cycle fails after Reserve",
        dra("leak-devices"),
        {"RES-20": NOT_BOUND.format("cannot allocate all claims")},
    ),
    Variant(
        "no-wake-devices",
        "does not try waiting Pods again when devices are published",
        dra("no-wake-devices"),
        {"WAKE-6": NOT_BOUND.format("cannot allocate all claims")},
    ),
    # The stock scheduler with a rival in the same deployment.
    Variant(
        "steals-pods",
        "binds Pods that name another scheduler, or one that nobody serves",
        beside_stock("another-scheduler", "nobody-serves-this", "original-scheduler"),
        {
            "ISO-1": r"no write of the candidate about Pod s\d+-foreign-1, which names 'another-scheduler'",
            "ISO-4": r"no write of the candidate about Pod s\d+-orphan-1, which names 'nobody-serves-this'",
            "ISO-5": r"(bound by original-scheduler, and by nobody else\n.* has sent|as .* was\nseen: .*bound to)",
        },
    ),
    # The reference scheduler with a fault.
    Variant(
        "hard-as-score",
        "prefers nodes with the required label instead of demanding it",
        reference("hard-as-score"),
        {
            "HARD-1": NOT_ELIGIBLE.format(NEEDED),
            "HARD-2": NOT_ELIGIBLE.format(NEEDED),
            "INV-1": f"against its hard condition: {NEEDED}",
        },
    ),
    Variant(
        "relax-after-retries",
        "drops the hard condition after some failed attempts",
        reference("relax-after-retries"),
        {"HARD-3": NOT_ELIGIBLE.format(NEEDED)},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "label-prefix-match",
        "takes any label value that begins with the required one",
        reference("label-prefix-match"),
        {"HARD-4": NOT_ELIGIBLE.format(f"{NEEDED}, node has 'true-2'")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "stale-labels",
        "never forgets a node label that was removed",
        reference("stale-labels"),
        {
            "HARD-6": NOT_ELIGIBLE.format(f"{NEEDED}, node has None"),
            "DEP-10": NOT_ELIGIBLE.format(f"{NEEDED}, node has None"),
        },
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "bind-ignores-change",
        "does not look at the node again when a Pod has waited at Permit",
        reference("bind-ignores-change"),
        {"HARD-7": NOT_ELIGIBLE.format(f"{NEEDED}, node has None")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "tenant-label",
        "takes a label of the Pod for one of the node",
        reference("tenant-label"),
        {"HARD-8": NOT_ELIGIBLE.format(f"{NEEDED}, node has None")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "trusts-tenant-spec",
        "holds GPU Pods to the network only where their spec says so",
        reference("trusts-tenant-spec"),
        {"HARD-11": NOT_ELIGIBLE.format(f"{NEEDED}, node has None")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "no-wake-label",
        "does not try waiting Pods again when a node label changes",
        reference("no-wake-label"),
        {"WAKE-1": NOT_BOUND.format("network")},
    ),
    Variant(
        "no-wake-node",
        "does not try Pods that wait for the network again when a node is added",
        reference("no-wake-node"),
        {"HARD-5": NOT_BOUND.format("network")},
        {"WAKE-5": "GPUs wake its Pod, which may come before the capacity", "HARD-1": PROVOKED, "HARD-11": PROVOKED},
    ),
    Variant(
        "no-wake-capacity",
        "does not try waiting Pods again when the published slots grow",
        reference("no-wake-capacity"),
        {"WAKE-8": NOT_BOUND.format("too few free network slots")},
    ),
    Variant(
        "stale-reason",
        "tells a Pod for ever the reason that it was told first",
        reference("stale-reason"),
        {"WAKE-9": r"waits for names no network any more\nseen: .*not on the high-speed network"},
    ),
    Variant(
        "wake-on-heartbeat",
        "tries waiting Pods again whenever anything about a node changes",
        reference("wake-on-heartbeat"),
        {"WAKE-10": r"expected: no attempt: unschedulable stays at \d+\nseen: "},
    ),
    Variant(
        "polls",
        "tries waiting Pods again every second",
        reference("polls"),
        {"WAKE-10": r"expected: no attempt: unschedulable stays at \d+\nseen: |at most \d+ binding requests"},
        {"INV-2": "a Pod whose binding was refused is tried each second too"},
    ),
    Variant(
        "retry-storm",
        "tries a Pod again at once when its binding was refused",
        reference("retry-storm"),
        {"WAKE-10": r"at most \d+ binding requests", "INV-2": r"backoff allows at most \d+"},
    ),
    Variant(
        "leak-on-bind",
        "keeps the slots of a Pod whose binding was refused",
        reference("leak-on-bind"),
        {"RES-4": SLOTS_HELD, "RES-10": SLOTS_HELD, "INV-4": r"network_slots_reserved is \d"},
        run=("RES-4", "RES-10", "OBS-2"),
    ),
    Variant(
        "leak-on-prebind",
        "keeps the slots of a Pod that PreBind refused",
        reference("leak-on-prebind"),
        {"RES-3": SLOTS_HELD, "RES-10": SLOTS_HELD},
    ),
    Variant(
        "leak-on-permit-timeout",
        "keeps the slots of a Pod whose wait at Permit has ended without success",
        reference("leak-on-permit-timeout"),
        {
            "RES-1": r"given up after its timeout .*\nseen: .*network_slots_reserved is \d",
            "RES-10": SLOTS_HELD,
            "RES-21": SLOTS_HELD,
        },
    ),
    Variant(
        "leak-on-waiting-delete",
        "keeps the slots of a Pod that is deleted while it waits at Permit",
        reference("leak-on-waiting-delete"),
        {"RES-2": SLOTS_HELD, "RES-10": SLOTS_HELD},
    ),
    Variant(
        "orphan-claim",
        "does not look at the claims that it finds when it starts",
        reference("orphan-claim"),
        {"RES-15": NOT_BOUND.format("too few free network slots"), "RES-10": SLOTS_HELD},
    ),
    Variant(
        "phantom-after-restart",
        "reserves once more, for ever, what was claimed for unbound Pods before it was started",
        reference("phantom-after-restart"),
        {"RES-11": SLOTS_HELD},
        {"OBS-9": AFTERWARDS},
    ),
    Variant(
        "release-on-ambiguous-bind",
        "gives the slots of a Pod back when its bind fails, without asking whether it was bound",
        reference("release-on-ambiguous-bind"),
        {"RES-16": r"owned by .* from its binding on\nseen: +bound at|unscheduled, .*\nseen: +it was bound to"},
        {"OBS-9": AFTERWARDS},
    ),
    Variant(
        "unreserve-once",
        "does not try again to give slots back when that has failed",
        reference("unreserve-once"),
        {"RES-17": NOT_BOUND.format("too few free network slots")},
        {"INV-4": "its ledger holds what it did not give back"},
    ),
    Variant(
        "reserve-not-held",
        "lets others take the slots of a Pod that waits at Permit",
        reference("reserve-not-held"),
        {"RES-12": r"what s\d+-member-1 has reserved .* was given away: .*was bound to"},
    ),
    Variant(
        "double-unreserve",
        "gives slots back twice when a binding fails, the second time those of another Pod",
        reference("double-unreserve"),
        {"RES-12": r"what s\d+-member-1 has reserved .* was given away: .*was bound to"},
    ),
    Variant(
        "no-atomic-check",
        "writes a claim that somebody has overtaken again without a look at what is left",
        reference("no-atomic-check"),
        {
            "DEP-5": r"naming slots\nseen: .*its Pods ask for 4 slots, 2 are published",
            "CONF-5": r"seen: .*2 are bound: .*its Pods ask for 2 slots, 1 are published",
            "INV-5": r"\d+ slots of node s\d+-gpu-1 are owned, of \d+ published: ",
        },
        run=("DEP-5", "CONF-5"),
    ),
    Variant(
        "partial-gang",
        "binds members while one of the gang is still missing",
        reference("partial-gang"),
        {"GANG-1": r"for [\d.]+ s \d of at least \d members are bound"},
    ),
    Variant(
        "permit-never-ends",
        "lets members wait at Permit for as long as Kubernetes allows, whatever the gang's timeout",
        reference("permit-never-ends"),
        {
            "RES-1": r"given up after its timeout of .*\nseen: .*wait at Permit",
            "GANG-2": "given up after its timeout of .*\nseen: .*wait at Permit",
        },
    ),
    Variant(
        "gang-blocks-queue",
        "refuses other Pods while a gang waits or was refused",
        reference("gang-blocks-queue"),
        {"GANG-7": NOT_BOUND.format("a gang is to be placed first")},
    ),
    Variant(
        "false-group-status",
        "reports members that are reserved as bound, and bound ones as ready",
        reference("false-group-status"),
        {
            "OBS-7": r"not reported as started .*\nseen: .*Ready are none",
            "GANG-9": r"it says Scheduled=True \(bound members: 3, needed: 3\); of at least 3 members [0-2] are bound",
        },
    ),
    Variant(
        "gang-deadlock",
        "lets gangs hold what they have while a member finds no room, without taking turns",
        reference("gang-deadlock"),
        {"GANG-3": r"one of gang .* bound as a whole.*\nseen: .*0 members of gang .* are bound; 0 members of gang"},
    ),
    Variant(
        "partial-after-bind-failure",
        "lets a member whose binding failed wait for a gang in which bound members do not count",
        reference("partial-after-bind-failure"),
        {"GANG-4": r"gang .* bound, all 3 members .*\nseen: .*member-3 is not bound"},
        {"GANG-1": "it stays bound in part", "GANG-6": "the same after a restart"},
    ),
    Variant(
        "counts-deleted-member",
        "counts a member that was deleted while it waited at Permit as reserved for ever",
        reference("counts-deleted-member"),
        {"GANG-5": r"no member of gang .* bound: .*\nseen: +bound are "},
        {"GANG-1": "what was bound too early is bound in part"},
    ),
    Variant(
        "gang-lost-on-restart",
        "never takes up the members of a gang that were there before it was started",
        reference("gang-lost-on-restart"),
        {"GANG-6": r"gang .* is not known"},
        {"GANG-1": "the gang that was being bound stays bound in part"},
    ),
    Variant(
        "evict-on-finish",
        "evicts the rest of a gang its timeout after a member has finished",
        reference("evict-on-finish"),
        {"GANG-8": r"stays when others of gang .* have ended .*\nseen: +it was evicted"},
    ),
    Variant(
        "false-scheduled-event",
        "announces success before the binding",
        reference("false-scheduled-event"),
        {"OBS-6": "no event Scheduled about", "RES-4": "no event Scheduled about"},
    ),
    Variant(
        "contradictory-condition",
        "writes on a bound Pod that it could not be scheduled",
        reference("contradictory-condition"),
        {"OBS-9": "was bound to .*, and from .* on its condition says PodScheduled=False"},
    ),
    Variant(
        "crash-on-annotation",
        "ends on a malformed annotation",
        reference("crash-on-annotation"),
        {"ROB-1": r"expected: Pod s\d+-empty-in-slots-1 .*\nseen: .*ended with code 2\n +panic: annotation "},
        {"INV-3": "the same end, judged as an invariant"},
    ),
    Variant(
        "crash-on-node",
        "ends on a node without labels or capacity",
        reference("crash-on-node"),
        {"ROB-2": r"ended with code 2\n +panic: node s\d+-"},
        {"INV-3": "the same end, judged as an invariant"},
    ),
    Variant(
        "trusts-stale-snapshot",
        "trusts a published capacity whatever its age",
        reference("trusts-stale-snapshot"),
        {"DEP-4": r"expected: Pod .* unscheduled.*\nseen: +it was bound to"},
    ),
    Variant(
        "silent-forbidden",
        "waits in silence for a binding that is forbidden",
        reference("silent-forbidden"),
        {"ROB-3": r"says that the right to bind Pods is missing: .*\nseen: .*none of its \d+ lines"},
    ),
    Variant(
        "double-bind",
        "lets DefaultBinder bind too when its own binding has failed",
        reference("double-bind"),
        {"RES-13": r"at most 1 binding requests for each attempt\nseen: +\d+ binding requests in \d attempts"},
        {"INV-2": "two requests an attempt are more than backoff allows"},
    ),
    Variant(
        "bind-claims-success",
        "takes a binding that failed for one that somebody else has done",
        reference("bind-claims-success"),
        {"RES-18": r"event FailedScheduling about Pod .*\nseen: +events about it: (Scheduled|none)"},
        {"OBS-6": "it announces the binding", "INV-4": "the Pod stays assumed"},
    ),
    # The small scheduler with a fault.
    Variant(
        "evicts-foreign",
        "evicts Pods of other schedulers when one of its own fits nowhere",
        toy("evicts-foreign"),
        {"ISO-3": r"Pod s\d+-default-\d+ still bound to .*\nseen: .*it was evicted"},
    ),
    Variant(
        "preempts-across-pools",
        "evicts every Pod of less priority, wherever it is bound, when one of its own fits nowhere",
        toy("preempts-across-pools") | {"claims": {"preemption": {}}},
        {"ISO-6": r"Pod s\d+-default-1 still bound to .*\nseen: .*it was evicted"},
    ),
    Variant(
        "takes-back",
        "makes templates that were switched to another scheduler name it again",
        toy_taking_back(),
        {"ROLL-1": SWITCHED_BACK, "ROLL-3": SWITCHED_BACK, "ROLL-8": SWITCHED_BACK},
    ),
    Variant(
        "evicts-on-start",
        "evicts its own Pods that are bound when it starts",
        toy("evicts-on-start"),
        {"ROLL-4": r"Pod s\d+-\S+ still bound to .*\nseen: .*it was evicted"},
        {"ROLL-5": "what it has evicted leaves room"},
    ),
    Variant(
        "gives-up-on-stop",
        "deletes the Pods that wait for it when it is asked to end",
        toy("gives-up-on-stop"),
        {"ROLL-2": r"expected: unbound Pods that name 'toy': s\d+-pod-1\nseen: +none"},
        {"INV-3": "a Pod that waited is gone"},
    ),
    Variant(
        "silent-bad-config",
        "starts with flags that it does not know, and says nothing",
        toy("silent-bad-config"),
        {"ROLL-6": r"a new version with a flag .* ends at its start, .*\nseen: +it started"},
        {"ROLL-8": "its first step is the same check"},
    ),
    Variant(
        "preference-wins",
        "lets a preferred node affinity outweigh the required one",
        toy("preference-wins"),
        {"HARD-2": NOT_ELIGIBLE.format(AFFINITY)},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "count-first-container",
        "counts the GPUs of the first container alone",
        toy("count-first-container"),
        {"HARD-10": NOT_ELIGIBLE.format("request 5 nvidia.com/gpu, it has 4")},
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "ignore-allocatable",
        "places by capacity in place of allocatable",
        toy("ignore-allocatable"),
        {
            "CAP-5": NOT_ELIGIBLE.format("request 5 nvidia.com/gpu, it has 2"),
            "WAKE-11": NOT_ELIGIBLE.format("request 8 nvidia.com/gpu, it has 0"),
        },
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "no-wake-new-node",
        "does not try waiting Pods again when a node is added",
        toy("no-wake-new-node"),
        {"WAKE-5": NOT_BOUND.format("Insufficient")},
        {"HARD-1": PROVOKED, "ISO-1": "its fence is closed by a node that is added"},
    ),
    Variant(
        "no-wake-taint",
        "does not try waiting Pods again when a taint is removed",
        toy("no-wake-taint"),
        {"WAKE-2": NOT_BOUND.format("taint")},
        {"WAKE-5": "a node is tainted until it is Ready"},
    ),
    Variant(
        "no-wake-allocatable",
        "does not try waiting Pods again when allocatable grows",
        toy("no-wake-allocatable"),
        {"WAKE-3": NOT_BOUND.format("Insufficient")},
    ),
    Variant(
        "no-wake-pod",
        "does not try waiting Pods again when a Pod ends",
        toy("no-wake-pod"),
        {"WAKE-4": NOT_BOUND.format("Insufficient")},
    ),
    Variant(
        "ignore-gates",
        "tries Pods whose scheduling gates still stand",
        toy("ignore-gates"),
        {"WAKE-7": "expected: no binding request for Pod"},
    ),
    Variant(
        "leak-on-lost-answer",
        "keeps what a Pod had reserved when the answer to its binding was lost, beside the bound Pod",
        toy("leak-on-lost-answer"),
        {"RES-6": NOT_BOUND.format("Insufficient")},
    ),
    Variant(
        "ledger-lost",
        "counts only the Pods that it has placed itself since its start",
        toy("ledger-lost"),
        {
            "RES-11": r"expected: Pod .* unscheduled, .* naming gpu\nseen: +it was bound to",
            "ROLL-5": r"expected: Pod .* unscheduled, .*\nseen: .*it was bound to .*request 9 nvidia.com/gpu, it has 8",
            "DEP-9": r"expected: Pod .* unscheduled, .* naming gpu\nseen: +it was bound to",
            "DEP-13": r"expected: Pod .* never bound\nseen: +it was bound to .*request 12 nvidia.com/gpu, it has 8",
        },
        {"CAP-4": AT_BINDING, "INV-4": "probes are placed by the same count"},
    ),
    Variant(
        "leak-on-given-up-bind",
        "keeps what a Pod had reserved when its binding is not answered, beside what the next try reserves",
        toy("leak-on-given-up-bind"),
        {"RES-19": NOT_BOUND.format("Insufficient")},
        {"OBS-9": "what it says of the answer is written when the binding was applied meanwhile"},
    ),
    Variant(
        "double-count",
        "counts a Pod that a rival has bound on the node that it had chosen itself, too",
        toy("double-count"),
        {"RES-7": NOT_BOUND.format("Insufficient")},
    ),
    Variant(
        "no-assume",
        "counts a Pod only once its binding was seen",
        toy("no-assume"),
        {
            "RES-8": r"expected: Pod .* unscheduled, reason Unschedulable, naming gpu\nseen: .*it was bound to",
            "DEP-8": r"expected: Pod .* unscheduled, reason Unschedulable, naming gpu\nseen: .*it was bound to",
        },
        {"CAP-4": "what it gave away is bound in the end", "CAP-6": "Pods that come at once get the same space"},
    ),
    Variant(
        "ignores-retry-after",
        "sends a binding that was answered 429 again at once",
        toy("ignores-retry-after"),
        {"DEP-11": r"at most \d+ requests to create pods/binding .*all answered 429\nseen: "},
        {"OBS-9": "its next attempt is through before it has told of the one that was refused"},
    ),
    Variant(
        "leak-on-node-delete",
        "keeps what was reserved on a node that was deleted",
        toy("leak-on-node-delete"),
        {"RES-9": NOT_BOUND.format("Insufficient")},
    ),
    Variant(
        "bind-deleted",
        "binds Pods that are being deleted",
        toy("bind-deleted"),
        {"RES-14": r"no binding request for Pod .* after .*\nseen: +1"},
    ),
    Variant(
        "doomed-first",
        "waits for the oldest Pod's backoff before it tries any other",
        toy("doomed-first"),
        {"RES-5": NOT_BOUND.format("(nothing says it was tried|Insufficient)")},
    ),
    Variant(
        "keeps-ghosts",
        "does not forget a waiting Pod that was deleted while its watch was broken; tries the newest Pod first",
        toy("keeps-ghosts", "newest-first"),
        {"DEP-10": r"no binding request for Pod .*-ghost-1 after .*\nseen: +\d"},
    ),
    Variant(
        "retry-after-bind",
        "asks its extender to bind a Pod again when the answer does not come in time",
        toy_bound_by_extender("retry-after-bind"),
        {"DEP-7": r"no binding request for Pod .* after .*\nseen: +\d"},
        {"INV-2": "the same request, judged as an invariant"},
    ),
    Variant(
        "silent-reject",
        "does not say why it refuses a Pod",
        toy("silent-reject"),
        {"OBS-6": "expected: Pod .* unscheduled, .*\nseen: .*nothing says it was tried"},
        {"HARD-1": UNTOLD, "CAP-6": UNTOLD, "WAKE-5": UNTOLD},
        run=("OBS-6", "ISO-1"),
    ),
    Variant(
        "ready-at-once",
        "says that it is ready before it has read the nodes",
        toy("ready-at-once"),
        {"OBS-8": "not ready while the right to read nodes is missing\nseen: .*its readiness probe succeeded"},
    ),
    Variant(
        "gauge-leak",
        "counts a gated Pod that is gone for ever",
        toy("gauge-leak"),
        {"OBS-1": r'scheduler_pending_pods{queue="gated"} is 1'},
    ),
    Variant(
        "wrong-result-label",
        "counts Pods that fit nowhere as errors",
        toy("wrong-result-label"),
        {"OBS-2": "result unschedulable counted"},
    ),
    Variant(
        "renamed-metric",
        "exposes its attempts under another name",
        toy("renamed-metric"),
        {"OBS-4": "scheduler_schedule_attempts_total: not exposed"},
        {"HARD-1": "its attempts cannot be counted"},
    ),
    Variant(
        "last-attempt-latency",
        "measures latency from the last failed attempt, not from the creation",
        toy("last-attempt-latency", family="kube-scheduler"),
        {"OBS-5": r"the candidate's mean latency of s\d+-pod-9 is"},
    ),
    Variant(
        "no-election",
        "binds Pods whether it leads or not",
        toy("no-election"),
        {
            "CONF-1": r"no write of the standby while the leader lives\nseen: +\d+",
            "ROLL-7": r"(no write of the standby while the leader lives|bound by the previous version, and by nobody)",
        },
        {
            "INV-2": "the leader asks to bind what the standby has bound",
            "OBS-9": "both replicas try a Pod, and who comes second says that it failed",
        },
    ),
    Variant(
        "stale-takeover",
        "does not count what was bound before it came to lead",
        toy("stale-takeover"),
        {"CONF-2": r"expected: Pod .* unscheduled, reason Unschedulable, naming gpu\nseen: .*it was bound to"},
        {"CONF-1": "the room of the Pods that are bound is given away", "INV-4": "the same, at the end"},
    ),
    Variant(
        "split-brain",
        "goes on binding when it has lost its Lease",
        toy("split-brain"),
        {"CONF-3": r"which has lost its Lease, ends as declared .*\nseen: .*it still runs"},
    ),
    Variant(
        "crash",
        "ends when a waiting Pod is deleted",
        toy("crash"),
        {"INV-3": "process scheduler ended: exit code 1"},
        run=("HARD-1",),
    ),
)
