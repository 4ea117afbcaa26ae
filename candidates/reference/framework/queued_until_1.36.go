//go:build kubernetes1.34 || kubernetes1.35 || kubernetes1.36

package framework

import "k8s.io/kube-scheduler/framework"

// Queued is what a QueueSort plugin compares.
type Queued = framework.QueuedPodInfo
