// Package fault makes the scheduler wrong in one known way. Every fault is named here and nowhere else; the place where
// it takes effect asks `fault.Is(fault.LeakOnBind)`.
package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Name names one fault.
type Name string

// Names lists every fault; ../README.md says which requirement must catch it.
var Names []Name

// Faults of the plugin NetworkSlots and of its binder.
var (
	HardAsScore            = named("hard-as-score")           // the required label only earns a node points
	RelaxAfterRetries      = named("relax-after-retries")     // a Pod refused often enough may go anywhere
	LabelPrefixMatch       = named("label-prefix-match")      // a value that begins like the required one will do
	StaleLabels            = named("stale-labels")            // a node once seen with the label has it for ever
	TenantLabel            = named("tenant-label")            // the label on the Pod itself will do
	BindIgnoresChange      = named("bind-ignores-change")     // PreBind does not look at the node again
	TrustsTenantSpec       = named("trusts-tenant-spec")      // a GPU Pod that does not mention the network may go anywhere
	NoWakeLabel            = named("no-wake-label")           // a label added to a node wakes nobody
	NoWakeNode             = named("no-wake-node")            // a new node, and its first capacity, wake nobody
	NoWakeCapacity         = named("no-wake-capacity")        // capacity that grows wakes nobody
	StaleReason            = named("stale-reason")            // a Pod is told for ever what it was told at first
	WakeOnHeartbeat        = named("wake-on-heartbeat")       // any change of any node wakes everybody
	RetryStorm             = named("retry-storm")             // a Pod whose binding failed is tried at once, past its backoff
	Polls                  = named("polls")                   // every waiting Pod is tried again each second
	LeakOnBind             = named("leak-on-bind")            // slots stay held when the binding fails
	LeakOnPreBind          = named("leak-on-prebind")         // slots stay held when PreBind fails
	LeakOnPermitTimeout    = named("leak-on-permit-timeout")  // slots stay held when the wait at Permit ends without success
	LeakOnWaitingDelete    = named("leak-on-waiting-delete")  // slots stay held when a Pod is deleted while it waits at Permit
	ReserveNotHeld         = named("reserve-not-held")        // Reserve keeps nothing: who waits at Permit holds no slot
	DoubleUnreserve        = named("double-unreserve")        // Unreserve gives back twice, by count: once for somebody else
	NoAtomicCheck          = named("no-atomic-check")         // a claim that somebody overtook is written without a look at what is left
	CrashOnAnnotation      = named("crash-on-annotation")     // a malformed annotation ends the process
	CrashOnNode            = named("crash-on-node")           // a node without labels or capacity ends the process
	TrustsStaleSnapshot    = named("trusts-stale-snapshot")   // a capacity is trusted whatever its age
	DoubleBind             = named("double-bind")             // a binding that failed is tried by DefaultBinder too
	BindClaimsSuccess      = named("bind-claims-success")     // a binding that failed is taken for one that somebody else has done
	SilentForbidden        = named("silent-forbidden")        // a forbidden binding is waited for in silence
	FalseScheduledEvent    = named("false-scheduled-event")   // success is announced before the binding
	ContradictoryCondition = named("contradictory-condition") // a bound Pod is said to be unscheduled
)

// Faults of claims that nobody here has reserved, and of giving back.
var (
	OrphanClaim            = named("orphan-claim")              // claims found at the start are not looked at
	PhantomAfterRestart    = named("phantom-after-restart")     // unbound claims found at the start are reserved once more, for ever
	ReleaseOnAmbiguousBind = named("release-on-ambiguous-bind") // a claim is given back unasked what became of the Pod
	UnreserveOnce          = named("unreserve-once")            // a release that failed is not tried again
)

// Faults of the plugin Gang.
var (
	PartialGang      = named("partial-gang")       // three members or more go on while one is still missing
	PermitNeverEnds  = named("permit-never-ends")  // nobody is rejected: members wait for the longest that Kubernetes allows
	GangBlocksQueue  = named("gang-blocks-queue")  // while a gang that was given up waits, all other Pods are refused
	FalseGroupStatus = named("false-group-status") // reserved members are said to be bound, and bound ones to be Ready

	GangDeadlock            = named("gang-deadlock")              // gangs do not take turns, and keep what they hold when a member finds no room
	PartialAfterBindFailure = named("partial-after-bind-failure") // a member tried again waits for a whole gang, and bound ones do not count
	CountsDeletedMember     = named("counts-deleted-member")      // a member deleted while it waits at Permit counts on
	GangLostOnRestart       = named("gang-lost-on-restart")       // members that were there before the process are never taken up
	EvictOnFinish           = named("evict-on-finish")            // the rest of a gang is evicted its timeout after a member ended
)

// Faults of the plugin Devices.
var (
	LeakDevices   = named("leak-devices")    // devices stay held in this process when a cycle fails after Reserve
	NoWakeDevices = named("no-wake-devices") // devices that are published wake nobody
)

var chosen Name

// Choose switches one fault on; without a name there is none.
func Choose(name string) error {
	if name != "" && !slices.Contains(Names, Name(name)) {
		return fmt.Errorf("there is no fault %q; choose one of %s", name, List())
	}
	chosen = Name(name)
	return nil
}

// Is says whether a fault is switched on.
func Is(name Name) bool { return chosen == name }

// List returns every name, for a person.
func List() string {
	names := make([]string, len(Names))
	for i, name := range Names {
		names[i] = string(name)
	}
	return strings.Join(names, ", ")
}

func named(name Name) Name {
	Names = append(Names, name)
	return name
}
