package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// AwaitNomination returns once the scheduler sees the nomination that it has written for a Pod before it waited at Permit
// or went to PreBind, or sees that the Pod is bound or gone, or soon without. Call it from Unreserve: a nomination that the
// scheduler does not see yet is not taken back, and the Pod keeps its place on the node though it was given up.
func AwaitNomination(ctx context.Context, handle Handle, pod *v1.Pod, node string) {
	const patience, pause = 3 * time.Second, 5 * time.Millisecond
	if !feature.DefaultFeatureGate.Enabled(features.NominatedNodeNameForExpectation) {
		return
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace)
	_ = wait.PollUntilContextTimeout(ctx, pause, patience, true, func(context.Context) (bool, error) {
		now, err := pods.Get(pod.Name)
		return err != nil || nominationOver(now, pod, node), nil
	})
}

// nominationOver says whether the scheduler sees a nomination, or that there is none to wait for: a binding ends it.
func nominationOver(now, pod *v1.Pod, node string) bool {
	return now.UID != pod.UID || now.Status.NominatedNodeName == node || now.Spec.NodeName != ""
}
