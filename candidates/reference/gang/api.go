package gang

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Label makes a Pod a member of the Gang of that name in its namespace.
	Label = "gang.unreserve.dev/name"

	// longestWait is the longest that the framework lets a Pod wait at Permit.
	longestWait    = 15 * time.Minute
	defaultTimeout = time.Minute
)

// Resource is the API resource of Gangs.
var Resource = schema.GroupVersionResource{Group: "gang.unreserve.dev", Version: "v1", Resource: "gangs"}

// key names a Gang.
type key = types.NamespacedName

// keyOf returns the Gang that a Pod is a member of.
func keyOf(pod metav1.Object) (key, bool) {
	name := pod.GetLabels()[Label]
	return key{Namespace: pod.GetNamespace(), Name: name}, name != ""
}

// spec is what a Gang object asks for.
type spec struct {
	minMember int
	timeout   time.Duration
	created   time.Time
}

func specOf(object *unstructured.Unstructured) spec {
	minMember, _, _ := unstructured.NestedInt64(object.Object, "spec", "minMember")
	seconds, found, _ := unstructured.NestedInt64(object.Object, "spec", "timeoutSeconds")
	timeout := defaultTimeout
	if found && seconds > 0 {
		timeout = min(time.Duration(seconds)*time.Second, longestWait)
	}
	return spec{minMember: max(int(minMember), 1), timeout: timeout, created: object.GetCreationTimestamp().Time}
}

// member is what the API server says about one Pod of a gang.
type member struct {
	uid    types.UID
	name   string
	node   string // empty while it is not bound
	ready  bool
	ended  bool // succeeded or failed
	failed bool
	going  bool // is being deleted
	gated  bool // has scheduling gates, so that nobody tries it yet
}

func memberOf(pod *v1.Pod) member {
	ready := false
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady {
			ready = condition.Status == v1.ConditionTrue
		}
	}
	return member{
		uid:    pod.UID,
		name:   pod.Name,
		node:   pod.Spec.NodeName,
		ready:  ready,
		ended:  pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed,
		failed: pod.Status.Phase == v1.PodFailed,
		going:  pod.DeletionTimestamp != nil,
		gated:  len(pod.Spec.SchedulingGates) > 0,
	}
}

// bound says whether it counts as a bound member: one that ran to its end does.
func (m member) bound() bool { return m.node != "" && !m.failed && !m.going }

// waits says whether it still has to be bound.
func (m member) waits() bool { return m.node == "" && !m.ended && !m.going }

// facts are what the API server says about one gang.
type facts struct {
	known   bool // the Gang object exists
	spec    spec
	members []member
}

func (f facts) get(uid types.UID) (member, bool) {
	for _, m := range f.members {
		if m.uid == uid {
			return m, true
		}
	}
	return member{}, false
}

// with returns the facts with a Pod in it that the scheduler has seen, and its watch of members perhaps not yet.
func (f facts) with(pod *v1.Pod) facts {
	if _, ok := f.get(pod.UID); !ok {
		f.members = append(f.members[:len(f.members):len(f.members)], memberOf(pod))
	}
	return f
}

// without returns the facts without a Pod that is gone.
func (f facts) without(uid types.UID) facts {
	members := make([]member, 0, len(f.members))
	for _, m := range f.members {
		if m.uid != uid {
			members = append(members, m)
		}
	}
	f.members = members
	return f
}
