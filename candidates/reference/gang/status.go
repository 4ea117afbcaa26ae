package gang

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"unreserve.dev/reference/fault"
)

// Types of conditions of a Gang.
const (
	Scheduled = "Scheduled" // minMember members are bound
	Started   = "Started"   // minMember members are bound and Ready
)

// Status is the status of a Gang.
type Status struct {
	Phase      string             `json:"phase"`
	Members    int                `json:"members"`
	Bound      int                `json:"bound"`
	Ready      int                `json:"ready"`
	Conditions []metav1.Condition `json:"conditions"`
}

// statusOf returns the status that is due. It rests on what the API server says alone: `why` is only repeated, and
// `reserved` counts for nothing.
func statusOf(f facts, before Status, why string, reserved int, now metav1.Time) Status {
	status := Status{Members: len(f.members)}
	for _, m := range f.members {
		if m.node != "" {
			status.Bound++
			if m.ready {
				status.Ready++
			}
		}
	}
	bound, ready := status.Bound, status.Ready
	if fault.Is(fault.FalseGroupStatus) {
		bound, ready = max(bound, reserved), bound
	}
	needed := f.spec.minMember
	scheduled, started := bound >= needed, ready >= needed
	switch {
	case started:
		status.Phase = Started
	case scheduled:
		status.Phase = Scheduled
	case bound > 0:
		status.Phase = "Binding"
	default:
		status.Phase = "Pending"
	}
	said := fmt.Sprintf("bound members: %d, needed: %d", bound, needed)
	if !scheduled && why != "" {
		said += "; given up: " + why
	}
	status.Conditions = []metav1.Condition{
		condition(before, Scheduled, scheduled, "EnoughBound", "TooFewBound", said, now),
		condition(before, Started, started, "EnoughReady", "TooFewReady",
			fmt.Sprintf("bound members that are Ready: %d, needed: %d", ready, needed), now),
	}
	return status
}

func condition(before Status, kind string, holds bool, yes, no, message string, now metav1.Time) metav1.Condition {
	said := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: no, Message: message, LastTransitionTime: now,
	}
	if holds {
		said.Status, said.Reason = metav1.ConditionTrue, yes
	}
	for _, was := range before.Conditions {
		if was.Type == kind && was.Status == said.Status {
			said.LastTransitionTime = was.LastTransitionTime
		}
	}
	return said
}
