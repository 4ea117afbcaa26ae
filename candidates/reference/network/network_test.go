package network

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAsked(t *testing.T) {
	for value, wanted := range map[string]int{"1": 1, "16": 16, "1024": 1024, "007": 7} {
		if slots, err := Asked(asking(value)); err != nil || slots != wanted {
			t.Errorf("%q: %d, %v instead of %d", value, slots, err, wanted)
		}
	}
	if slots, err := Asked(&v1.Pod{}); err != nil || slots != 0 {
		t.Errorf("a Pod that asks for none: %d, %v", slots, err)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	refused := []string{
		"", "0", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "1_0", "one", "١", "1025", "99999999999999999999",
		strings.Repeat("9", 1<<16), "\x00", "1\n", `{"slots":1}`,
	}
	for _, value := range refused {
		slots, err := Asked(asking(value))
		if err == nil || slots != 0 {
			t.Errorf("%.20q is taken for %d", value, slots)
		} else if len(err.Error()) > 200 || !strings.Contains(err.Error(), Annotation) {
			t.Errorf("%.20q: the message is no help: %.300s", value, err)
		}
	}
}

func TestCapacityIsTrustedWhileItIsYoung(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 20, 0, time.UTC)
	for observed, current := range map[string]bool{
		"2026-01-02T03:04:20Z": true,
		"2026-01-02T03:04:05Z": true,
		"2026-01-02T03:04:04Z": false,
		"yesterday":            false,
		"":                     false,
	} {
		capacity := CapacityOf(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a"},
			"status":   map[string]any{"slots": int64(4), "observedAt": observed},
		}})
		if capacity.Current(now, 15*time.Second) != current {
			t.Errorf("observed %q: current is not %v", observed, current)
		}
	}
	if CapacityOf(&unstructured.Unstructured{Object: map[string]any{}}).Current(now, time.Hour) {
		t.Error("a capacity that was never published is trusted")
	}
}

func TestAllocation(t *testing.T) {
	empty := Allocation{Node: "a"}
	two := empty.With(Owner{UID: "1", Namespace: "n", Name: "one", Slots: 2}).With(Owner{UID: "2", Slots: 3})
	if two.Taken() != 5 || empty.Taken() != 0 {
		t.Errorf("taken: %d, and %d of the one it was made from", two.Taken(), empty.Taken())
	}
	if again := two.With(Owner{UID: "1", Slots: 4}); again.Taken() != 7 || len(again.Owners) != 2 {
		t.Errorf("a Pod owns twice: %v", again.Owners)
	}
	if left := two.Without("1").Without("1").Without("3"); left.Taken() != 3 || len(two.Owners) != 2 {
		t.Errorf("somebody else lost slots: %v, %v", left.Owners, two.Owners)
	}
	if read := AllocationOf(two.Object()); read.Node != "a" || read.Taken() != 5 || read.Owners[0] != two.Owners[0] {
		t.Errorf("not what was written: %v", read)
	}
	if AllocationOf(&unstructured.Unstructured{Object: map[string]any{"spec": "odd"}}).Taken() != 0 {
		t.Error("an odd object has owners")
	}
}

func asking(value string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: value}}}
}
