// Package devices is the plugin Devices: DynamicResources of kube-scheduler under a name of its own, so that it can be wrong
// in one known way. No profile of the reference scheduler uses it.
package devices

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
)

// Name is the name of the plugin.
const Name = "Devices"

// filterTimeout is the default of kube-scheduler, which knows it for its own plugin only.
const filterTimeout = 10 * time.Second

type plugin struct {
	*dynamicresources.DynamicResources
}

var (
	_ framework.EnqueueExtensions = &plugin{}
	_ framework.ReservePlugin     = &plugin{}
	_ framework.PreBindPlugin     = &plugin{}
)

// New makes the plugin.
func New(ctx context.Context, _ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	args := withBindingTimeout(gates, config.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: filterTimeout}})
	made, err := dynamicresources.New(ctx, &args, handle, gates)
	if err != nil {
		return nil, err
	}
	return &plugin{made.(*dynamicresources.DynamicResources)}, nil
}

// Name implements Plugin.
func (*plugin) Name() string { return Name }

// EventsToRegister names what may help a Pod that waits for devices.
func (p *plugin) EventsToRegister(ctx context.Context) ([]framework.ClusterEventWithHint, error) {
	events, err := p.DynamicResources.EventsToRegister(ctx)
	if fault.Is(fault.NoWakeDevices) {
		events = slices.DeleteFunc(events, func(event framework.ClusterEventWithHint) bool {
			return event.Event.Resource == framework.ResourceSlice
		})
	}
	return events, err
}

// Unreserve gives the devices back.
func (p *plugin) Unreserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) {
	if fault.Is(fault.LeakDevices) {
		return
	}
	p.DynamicResources.Unreserve(ctx, state, pod, node)
}
