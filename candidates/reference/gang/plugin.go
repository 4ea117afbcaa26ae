// Package gang is the plugin Gang: Pods that run together or not at all.
//
// A Gang object names the least number of members. Members that have found room wait at Permit, and hold that room, until
// so many are reserved or bound; then all go on. When that cannot be any more, or takes too long, all that wait are
// rejected: the gang is given up, and tried again when something has changed. What follows once a gang was whole and the
// binding of a member fails: the others stay, and the member is tried again by itself.
//
// Nothing is kept but in memory. After a restart bound members count, so that a gang that was bound in part is completed.
package gang

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
)

// Name is the name of the plugin.
const Name = "Gang"

// plugin is Gang in one profile.
type plugin struct {
	handle  framework.Handle
	args    Args
	members *members
	status  *statusWriter
	lead    func()             // starts, at its first call, what only the leading scheduler may do
	lost    map[types.UID]bool // members that are never taken up, by a fault

	// mutex guards the book. The queue calls PreEnqueue and hints while it is locked itself, so nothing that needs the
	// queue may be called under it.
	mutex sync.Mutex
	book  *book
	alarm *time.Timer
}

var (
	_ framework.PreEnqueuePlugin  = &plugin{}
	_ framework.PreFilterPlugin   = &plugin{}
	_ framework.PostFilterPlugin  = &plugin{}
	_ framework.ReservePlugin     = &plugin{}
	_ framework.PermitPlugin      = &plugin{}
	_ framework.PostBindPlugin    = &plugin{}
	_ framework.EnqueueExtensions = &plugin{}
)

// New makes the plugin, and returns once it knows the gangs or a few seconds have passed.
func New(ctx context.Context, raw runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	args, err := readArgs(raw)
	if err != nil {
		return nil, err
	}
	p := &plugin{handle: handle, args: args}
	if p.members, err = watchMembers(handle, p.changed, p.seen); err != nil {
		return nil, err
	}
	p.book = newBook(args.ReserveForMissing, p.members.facts)
	p.status = newStatusWriter(p.members, p.remarks)
	p.lead = sync.OnceFunc(func() { go p.status.run(ctx) })
	p.alarm = time.AfterFunc(longestWait, func() { p.change(p.book.tick) })
	p.members.start(ctx)
	if fault.Is(fault.GangLostOnRestart) {
		p.lost = p.members.uids()
	}
	return p, nil
}

// Name implements Plugin.
func (*plugin) Name() string { return Name }

