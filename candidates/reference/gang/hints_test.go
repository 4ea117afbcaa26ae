package gang

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodesThatCanTakeAPod(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"fast": "yes"}}}
	node := func(change func(*v1.Node)) *v1.Node {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"fast": "yes"}}}
		node.Status.Allocatable = v1.ResourceList{"gpu": resource.MustParse("2")}
		change(node)
		return node
	}
	whole := node(func(*v1.Node) {})
	more := node(func(n *v1.Node) { n.Status.Allocatable["gpu"] = resource.MustParse("3") })
	tainted := node(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}} })
	for name, no := range map[string]*v1.Node{
		"tainted": tainted, "cordoned": node(func(n *v1.Node) { n.Spec.Unschedulable = true }),
		"elsewhere": node(func(n *v1.Node) { n.Labels["fast"] = "no" }),
	} {
		if admits(no, pod) {
			t.Errorf("a node that is %s is taken for one that admits it", name)
		}
	}
	tolerant := pod.DeepCopy()
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: "x", Operator: v1.TolerationOpExists}}
	if !admits(whole, pod) || !admits(tainted, tolerant) {
		t.Error("a node that admits it is not taken for one")
	}
	for name, c := range map[string]struct {
		before, after *v1.Node
		better        bool
	}{
		"a new node": {nil, whole, true}, "more of it": {whole, more, true}, "less of it": {more, whole, false},
		"no taint any more": {tainted, whole, true}, "a taint": {whole, tainted, false}, "nothing": {whole, whole, false},
		"other labels": {whole, node(func(n *v1.Node) { n.Labels["zone"] = "b" }), true},
	} {
		if better(c.before, c.after, pod) != c.better {
			t.Errorf("%s: it is better: %t", name, !c.better)
		}
	}
	if !grew(whole, more) || grew(more, whole) || grew(whole, whole) {
		t.Error("growth is not seen as it is")
	}
}

func TestTimesAreNoChange(t *testing.T) {
	capacity := func(slots int64, at string) any {
		return timeless(map[string]any{
			"metadata": map[string]any{"resourceVersion": at}, "status": map[string]any{"slots": slots, "observedAt": at},
		})
	}
	same := reflect.DeepEqual
	if !same(capacity(1, "2026-01-01T00:00:00Z"), capacity(1, "2026-01-01T00:00:03Z")) {
		t.Error("a heartbeat is a change")
	}
	if same(capacity(1, "2026-01-01T00:00:00Z"), capacity(2, "2026-01-01T00:00:00Z")) {
		t.Error("growth is no change")
	}
}
