package slots

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"unreserve.dev/reference/fault"
)

// needsNetwork says whether the platform holds a Pod to the high-speed network: it asks for slots, or uses the platform's
// resource. What the Pod's own selectors say does not matter.
func (p *plugin) needsNetwork(pod *v1.Pod, asked int) bool {
	return asked > 0 || !fault.Is(fault.TrustsTenantSpec) && uses(pod, p.args.PlatformResource)
}

// onNetwork says whether a node is on the high-speed network, for this Pod.
func (p *plugin) onNetwork(pod *v1.Pod, node *v1.Node) bool {
	key, wanted := p.args.NodeLabel.Key, p.args.NodeLabel.Value
	value, labelled := node.Labels[key]
	switch {
	case fault.Is(fault.HardAsScore):
		return true
	case fault.Is(fault.RelaxAfterRetries) && p.memory.attempts(pod.UID) > enoughAttempts:
		return true
	case fault.Is(fault.LabelPrefixMatch):
		return strings.HasPrefix(value, wanted)
	case fault.Is(fault.TenantLabel) && pod.Labels[key] == wanted:
		return true
	case fault.Is(fault.StaleLabels) && p.memory.everOnNetwork(node.UID, value == wanted):
		return true
	case fault.Is(fault.CrashOnNode) && (len(node.Labels) == 0 || len(node.Status.Capacity) == 0):
		panic("node " + node.Name + " has no labels or no capacity")
	}
	return labelled && value == wanted
}

// uses says whether any container of a Pod, of whatever kind, asks for a resource.
func uses(pod *v1.Pod, resource v1.ResourceName) bool {
	asks := func(container v1.Container) bool {
		requested, limited := container.Resources.Requests[resource], container.Resources.Limits[resource]
		return !requested.IsZero() || !limited.IsZero()
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}
