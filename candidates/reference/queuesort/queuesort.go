// Package queuesort holds a QueueSort plugin beside the default one. Every profile of one process must name the same:
// a configuration with both is refused at start.
package queuesort

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"unreserve.dev/reference/framework"
)

// Name is the name of the plugin.
const Name = "ArrivalSort"

// Plugin puts the Pod first that came first, whatever its priority.
type Plugin struct{}

var _ framework.QueueSortPlugin = Plugin{}

// New makes the plugin.
func New(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
	return Plugin{}, nil
}

// Name implements Plugin.
func (Plugin) Name() string { return Name }

// Less implements QueueSortPlugin.
func (Plugin) Less(one, other framework.Queued) bool {
	return one.GetTimestamp().Before(other.GetTimestamp())
}
