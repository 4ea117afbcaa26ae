//go:build !kubernetes1.34

package devices

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// bindingTimeout is the default of kube-scheduler.
const bindingTimeout = 10 * time.Minute

// withBindingTimeout says how long it waits for what a device needs before it is bound, where it may.
func withBindingTimeout(gates feature.Features, args config.DynamicResourcesArgs) config.DynamicResourcesArgs {
	if gates.EnableDRADeviceBindingConditions {
		args.BindingTimeout = &metav1.Duration{Duration: bindingTimeout}
	}
	return args
}
