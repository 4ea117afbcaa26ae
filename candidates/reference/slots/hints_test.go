package slots

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"unreserve.dev/reference/network"
)

const label = "infra.example.com/high-speed-network"

func TestOnlyWhatHelpsWakes(t *testing.T) {
	now := time.Now()
	waits := askingPod("waits", "2", "")
	for name, test := range map[string]struct {
		arrange func(*testing.T, *world)
		helps   func(*plugin) bool
		wanted  bool
	}{
		"a labelled node without capacity yet": {
			arrange: func(t *testing.T, w *world) { must(t, w.capacities.Delete(capacity(8, now))) },
			helps:   func(p *plugin) bool { return p.nodeHelps(waits, nil, networkNode("true")) },
		},
		"a labelled node with room": {
			helps: func(p *plugin) bool { return p.nodeHelps(waits, nil, networkNode("true")) }, wanted: true,
		},
		"the label of the network": {
			helps: func(p *plugin) bool { return p.nodeHelps(waits, networkNode("True"), networkNode("true")) }, wanted: true,
		},
		"another label": {
			helps: func(p *plugin) bool {
				other := networkNode("true")
				other.Labels["example.com/rack"] = "7"
				return p.nodeHelps(waits, networkNode("true"), other)
			},
		},
		"capacity confirmed": {
			helps: func(p *plugin) bool {
				return p.capacityHelps(waits, capacity(8, now.Add(-3*time.Second)), capacity(8, now))
			},
		},
		"capacity trusted again": {
			helps: func(p *plugin) bool {
				return p.capacityHelps(waits, capacity(8, now.Add(-time.Minute)), capacity(8, now))
			},
			wanted: true,
		},
		"capacity grown": {
			helps:  func(p *plugin) bool { return p.capacityHelps(waits, capacity(1, now), capacity(8, now)) },
			wanted: true,
		},
		"capacity grown, and taken": {
			arrange: func(_ *testing.T, w *world) { w.view.ledger.reserve(node, podOwner("1", 7)) },
			helps:   func(p *plugin) bool { return p.capacityHelps(waits, capacity(7, now), capacity(8, now)) },
		},
		"an owner less": {
			helps: func(p *plugin) bool {
				before := network.Allocation{Node: node}.With(podOwner("1", 1))
				return p.allocationHelps(waits, before.Object(), before.Without("1").Object())
			},
			wanted: true,
		},
		"an owner more": {
			helps: func(p *plugin) bool {
				before := network.Allocation{Node: node}
				return p.allocationHelps(waits, before.Object(), before.With(podOwner("1", 1)).Object())
			},
		},
		"a reservation given back": {
			helps: func(p *plugin) bool { return p.podHelps(waits, askingPod("1", "1", node), nil) }, wanted: true,
		},
		"a Pod ended whose claim still stands": {
			arrange: func(t *testing.T, w *world) { must(t, w.claim(t, podOwner("1", 1))) },
			helps:   func(p *plugin) bool { return p.podHelps(waits, askingPod("1", "1", node), nil) },
		},
		"a Pod without slots ended": {
			helps: func(p *plugin) bool { return p.podHelps(waits, &v1.Pod{Spec: v1.PodSpec{NodeName: node}}, nil) },
		},
		"another number of slots": {
			helps:  func(p *plugin) bool { return p.podHelps(waits, askingPod("waits", "many", ""), waits) },
			wanted: true,
		},
		"another annotation": {
			helps: func(p *plugin) bool {
				changed := waits.DeepCopy()
				changed.Annotations["example.com/beat"] = "1"
				return p.podHelps(waits, waits, changed)
			},
		},
		"another Pod's number of slots": {
			helps: func(p *plugin) bool { return p.podHelps(waits, askingPod("1", "1", ""), askingPod("1", "2", "")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			world := newWorld(t, 8)
			if test.arrange != nil {
				test.arrange(t, world)
			}
			args := Args{NodeLabel: Label{Key: label, Value: "true"}, MaxAge: metav1.Duration{Duration: maxAge}}
			plugin := &plugin{args: args, slots: &Slots{view: world.view, reconciler: world.reconciler}}
			if helps := test.helps(plugin); helps != test.wanted {
				t.Errorf("it helps: %v", helps)
			}
		})
	}
}

func askingPod(uid, slots, boundTo string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: podOwner(uid, 1).UID, Annotations: map[string]string{network.Annotation: slots}},
		Spec:       v1.PodSpec{NodeName: boundTo},
	}
}

func networkNode(value string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{label: value}}}
}
