package gang

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/framework"
)

// EventsToRegister implements EnqueueExtensions.
//
// A member that was given up has room of its own and waits for another's: whatever may give that other one room wakes it.
// The other one is woken by the plugin that refused it; while PreEnqueue keeps it back, though, the queue passes on to it
// only events that this plugin has registered. So it registers all that any plugin may wait for, though most wake nobody
// by its own judgement.
func (p *plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	const every = framework.Add | framework.Update | framework.Delete
	const node = framework.Add | framework.UpdateNodeAllocatable | framework.UpdateNodeLabel | framework.UpdateNodeTaint
	on := func(kind framework.EventResource, action framework.ActionType, hint framework.QueueingHintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{
			Event: framework.ClusterEvent{Resource: kind, ActionType: action}, QueueingHintFn: hint,
		}
	}
	events := []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Delete, p.afterPodGone),
		on(framework.Pod, framework.UpdatePodScaleDown, p.afterPodShrunk),
		on(framework.Pod, framework.Add|framework.Update, p.afterPodChange),
		on(framework.Node, node, p.afterNodeChange),
		on(framework.Node, framework.Update|framework.Delete, nobody),
	}
	for _, kind := range framework.Volumes {
		events = append(events, on(kind, every, p.afterOtherChange))
	}
	for _, kind := range framework.Devices {
		events = append(events, on(kind, every, p.afterOtherChange))
	}
	for _, kind := range p.args.Kinds {
		events = append(events, on(framework.EventResource(kind), every, p.afterOtherChange))
	}
	return events, nil
}

func nobody(klog.Logger, *v1.Pod, any, any) (framework.QueueingHint, error) {
	return framework.QueueSkip, nil
}

// afterOtherChange wakes nobody, but is news: a member that PreEnqueue keeps back may have been refused for that. An object
// whose times alone have changed only says that somebody is alive.
func (p *plugin) afterOtherChange(_ klog.Logger, pod *v1.Pod, old, now any) (framework.QueueingHint, error) {
	before, wasObject := old.(*unstructured.Unstructured)
	after, isObject := now.(*unstructured.Unstructured)
	if wasObject && isObject && equality.Semantic.DeepEqual(timeless(before.Object), timeless(after.Object)) {
		return framework.QueueSkip, nil
	}
	p.queue(pod, nil)
	return framework.QueueSkip, nil
}

// timeless returns a value of an object without what changes with every write, and without times.
func timeless(value any) any {
	switch value := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, inner := range value {
			if name != "metadata" {
				left[name] = timeless(inner)
			}
		}
		return left
	case []any:
		left := make([]any, len(value))
		for i, inner := range value {
			left[i] = timeless(inner)
		}
		return left
	case string:
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			return nil
		}
	}
	return value
}

// afterPodGone wakes members when a Pod leaves a node. The framework reports a reservation that is given back in the same
// way; one that the gang gave back itself is no news.
func (p *plugin) afterPodGone(_ klog.Logger, pod *v1.Pod, old, _ any) (framework.QueueingHint, error) {
	left, ok := old.(*v1.Pod)
	if !ok || left.UID == pod.UID || left.Spec.NodeName == "" && left.Status.NominatedNodeName == "" {
		return framework.QueueSkip, nil
	}
	pods := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	if now, err := pods.Pods(left.Namespace).Get(left.Name); err == nil && now.UID == left.UID && now.Spec.NodeName != "" {
		return framework.QueueSkip, nil // it was bound
	}
	return p.queue(pod, left), nil
}

func (p *plugin) afterPodShrunk(_ klog.Logger, pod *v1.Pod, _, now any) (framework.QueueingHint, error) {
	if shrunk, ok := now.(*v1.Pod); !ok || shrunk.UID == pod.UID || shrunk.Spec.NodeName == "" {
		return framework.QueueSkip, nil
	}
	return p.queue(pod, nil), nil
}

// afterPodChange lets a Pod be looked at again that has changed its gang, or lost its scheduling gates. That another Pod
// has come, or has other labels, is news where members are placed by what runs beside them.
func (p *plugin) afterPodChange(_ klog.Logger, pod *v1.Pod, old, now any) (framework.QueueingHint, error) {
	before, _ := old.(*v1.Pod)
	after, _ := now.(*v1.Pod)
	switch {
	case after == nil:
	case after.UID != pod.UID:
		if looksAround(pod) && (before == nil || !maps.Equal(before.Labels, after.Labels)) {
			p.queue(pod, nil)
		}
	case before != nil && (before.Labels[Label] != after.Labels[Label] ||
		len(before.Spec.SchedulingGates) > len(after.Spec.SchedulingGates)):
		return framework.Queue, nil
	}
	return framework.QueueSkip, nil
}

// looksAround says whether other Pods decide where a Pod may run.
func looksAround(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// afterNodeChange wakes members that may run on a node that has become better; for a member that may not, it is news if it
// is better for another one.
func (p *plugin) afterNodeChange(_ klog.Logger, pod *v1.Pod, old, now any) (framework.QueueingHint, error) {
	before, _ := old.(*v1.Node)
	after, ok := now.(*v1.Node)
	switch {
	case !ok:
		return framework.QueueSkip, nil
	case better(before, after, pod):
		return p.queue(pod, nil), nil
	}
	if k, ok := keyOf(pod); ok && slices.ContainsFunc(p.members.of(k), func(other *v1.Pod) bool {
		return memberOf(other).waits() && better(before, after, other)
	}) {
		p.queue(pod, nil)
	}
	return framework.QueueSkip, nil
}

// queue wakes a member if its gang was given up, and did not cause the event itself by what `left`.
func (p *plugin) queue(pod, left *v1.Pod) framework.QueueingHint {
	k, ok := keyOf(pod)
	if !ok {
		return framework.Queue // refused by a fault
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	defer p.arm()
	if left != nil && p.book.caused(k, left.UID) || !p.book.news(k) {
		return framework.QueueSkip
	}
	return framework.Queue
}

// admits says whether a node could ever take a Pod, however full it is.
func admits(node *v1.Node, pod *v1.Pod) bool {
	if node.Spec.Unschedulable {
		return false
	}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !fits {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != v1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, mayTolerate(taint)) {
			return false
		}
	}
	return true
}

// mayTolerate goes by the key alone: a hint may err on the side of waking.
func mayTolerate(taint v1.Taint) func(v1.Toleration) bool {
	return func(toleration v1.Toleration) bool {
		return (toleration.Key == "" || toleration.Key == taint.Key) &&
			(toleration.Effect == "" || toleration.Effect == taint.Effect)
	}
}

// better says whether a node may have become better for a Pod.
func better(before, after *v1.Node, pod *v1.Pod) bool {
	return admits(after, pod) &&
		(before == nil || !admits(before, pod) || grew(before, after) || !maps.Equal(before.Labels, after.Labels))
}

// grew says whether a node has more of anything.
func grew(before, after *v1.Node) bool {
	for name, amount := range after.Status.Allocatable {
		if amount.Cmp(before.Status.Allocatable[name]) > 0 {
			return true
		}
	}
	return false
}
