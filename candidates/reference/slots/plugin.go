package slots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
	"unreserve.dev/reference/network"
)

// What Pods are told.
const (
	reasonNetwork  = "node(s) are not on the high-speed network"
	reasonSlots    = "node(s) have too few free network slots"
	reasonCapacity = "node(s) publish no current network capacity"
)

// plugin is NetworkSlots in one profile.
type plugin struct {
	framework.PreBindsIf
	args   Args
	slots  *Slots
	handle framework.Handle
	memory *memory // of a fault; else nil
}

var (
	_ framework.PreFilterPlugin   = &plugin{}
	_ framework.FilterPlugin      = &plugin{}
	_ framework.ScorePlugin       = &plugin{}
	_ framework.ReservePlugin     = &plugin{}
	_ framework.PreBindPlugin     = &plugin{}
	_ framework.PostBindPlugin    = &plugin{}
	_ framework.EnqueueExtensions = &plugin{}
)

// Name implements Plugin.
func (*plugin) Name() string { return Name }

// cycle is what one attempt rests on, for Pods that need the network.
type cycle struct {
	asked int
	rooms map[string]room // by node, all of one moment; never changed
	// What preemption and nominated Pods would change: slots taken, by node, and who was thought away, with or without slots.
	taken   map[string]int
	removed map[key]bool
	// preBound says that PreBind was reached, so that the scheduler has nominated the node.
	preBound bool
}

// Clone implements StateData.
func (c *cycle) Clone() framework.StateData {
	clone := *c
	clone.taken, clone.removed = maps.Clone(c.taken), maps.Clone(c.removed)
	return &clone
}

func (c *cycle) room(node string) room {
	room := c.rooms[node]
	room.taken += c.taken[node]
	return room
}

// cycleOf returns nil for a Pod that does not need the network.
func cycleOf(state framework.CycleState) *cycle {
	data, err := state.Read(Name)
	if err != nil {
		return nil
	}
	return data.(*cycle)
}

// PreFilter reads what the Pod asks for, and takes the snapshot that this attempt rests on.
func (p *plugin) PreFilter(
	_ context.Context, state framework.CycleState, pod *v1.Pod, _ []framework.NodeInfo,
) (*framework.PreFilterResult, *framework.Status) {
	p.slots.lead()
	asked, err := network.Asked(pod)
	if err != nil {
		if fault.Is(fault.CrashOnAnnotation) {
			panic(err)
		}
		refusals.WithLabelValues(refusedMalformed).Inc()
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	if !p.needsNetwork(pod, asked) {
		return nil, framework.NewStatus(framework.Skip)
	}
	cycle := &cycle{asked: asked, taken: map[string]int{}, removed: map[key]bool{}}
	if asked > 0 {
		cycle.rooms = p.slots.view.rooms(pod.UID, time.Now(), p.args.MaxAge.Duration)
	}
	state.Write(Name, cycle)
	if p.memory != nil {
		p.memory.attempt(pod.UID)
	}
	return nil, nil
}

// PreFilterExtensions implements PreFilterPlugin.
func (p *plugin) PreFilterExtensions() framework.PreFilterExtensions { return p }

// AddPod counts the slots of a Pod that is nominated for the node, or would not be preempted after all.
func (p *plugin) AddPod(
	_ context.Context, state framework.CycleState, _ *v1.Pod, added framework.PodInfo, info framework.NodeInfo,
) *framework.Status {
	cycle, node, pod := cycleOf(state), info.Node().Name, added.GetPod()
	slots, err := network.Asked(pod)
	if cycle == nil || err != nil {
		return nil
	}
	at := key{pod.UID, node}
	counts, removed := cycle.removed[at]
	if !removed {
		counts = !p.slots.view.holds(node, pod.UID) // else it is counted already
	}
	delete(cycle.removed, at)
	if counts {
		cycle.taken[node] += slots
	}
	return nil
}

// RemovePod gives the slots of a Pod that would be preempted.
func (p *plugin) RemovePod(
	_ context.Context, state framework.CycleState, _ *v1.Pod, removed framework.PodInfo, info framework.NodeInfo,
) *framework.Status {
	cycle, node, pod := cycleOf(state), info.Node().Name, removed.GetPod()
	slots, err := network.Asked(pod)
	if cycle == nil || err != nil {
		return nil
	}
	holds := p.slots.view.holds(node, pod.UID)
	cycle.removed[key{pod.UID, node}] = holds
	if holds {
		cycle.taken[node] -= slots
	}
	return nil
}

// Filter refuses nodes that are not on the network, and those without enough free slots.
func (p *plugin) Filter(
	_ context.Context, state framework.CycleState, pod *v1.Pod, info framework.NodeInfo,
) *framework.Status {
	cycle, node := cycleOf(state), info.Node()
	if cycle == nil {
		return nil
	}
	if !p.onNetwork(pod, node) {
		if p.memory != nil {
			p.memory.told(pod.UID, reasonNetwork)
		}
		return refuse(refusedNetwork, framework.UnschedulableAndUnresolvable, reasonNetwork)
	}
	if cycle.asked == 0 {
		return nil
	}
	switch room := cycle.room(node.Name); {
	case !room.current:
		return refuse(refusedCapacity, framework.UnschedulableAndUnresolvable, reasonCapacity)
	case room.slots < cycle.asked: // not even without the other Pods
		return refuse(refusedSlots, framework.UnschedulableAndUnresolvable, reasonSlots)
	case room.free() < cycle.asked:
		return refuse(refusedSlots, framework.Unschedulable, reasonSlots)
	}
	return nil
}

func refuse(label string, code framework.Code, reason string) *framework.Status {
	refusals.WithLabelValues(label).Inc()
	return framework.NewStatus(code, reason)
}

// Score prefers the node with the fewer slots left, so that whole nodes stay free.
func (p *plugin) Score(
	_ context.Context, state framework.CycleState, pod *v1.Pod, info framework.NodeInfo,
) (int64, *framework.Status) {
	if fault.Is(fault.HardAsScore) {
		if info.Node().Labels[p.args.NodeLabel.Key] == p.args.NodeLabel.Value {
			return framework.MaxNodeScore, nil
		}
		return 0, nil
	}
	cycle := cycleOf(state)
	if cycle == nil || cycle.asked == 0 {
		return 0, nil
	}
	room := cycle.room(info.Node().Name)
	return framework.MaxNodeScore * int64(room.taken+cycle.asked) / int64(max(room.slots, 1)), nil
}

// ScoreExtensions implements ScorePlugin.
func (*plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// Reserve holds the slots in this process.
func (p *plugin) Reserve(
	_ context.Context, state framework.CycleState, pod *v1.Pod, node string,
) *framework.Status {
	if cycle := cycleOf(state); cycle != nil && cycle.asked > 0 && !fault.Is(fault.ReserveNotHeld) {
		p.slots.view.ledger.reserve(node, owner(pod, cycle.asked))
	}
	return nil
}

// PreBind looks at the node again, as the API server has it, and claims the slots there.
func (p *plugin) PreBind(
	ctx context.Context, state framework.CycleState, pod *v1.Pod, node string,
) *framework.Status {
	cycle := cycleOf(state)
	if cycle == nil {
		return nil
	}
	cycle.preBound = true
	if !fault.Is(fault.BindIgnoresChange) {
		if status := p.stillOnNetwork(ctx, pod, node); !status.IsSuccess() {
			return status
		}
	}
	if fault.Is(fault.FalseScheduledEvent) {
		p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, "Scheduled", "Binding", "Assigned to %v", node)
	}
	if cycle.asked == 0 {
		return nil
	}
	return p.claim(ctx, owner(pod, cycle.asked), node)
}

func (p *plugin) stillOnNetwork(ctx context.Context, pod *v1.Pod, name string) *framework.Status {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	node, err := p.handle.ClientSet().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return framework.NewStatus(framework.Unschedulable, fmt.Sprintf("node %s is gone", name))
	case err != nil:
		return framework.AsStatus(fmt.Errorf("look at node %s before binding: %w", name, err))
	case !p.onNetwork(pod, node):
		return refuse(refusedNetwork, framework.Unschedulable, reasonNetwork+" any more: "+name)
	}
	return nil
}

