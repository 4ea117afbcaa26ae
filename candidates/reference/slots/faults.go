package slots

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
)

// What needs more than a line to be wrong.

const (
	// enoughAttempts is after how many of them the network is no longer asked for.
	enoughAttempts = 6
	// soon is when a Pod whose binding failed has surely come back to the queue.
	soon = 50 * time.Millisecond
)

// leaks says whether the slots of a Pod stay held, given how far its reservation had come.
func (p *plugin) leaks(come phase, pod *v1.Pod) bool {
	switch {
	case fault.Is(fault.LeakOnBind):
		return come == claimed
	case fault.Is(fault.LeakOnPreBind):
		return come == claiming
	case fault.Is(fault.LeakOnPermitTimeout):
		return come == reserved && !p.deleted(pod)
	case fault.Is(fault.LeakOnWaitingDelete):
		return come == reserved && p.deleted(pod)
	}
	return false
}

// deleted asks the API server: Gang has a watch of its own, and may reject a Pod before this scheduler's shows its deletion.
func (p *plugin) deleted(pod *v1.Pod) bool {
	now, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(context.Background(), pod.Name, metav1.GetOptions{})
	return err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil
}

// tryAtOnce passes over the backoff of a Pod.
func (p *plugin) tryAtOnce(ctx context.Context, pod *v1.Pod) {
	logger := klog.FromContext(ctx)
	time.AfterFunc(soon, func() {
		p.handle.Activate(logger, map[string]*v1.Pod{string(pod.UID): pod})
	})
}

// haunt reserves a second time what unbound Pods own on a node, in the name of nobody.
func (r *reconciler) haunt(node string) {
	for _, owner := range r.view.allocation(node).Owners {
		if pod, err := r.pods.Pods(owner.Namespace).Get(owner.Name); err == nil && pod.Spec.NodeName != "" {
			continue
		}
		owner.UID = "lost-" + owner.UID
		r.view.ledger.reserve(node, owner)
	}
}

// contradict writes on a bound Pod that it could not be scheduled.
func (p *plugin) contradict(ctx context.Context, pod *v1.Pod) {
	patch := `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulerError","message":"late"}]}}`
	_, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(
		ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		klog.FromContext(ctx).Error(err, "Condition not written", "pod", klog.KObj(pod))
	}
}

// parrot tells a Pod for ever what it was told at first.
type parrot struct{ *plugin }

var _ framework.PostFilterPlugin = &parrot{}

// PostFilter adds to the reasons of this attempt the one that was the first.
func (p *parrot) PostFilter(
	_ context.Context, _ framework.CycleState, pod *v1.Pod, _ framework.NodeToStatusReader,
) (*framework.PostFilterResult, *framework.Status) {
	p.memory.mutex.Lock()
	defer p.memory.mutex.Unlock()
	return nil, framework.NewStatus(framework.Unschedulable, p.memory.reasons[pod.UID])
}

// memory is what is remembered although it must not be. It grows for ever.
type memory struct {
	mutex    sync.Mutex
	tried    map[types.UID]int
	labelled map[types.UID]bool
	reasons  map[types.UID]string
}

func newMemory() *memory {
	return &memory{tried: map[types.UID]int{}, labelled: map[types.UID]bool{}, reasons: map[types.UID]string{}}
}

// attempt counts an attempt of a Pod.
func (m *memory) attempt(pod types.UID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.tried[pod]++
}

// attempts returns how many there were.
func (m *memory) attempts(pod types.UID) int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.tried[pod]
}

// everOnNetwork says whether a node was ever seen with the label.
func (m *memory) everOnNetwork(node types.UID, now bool) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.labelled[node] = m.labelled[node] || now
	return m.labelled[node]
}

// told keeps the first reason that a Pod was given.
func (m *memory) told(pod types.UID, reason string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, ok := m.reasons[pod]; !ok {
		m.reasons[pod] = reason
	}
}