// PreEnqueue implements PreEnqueuePlugin. It keeps back, in silence, members of a gang that is still being created or that
// was given up a moment ago: they have been told why, or will be soon.
func (p *plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *framework.Status {
	k, ok := keyOf(pod)
	if !ok || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	defer p.arm()
	if why := p.book.hold(k, p.facts(k, pod), pod.UID, time.Now()); why != "" {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// refused in the state of a cycle says that PreFilter itself refused the Pod.
type refused struct{}

const refusedKey framework.StateKey = Name + "/refused"

// Clone implements StateData.
func (r refused) Clone() framework.StateData { return r }

// PreFilter implements PreFilterPlugin: members that cannot be placed now are refused before anything is reserved.
func (p *plugin) PreFilter(
	_ context.Context, state framework.CycleState, pod *v1.Pod, _ []framework.NodeInfo,
) (*framework.PreFilterResult, *framework.Status) {
	p.lead()
	k, ok := keyOf(pod)
	if !ok {
		if fault.Is(fault.GangBlocksQueue) && p.anyGivenUp() {
			return nil, framework.NewStatus(framework.Unschedulable, "a gang is to be placed first")
		}
		return nil, framework.NewStatus(framework.Skip)
	}
	if !p.members.synced() {
		return nil, framework.AsStatus(fmt.Errorf("gang %q: the gangs are not known yet", k))
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	defer p.arm()
	why := p.book.refusal(k, p.facts(k, pod), pod.UID, time.Now())
	if p.lost[pod.UID] {
		why = fmt.Sprintf("gang %q is not known", k)
	}
	if why != "" {
		state.Write(refusedKey, refused{})
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, why)
	}
	return nil, nil
}

// PreFilterExtensions implements PreFilterPlugin.
func (*plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// PostFilter implements PostFilterPlugin: a member found no room. It makes no room either, it only gives up the gang if
// too few members are left. Preemption should come before it.
func (p *plugin) PostFilter(
	_ context.Context, state framework.CycleState, pod *v1.Pod, _ framework.NodeToStatusReader,
) (*framework.PostFilterResult, *framework.Status) {
	k, ok := keyOf(pod)
	if _, err := state.Read(refusedKey); !ok || err == nil {
		return nil, framework.NewStatus(framework.Unschedulable)
	}
	said := ""
	p.change(func(now time.Time) effects {
		f := p.facts(k, pod)
		e := p.book.failed(k, f, pod.UID, pod.Name, now)
		said = p.book.stands(k, f)
		return e
	})
	return nil, framework.NewStatus(framework.Unschedulable, said)
}

// Reserve implements ReservePlugin.
func (*plugin) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// Unreserve implements ReservePlugin: the member failed, or was rejected with its gang.
func (p *plugin) Unreserve(ctx context.Context, _ framework.CycleState, pod *v1.Pod, node string) {
	k, ok := keyOf(pod)
	if !ok {
		return
	}
	waited := false
	p.change(func(now time.Time) effects {
		waited = p.book.waited(k, pod.UID)
		return p.book.unreserve(k, p.facts(k, pod), pod.UID, pod.Name, p.gone(pod), now)
	})
	if waited {
		framework.AwaitNomination(ctx, p.handle, pod, node)
	}
	p.change(func(now time.Time) effects { return p.book.vacate(k, pod.UID, now) })
}

// Permit implements PermitPlugin.
func (p *plugin) Permit(
	ctx context.Context, _ framework.CycleState, pod *v1.Pod, _ string,
) (*framework.Status, time.Duration) {
	k, ok := keyOf(pod)
	if !ok {
		return nil, 0
	}
	var timeout time.Duration
	var refused error
	p.change(func(now time.Time) (e effects) {
		p.book.lose(k, p.lives(k))
		timeout, e, refused = p.book.permit(k, p.facts(k, pod), pod.UID, now)
		return e
	})
	logger := klog.FromContext(ctx)
	if refused != nil {
		return framework.NewStatus(framework.Unschedulable, refused.Error()), 0
	}
	if timeout == 0 {
		logger.V(2).Info("Gang is whole", "gang", k, "pod", klog.KObj(pod))
		return nil, 0
	}
	logger.V(2).Info("Member waits for its gang", "gang", k, "pod", klog.KObj(pod), "timeout", timeout)
	return framework.NewStatus(framework.Wait), timeout
}

// PostBind implements PostBindPlugin.
func (p *plugin) PostBind(_ context.Context, _ framework.CycleState, pod *v1.Pod, _ string) {
	k, ok := keyOf(pod)
	if !ok {
		return
	}
	p.change(func(time.Time) effects {
		p.book.bind(k, p.members.facts(k), pod.UID)
		return effects{}
	})
}

// facts returns what is known of a gang, with the Pod at hand.
func (p *plugin) facts(k key, pod *v1.Pod) facts {
	m := *pod
	m.Spec.NodeName = "" // of a Pod in a cycle it is only assumed
	return p.members.facts(k).with(&m)
}

// change changes the book, then does what follows from it.
func (p *plugin) change(do func(now time.Time) effects) {
	p.mutex.Lock()
	e := do(time.Now())
	p.arm()
	p.mutex.Unlock()
	for _, uid := range e.allow {
		if pod := p.handle.GetWaitingPod(uid); pod != nil {
			pod.Allow(Name)
		}
	}
	for uid, r := range e.reject {
		p.reject(uid, r)
	}
	for _, k := range e.wake {
		p.wake(k)
	}
	for _, k := range e.told {
		p.status.queue.Add(k)
	}
}

// arm sets the alarm. The mutex is held.
func (p *plugin) arm() {
	if due := p.book.due(); !due.IsZero() {
		p.alarm.Reset(max(0, time.Until(due)))
	}
}

// reject ends the wait of a Pod. One that has only just come to Permit may not be there yet.
func (p *plugin) reject(uid types.UID, r rejection) {
	if pod := p.handle.GetWaitingPod(uid); pod != nil {
		pod.Reject(Name, r.why)
		return
	}
	time.AfterFunc(10*time.Millisecond, func() {
		p.mutex.Lock()
		still := p.book.rejecting(r.gang, uid)
		p.mutex.Unlock()
		if still {
			p.reject(uid, r)
		}
	})
}

// wake has the members of a gang tried that still have to be placed.
func (p *plugin) wake(k key) {
	pods := map[string]*v1.Pod{}
	// Those that the queue may hold: the plugin's own watch can show a member later than it was kept back.
	queued := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(k.Namespace)
	members, _ := queued.List(labels.SelectorFromSet(labels.Set{Label: k.Name})) // from memory: it cannot fail
	for _, pod := range members {
		p.mutex.Lock()
		reserved := p.book.reserved(k, pod.UID)
		p.mutex.Unlock()
		if memberOf(pod).waits() && !reserved {
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(pods) > 0 {
		p.handle.Activate(klog.Background(), pods)
	}
}

// changed is told by the watches that a gang's object or its members changed; `gone` is a member that was deleted.
func (p *plugin) changed(k key, gone string) {
	if fault.Is(fault.EvictOnFinish) && slices.ContainsFunc(p.members.facts(k).members, func(m member) bool { return m.ended }) {
		p.evict(k)
	}
	p.change(func(now time.Time) effects {
		p.book.lose(k, p.lives(k))
		return p.book.changed(k, gone, now)
	})
}

// seen is told by the watches of every other change of a member.
func (p *plugin) seen(k key, old, pod *v1.Pod) {
	if old.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName == "" && pod.Spec.NodeName == "" {
		p.mutex.Lock()
		p.book.renominated(time.Now())
		p.mutex.Unlock()
	}
	p.status.queue.Add(k)
}

// evict ends what is left of a gang, once its timeout has passed since a member ended.
func (p *plugin) evict(k key) {
	f := p.members.facts(k)
	time.AfterFunc(f.spec.timeout, func() {
		for _, pod := range p.members.of(k) {
			if m := memberOf(pod); m.bound() && !m.ended {
				pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
				_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
			}
		}
	})
}

// lives says whether a member of a gang is still there, as the scheduler knows it.
func (p *plugin) lives(k key) func(name string, uid types.UID) bool {
	pods := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(k.Namespace)
	return func(name string, uid types.UID) bool {
		now, err := pods.Get(name)
		return err == nil && now.UID == uid
	}
}

// gone says whether a Pod was deleted, or is being deleted.
func (p *plugin) gone(pod *v1.Pod) bool {
	now, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if fault.Is(fault.CountsDeletedMember) { // it would bite only where the watch is in time
		now, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(context.Background(), pod.Name, metav1.GetOptions{})
	}
	return err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil
}

// remarks returns what the status of a gang says beside the facts: why it was given up, and how many are reserved or bound.
func (p *plugin) remarks(k key) (why string, reserved int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.book.remarks(k)
}

func (p *plugin) anyGivenUp() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.book.anyGivenUp()
}
