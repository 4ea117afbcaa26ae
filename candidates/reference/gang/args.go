package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Args configure the plugin, in the pluginConfig of a profile.
type Args struct {
	// ReserveForMissing lets members take room and wait at Permit while others are not created yet. Without it they are
	// refused until minMember Pods exist.
	ReserveForMissing bool `json:"reserveForMissing"`
	// Kinds are those whose changes other plugins of the profile wait for, beside what kube-scheduler itself watches, as
	// plural.version.group.
	Kinds []string `json:"kinds"`
}

func readArgs(raw runtime.Object) (Args, error) {
	var args Args
	if err := frameworkruntime.DecodeInto(raw, &args); err != nil {
		return Args{}, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	return args, nil
}
