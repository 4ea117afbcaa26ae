package slots

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Args configure the plugin, in the pluginConfig of a profile.
type Args struct {
	// NodeLabel is what a node of the high-speed network carries. The platform sets it, never a tenant.
	NodeLabel Label `json:"nodeLabel"`
	// PlatformResource is the extended resource whose users are held to the network, whether they mention it or not.
	PlatformResource v1.ResourceName `json:"platformResource"`
	// MaxAge is how long a published capacity is trusted.
	MaxAge metav1.Duration `json:"maxAge"`
}

// Label is a label of a node. The value is compared exactly.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func readArgs(raw runtime.Object) (Args, error) {
	args := Args{MaxAge: metav1.Duration{Duration: 15 * time.Second}}
	if err := frameworkruntime.DecodeInto(raw, &args); err != nil {
		return Args{}, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	if args.NodeLabel.Key == "" {
		return Args{}, errors.New("arguments of " + Name + ": nodeLabel.key is missing")
	}
	if args.MaxAge.Duration <= 0 {
		return Args{}, errors.New("arguments of " + Name + ": maxAge must be positive")
	}
	return args, nil
}
