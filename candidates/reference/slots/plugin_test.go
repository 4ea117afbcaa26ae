package slots

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/kubernetes/pkg/scheduler/framework"

	"unreserve.dev/reference/framework"
)

func newPlugin(world *world) *plugin {
	args := Args{
		NodeLabel: Label{Key: label, Value: "true"}, PlatformResource: "nvidia.com/gpu",
		MaxAge: metav1.Duration{Duration: maxAge},
	}
	shared := &Slots{view: world.view, reconciler: world.reconciler, lead: func() {}}
	return &plugin{args: args, slots: shared}
}

func onNode(node *v1.Node) framework.NodeInfo {
	info := scheduling.NewNodeInfo()
	info.SetNode(node)
	return info
}

func gpuPod() *v1.Pod {
	gpus := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	sidecar := v1.Container{Resources: v1.ResourceRequirements{Limits: gpus}}
	return &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{sidecar}, Containers: []v1.Container{{}}}}
}

func TestWhyANodeIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *v1.Pod
		label   string
		arrange func(*testing.T, *world)
		reason  string
	}{
		"room":                       {pod: askingPod("1", "2", ""), label: "true"},
		"another value":              {pod: askingPod("1", "2", ""), label: "True", reason: reasonNetwork},
		"GPUs, without a word":       {pod: gpuPod(), label: "", reason: reasonNetwork},
		"GPUs, and slots for nobody": {pod: gpuPod(), label: "true", arrange: full},
		"full":                       {pod: askingPod("1", "2", ""), label: "true", arrange: full, reason: reasonSlots},
		"its own slots": {pod: askingPod("1", "2", ""), label: "true", arrange: func(t *testing.T, w *world) {
			must(t, w.claim(t, podOwner("1", 8)))
		}},
		"more than it has": {pod: askingPod("1", "9", ""), label: "true", reason: reasonSlots},
		"nothing published": {pod: askingPod("1", "2", ""), label: "true", arrange: func(t *testing.T, w *world) {
			must(t, w.capacities.Delete(capacity(8, time.Now())))
		}, reason: reasonCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			world, state := newWorld(t, 8), scheduling.NewCycleState()
			if test.arrange != nil {
				test.arrange(t, world)
			}
			plugin := newPlugin(world)
			if _, status := plugin.PreFilter(t.Context(), state, test.pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			status := plugin.Filter(t.Context(), state, test.pod, onNode(networkNode(test.label)))
			if status.Message() != test.reason {
				t.Errorf("%q instead of %q", status.Message(), test.reason)
			}
		})
	}
}

func full(t *testing.T, world *world) {
	must(t, world.claim(t, podOwner("other", 8)))
}

func TestWhatPreFilterDecidesAlone(t *testing.T) {
	plugin := newPlugin(newWorld(t, 8))
	_, status := plugin.PreFilter(t.Context(), scheduling.NewCycleState(), askingPod("1", "many", ""), nil)
	if status.Code() != framework.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), `"many"`) {
		t.Errorf("a malformed request: %v", status)
	}
	if _, status = plugin.PreFilter(t.Context(), scheduling.NewCycleState(), &v1.Pod{}, nil); !status.IsSkip() {
		t.Errorf("a Pod that needs no network: %v", status)
	}
}

func TestPreemptionSeesTheSlotsOfItsVictims(t *testing.T) {
	world, state, waits := newWorld(t, 8), scheduling.NewCycleState(), askingPod("1", "2", "")
	must(t, world.claim(t, podOwner("victim", 8)))
	plugin, info := newPlugin(world), onNode(networkNode("true"))
	if _, status := plugin.PreFilter(t.Context(), state, waits, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	tried := state.Clone()
	remove := func(pod framework.PodInfo) { plugin.RemovePod(t.Context(), tried, waits, pod, info) }
	add := func(pod framework.PodInfo) { plugin.AddPod(t.Context(), tried, waits, pod, info) }
	for _, step := range []struct {
		does       func(framework.PodInfo)
		uid, slots string
		fits       bool
	}{
		{remove, "foreign", "5", false}, // it asks, and owns nothing
		{remove, "victim", "8", true},
		{add, "foreign", "5", true},
		{add, "nominated", "7", false},
		{add, "victim", "8", false},
	} {
		pod, err := scheduling.NewPodInfo(askingPod(step.uid, step.slots, node))
		must(t, err)
		step.does(pod)
		if fits := plugin.Filter(t.Context(), tried, waits, info).IsSuccess(); fits != step.fits {
			t.Errorf("after %s: it fits: %v", step.uid, fits)
		}
	}
	if plugin.Filter(t.Context(), state, waits, info).IsSuccess() {
		t.Error("what was tried has changed the attempt itself")
	}
}