func (p *plugin) claim(ctx context.Context, owner network.Owner, node string) *framework.Status {
	shared := p.slots
	at := key{owner.UID, node}
	shared.view.ledger.begin(node, owner)
	shared.reconciler.locks.LockKey(node)
	defer func() { _ = shared.reconciler.locks.UnlockKey(node) }()

	lost := func() { conflicts.Inc() }
	allocation, err := shared.store.claim(ctx, node, owner, p.args.MaxAge.Duration, lost)
	switch {
	case errors.Is(err, errStale):
		return refuse(refusedCapacity, framework.Unschedulable, reasonCapacity+": "+node)
	case errors.Is(err, errNoRoom):
		return refuse(refusedSlots, framework.Unschedulable, reasonSlots+": "+node+", somebody else was faster")
	case err != nil:
		return framework.AsStatus(fmt.Errorf("claim %d network slots of node %s: %w", owner.Slots, node, err))
	}
	// In this order: at every moment the claim is seen in one of both.
	shared.view.wrote(allocation)
	shared.view.ledger.claim(at)
	klog.FromContext(ctx).V(3).Info("Slots claimed", "owner", owner, "node", node)
	return nil
}

// PostBind ends the reservation: from here on the allocation alone shows the owner.
func (p *plugin) PostBind(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) {
	cycle := cycleOf(state)
	if cycle == nil || cycle.asked == 0 {
		return
	}
	p.slots.reconciler.bound(node, owner(pod, cycle.asked))
	if fault.Is(fault.ContradictoryCondition) {
		p.contradict(ctx, pod)
	}
}

// Unreserve gives the slots back, as far as it is known that the Pod does not use them.
func (p *plugin) Unreserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) {
	if cycle := cycleOf(state); cycle != nil && cycle.preBound {
		framework.AwaitNomination(ctx, p.handle, pod, node)
	}
	ledger, at := p.slots.view.ledger, key{pod.UID, node}
	if fault.Is(fault.ReleaseOnAmbiguousBind) { // also where it is seen to be bound by now
		asked, _ := network.Asked(pod)
		ledger.begin(node, owner(pod, asked))
	}
	held, ok := ledger.get(at)
	if !ok {
		return
	}
	switch {
	case p.leaks(held.phase, pod):
		ledger.lose(at)
	case held.phase == reserved && !held.written:
		ledger.drop(at) // no need to ask
	default:
		p.slots.reconciler.release(ctx, at)
	}
	if fault.Is(fault.DoubleUnreserve) {
		ledger.dropAny(node)
	}
	if fault.Is(fault.RetryStorm) {
		p.tryAtOnce(ctx, pod)
	}
}

func owner(pod *v1.Pod, slots int) network.Owner {
	return network.Owner{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Slots: slots}
}
