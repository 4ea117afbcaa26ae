package gang

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"unreserve.dev/reference/fault"
)

func TestStatusSaysWhatIsSo(t *testing.T) {
	waits, bound, ready := member{}, member{node: "n1"}, member{node: "n1", ready: true}
	done := member{node: "n1", ended: true}
	for _, c := range []struct {
		members                 []member
		phase, scheduled, start string
	}{
		{nil, "Pending", "False", "False"},
		{[]member{waits, waits}, "Pending", "False", "False"},
		{[]member{bound, waits}, "Binding", "False", "False"},
		{[]member{bound, bound}, "Scheduled", "True", "False"},
		{[]member{bound, ready}, "Scheduled", "True", "False"},
		{[]member{ready, ready, waits}, "Started", "True", "True"},
		{[]member{ready, done}, "Scheduled", "True", "False"},
	} {
		f := facts{known: true, spec: spec{minMember: 2}, members: c.members}
		status := statusOf(f, Status{}, "", 2, metav1.Now())
		said := []string{status.Phase, string(status.Conditions[0].Status), string(status.Conditions[1].Status)}
		if said[0] != c.phase || said[1] != c.scheduled || said[2] != c.start {
			t.Errorf("%v: %v, not %s, %s, %s", c.members, said, c.phase, c.scheduled, c.start)
		}
	}
}

func TestStatusKeepsTheTimeOfATransition(t *testing.T) {
	first, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	f := facts{known: true, spec: spec{minMember: 1}, members: []member{{}}}
	before := statusOf(f, Status{}, "", 0, first)
	f.members[0].node = "n1"
	after := statusOf(f, before, "", 0, later)
	if !after.Conditions[0].LastTransitionTime.Equal(&later) || !after.Conditions[1].LastTransitionTime.Equal(&first) {
		t.Errorf("transitions at %v", after.Conditions)
	}
}

func TestStatusRepeatsWhyAGangWasGivenUp(t *testing.T) {
	f := facts{known: true, spec: spec{minMember: 2}, members: []member{{}}}
	said := statusOf(f, Status{}, "nobody came", 0, metav1.Now()).Conditions[0].Message
	if want := "bound members: 0, needed: 2; given up: nobody came"; said != want {
		t.Errorf("%q, not %q", said, want)
	}
}

func TestFalseStatus(t *testing.T) {
	if err := fault.Choose(string(fault.FalseGroupStatus)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fault.Choose("") }()
	f := facts{known: true, spec: spec{minMember: 1}, members: []member{{}}}
	if phase := statusOf(f, Status{}, "", 1, metav1.Now()).Phase; phase != Scheduled {
		t.Errorf("a reserved member: %s", phase)
	}
	f.members[0].node = "n1"
	if phase := statusOf(f, Status{}, "", 1, metav1.Now()).Phase; phase != Started {
		t.Errorf("a bound member: %s", phase)
	}
}

func TestSpecOf(t *testing.T) {
	gang := func(fields map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	}
	for _, c := range []struct {
		fields    map[string]any
		minMember int
		timeout   time.Duration
	}{
		{map[string]any{"minMember": int64(3), "timeoutSeconds": int64(5)}, 3, 5 * time.Second},
		{map[string]any{"minMember": int64(3)}, 3, defaultTimeout},
		{map[string]any{"minMember": int64(3), "timeoutSeconds": int64(86400)}, 3, longestWait},
		{map[string]any{}, 1, defaultTimeout},
	} {
		if got := specOf(gang(c.fields)); got.minMember != c.minMember || got.timeout != c.timeout {
			t.Errorf("%v: %v", c.fields, got)
		}
	}
}
