//go:build kubernetes1.34 || kubernetes1.35

package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// AlwaysPreBinds says, embedded in a plugin, that its PreBind has work for every Pod.
type AlwaysPreBinds struct{}

// PreBindPreFlight implements PreBindPlugin.
func (AlwaysPreBinds) PreBindPreFlight(context.Context, CycleState, *v1.Pod, string) *Status {
	return nil
}

// PreBindsIf says, embedded in a plugin, for which Pods its PreBind has work.
type PreBindsIf func(CycleState, *v1.Pod) bool

// PreBindPreFlight implements PreBindPlugin.
func (has PreBindsIf) PreBindPreFlight(_ context.Context, state CycleState, pod *v1.Pod, _ string) *Status {
	if has(state, pod) {
		return nil
	}
	return NewStatus(Skip)
}
