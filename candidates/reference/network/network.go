// Package network is the API of network slots: what a Pod asks for, what a node has, and who owns it.
package network

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Annotation of a Pod says how many slots it asks for; the same one of a node, how many its hardware has.
	Annotation = "network.unreserve.dev/slots"
	// MostSlots is the most that a Pod may ask for and a node may have.
	MostSlots = 1024

	group, version = "network.unreserve.dev", "v1"
	shown          = 40 // runes of a refused value that a message repeats
)

// Resources of the API. All objects are named like the node that they are about.
var (
	Capacities  = schema.GroupVersionResource{Group: group, Version: version, Resource: "networkcapacities"}
	Allocations = schema.GroupVersionResource{Group: group, Version: version, Resource: "networkallocations"}
)

// Asked returns how many slots a Pod asks for; 0 where it does not mention them.
func Asked(pod *v1.Pod) (int, error) {
	value, mentioned := pod.Annotations[Annotation]
	if !mentioned {
		return 0, nil
	}
	slots, err := number(value)
	if err == nil && slots == 0 {
		err = errors.New("no slots")
	}
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %s is no number from 1 to %d", Annotation, short(value), MostSlots)
	}
	return slots, nil
}

// Has returns how many slots the hardware of a node has; false where it does not say.
func Has(node metav1.Object) (int, bool) {
	slots, err := number(node.GetAnnotations()[Annotation])
	return slots, err == nil
}

func number(text string) (int, error) {
	parsed, err := strconv.ParseUint(text, 10, 16) // takes no sign and no space
	if err != nil {
		return 0, err
	}
	if parsed > MostSlots {
		return 0, strconv.ErrRange
	}
	return int(parsed), nil
}

func short(value string) string {
	if runes := []rune(value); len(runes) > shown {
		return strconv.Quote(string(runes[:shown]) + "…")
	}
	return strconv.Quote(value)
}

// Capacity is what the controller publishes about one node.
type Capacity struct {
	Node       string
	Slots      int
	ObservedAt time.Time // the zero time: never yet
}

// CapacityOf reads a NetworkCapacity.
func CapacityOf(object *unstructured.Unstructured) Capacity {
	capacity := Capacity{Node: object.GetName()}
	slots, found, _ := unstructured.NestedInt64(object.Object, "status", "slots")
	text, _, _ := unstructured.NestedString(object.Object, "status", "observedAt")
	if at, err := time.Parse(time.RFC3339, text); err == nil && found {
		capacity.Slots, capacity.ObservedAt = int(slots), at
	}
	return capacity
}

// Current says whether the capacity may be trusted now.
func (c Capacity) Current(now time.Time, maxAge time.Duration) bool {
	return !c.ObservedAt.IsZero() && now.Sub(c.ObservedAt) <= maxAge
}

// Owner is a Pod that owns slots of a node. Its identity is the UID alone; the names are for people and for lookups.
type Owner struct {
	UID       types.UID
	Namespace string
	Name      string
	Slots     int
}

// Allocation says who owns the slots of one node.
type Allocation struct {
	Node    string
	Version string // resourceVersion; empty while the object does not exist
	Owners  []Owner
}

// AllocationOf reads a NetworkAllocation.
func AllocationOf(object *unstructured.Unstructured) Allocation {
	allocation := Allocation{Node: object.GetName(), Version: object.GetResourceVersion()}
	owners, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "owners")
	entries, _ := owners.([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		text := func(name string) string { value, _ := fields[name].(string); return value }
		slots, _ := fields["slots"].(int64)
		allocation.Owners = append(allocation.Owners, Owner{
			UID: types.UID(text("uid")), Namespace: text("namespace"), Name: text("name"), Slots: int(slots),
		})
	}
	return allocation
}

// Object returns the NetworkAllocation to write. The API server refuses it if the object has changed since it was read.
func (a Allocation) Object() *unstructured.Unstructured {
	owners := make([]any, 0, len(a.Owners))
	for _, owner := range a.Owners {
		owners = append(owners, map[string]any{
			"uid": string(owner.UID), "namespace": owner.Namespace, "name": owner.Name, "slots": int64(owner.Slots),
		})
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"owners": owners}}}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind("NetworkAllocation")
	object.SetName(a.Node)
	object.SetResourceVersion(a.Version)
	return object
}

// With returns the allocation with the owner added, or its entry replaced.
func (a Allocation) With(owner Owner) Allocation {
	a = a.Without(owner.UID)
	a.Owners = append(a.Owners, owner)
	return a
}

// Without returns the allocation with the owner removed, and that one alone.
func (a Allocation) Without(uid types.UID) Allocation {
	owners := make([]Owner, 0, len(a.Owners)+1)
	for _, owner := range a.Owners {
		if owner.UID != uid {
			owners = append(owners, owner)
		}
	}
	a.Owners = owners
	return a
}

// Owner returns the entry of a Pod.
func (a Allocation) Owner(uid types.UID) (Owner, bool) {
	for _, owner := range a.Owners {
		if owner.UID == uid {
			return owner, true
		}
	}
	return Owner{}, false
}

// Taken returns how many slots are owned.
func (a Allocation) Taken() int {
	taken := 0
	for _, owner := range a.Owners {
		taken += owner.Slots
	}
	return taken
}
