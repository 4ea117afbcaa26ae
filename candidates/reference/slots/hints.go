package slots

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
	"unreserve.dev/reference/network"
)

// EventsToRegister names the changes that can help a Pod which was refused here. Each comes with a hint that knows whether
// it does: whoever is woken without need is tried later when it counts.
func (p *plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	nodes := framework.Add | framework.UpdateNodeLabel
	switch {
	case fault.Is(fault.NoWakeLabel):
		nodes = framework.Add
	case fault.Is(fault.NoWakeNode):
		nodes = framework.UpdateNodeLabel
	}
	return []framework.ClusterEventWithHint{
		{Event: event(framework.Node, nodes), QueueingHintFn: hint(p.nodeHelps)},
		{Event: event(framework.Pod, framework.Update|framework.Delete), QueueingHintFn: hint(p.podHelps)},
		{Event: event(kind(network.Capacities), framework.Add|framework.Update), QueueingHintFn: hint(p.capacityHelps)},
		{Event: event(kind(network.Allocations), framework.Update|framework.Delete), QueueingHintFn: hint(p.allocationHelps)},
	}, nil
}

func event(resource framework.EventResource, action framework.ActionType) framework.ClusterEvent {
	return framework.ClusterEvent{Resource: resource, ActionType: action}
}

// kind names a custom resource as the scheduler does: plural.version.group.
func kind(resource schema.GroupVersionResource) framework.EventResource {
	return framework.EventResource(resource.Resource + "." + resource.Version + "." + resource.Group)
}

// hint adapts a question about objects of one type; what there is no object of is nil.
func hint[Object any](helps func(pod *v1.Pod, old, now *Object) bool) framework.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, before, after any) (framework.QueueingHint, error) {
		old, _ := object(before).(*Object)
		now, _ := object(after).(*Object)
		if helps(pod, old, now) {
			return framework.Queue, nil
		}
		return framework.QueueSkip, nil
	}
}

// nodeHelps: a node has joined the network. If its capacity is not published yet, that event will help.
func (p *plugin) nodeHelps(pod *v1.Pod, old, now *v1.Node) bool {
	if now == nil || old != nil && p.onNetwork(pod, old) || !p.onNetwork(pod, now) {
		return false
	}
	asked, err := network.Asked(pod)
	return err == nil && (asked == 0 || p.hasRoom(pod, asked, now.Name))
}

// podHelps: the Pod asks for another number of slots now, or another one gave back what it had only reserved. What it had
// claimed comes free with its allocation.
func (p *plugin) podHelps(pod, old, now *v1.Pod) bool {
	if old == nil {
		return false
	}
	if now != nil {
		return now.UID == pod.UID && now.Annotations[network.Annotation] != old.Annotations[network.Annotation]
	}
	node := old.Spec.NodeName
	if node == "" {
		node = old.Status.NominatedNodeName
	}
	freed, err := network.Asked(old)
	return err == nil && freed > 0 && node != "" && !p.slots.view.holds(node, old.UID) && p.hasRoomFor(pod, node)
}

// capacityHelps: a node has more slots than before, or is trusted again.
func (p *plugin) capacityHelps(pod *v1.Pod, old, now *unstructured.Unstructured) bool {
	if now == nil {
		return false
	}
	var before network.Capacity
	if old != nil {
		before = network.CapacityOf(old)
	}
	first := before.ObservedAt.IsZero()
	if fault.Is(fault.NoWakeNode) && first || fault.Is(fault.NoWakeCapacity) && !first {
		return false
	}
	trusted := before.Current(time.Now(), p.args.MaxAge.Duration)
	grown := network.CapacityOf(now).Slots > before.Slots
	return (grown || !trusted) && p.hasRoomFor(pod, now.GetName())
}

// allocationHelps: somebody else owns fewer slots of a node than before.
func (p *plugin) allocationHelps(pod *v1.Pod, old, now *unstructured.Unstructured) bool {
	if old == nil {
		return false
	}
	before, after := network.AllocationOf(old).Without(pod.UID).Taken(), 0
	if now != nil {
		after = network.AllocationOf(now).Without(pod.UID).Taken()
	}
	return after < before && p.hasRoomFor(pod, old.GetName())
}

// hasRoomFor says whether a node is on the network and has room for a Pod, as far as is known now.
func (p *plugin) hasRoomFor(pod *v1.Pod, name string) bool {
	asked, err := network.Asked(pod)
	if err != nil || asked == 0 {
		return false
	}
	node, err := p.slots.reconciler.nodes.Get(name)
	return err == nil && p.onNetwork(pod, node) && p.hasRoom(pod, asked, name)
}

func (p *plugin) hasRoom(pod *v1.Pod, asked int, node string) bool {
	room := p.slots.view.room(node, pod.UID, time.Now(), p.args.MaxAge.Duration)
	return room.current && room.free() >= asked
}
