//go:build kubernetes1.34

package devices

import (
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// withBindingTimeout changes nothing: no device needs anything before it is bound.
func withBindingTimeout(_ feature.Features, args config.DynamicResourcesArgs) config.DynamicResourcesArgs {
	return args
}
