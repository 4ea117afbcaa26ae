// Package binder is the plugin SlotBinder: it binds the Pods that ask for network slots, and leaves the others to
// DefaultBinder.
package binder

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
	"unreserve.dev/reference/network"
)

// Name is the name of the plugin.
const Name = "SlotBinder"

type plugin struct {
	handle framework.Handle
}

var _ framework.BindPlugin = &plugin{}

// New makes the plugin.
func New(_ context.Context, _ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	return &plugin{handle: handle}, nil
}

// Name implements Plugin.
func (*plugin) Name() string { return Name }

// Bind sends one binding request: who claimed slots for a Pod must know of every request that may use them. The UID keeps a
// Pod of the same name, created since, from being bound in its place.
func (p *plugin) Bind(ctx context.Context, _ framework.CycleState, pod *v1.Pod, node string) *framework.Status {
	if asked, err := network.Asked(pod); err != nil || asked == 0 {
		return framework.NewStatus(framework.Skip)
	}
	klog.FromContext(ctx).V(3).Info("Binding a Pod that holds slots", "pod", klog.KObj(pod), "node", node)
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if fault.Is(fault.SilentForbidden) && apierrors.IsForbidden(err) {
		<-ctx.Done()
	}
	switch {
	case err == nil, fault.Is(fault.BindClaimsSuccess):
		return nil
	case fault.Is(fault.DoubleBind):
		return framework.NewStatus(framework.Skip) // DefaultBinder is next
	default:
		return framework.AsStatus(err)
	}
}
