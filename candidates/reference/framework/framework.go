// Package framework names what the plugins use of the scheduling framework, the same in every supported Kubernetes minor.
//
// Build with the tag of the minor, such as kubernetes1.37. What moved or changed between minors stands in the other
// files of this folder, and nowhere else.
package framework

import (
	"k8s.io/kube-scheduler/framework"
)

// The same in all minors.
type (
	Status               = framework.Status
	Code                 = framework.Code
	CycleState           = framework.CycleState
	StateData            = framework.StateData
	StateKey             = framework.StateKey
	NodeInfo             = framework.NodeInfo
	PodInfo              = framework.PodInfo
	EventResource        = framework.EventResource
	ActionType           = framework.ActionType
	QueueingHintFn       = framework.QueueingHintFn
	ClusterEvent         = framework.ClusterEvent
	ClusterEventWithHint = framework.ClusterEventWithHint
	QueueingHint         = framework.QueueingHint
)

// Status codes and queueing hints.
const (
	Success                      = framework.Success
	Error                        = framework.Error
	Unschedulable                = framework.Unschedulable
	UnschedulableAndUnresolvable = framework.UnschedulableAndUnresolvable
	Wait                         = framework.Wait
	Skip                         = framework.Skip
	Queue                        = framework.Queue
	QueueSkip                    = framework.QueueSkip
)

// Kinds and actions of cluster events.
const (
	Pod                   = framework.Pod
	Node                  = framework.Node
	ResourceSlice         = framework.ResourceSlice
	Add                   = framework.Add
	Update                = framework.Update
	Delete                = framework.Delete
	UpdateNodeLabel       = framework.UpdateNodeLabel
	UpdateNodeTaint       = framework.UpdateNodeTaint
	UpdateNodeAllocatable = framework.UpdateNodeAllocatable
	UpdatePodScaleDown    = framework.UpdatePodScaleDown
)

// Volumes and Devices are the kinds beside Pods and Nodes for whose changes the default plugins wait.
var (
	Volumes = []EventResource{
		framework.PersistentVolume, framework.PersistentVolumeClaim, framework.StorageClass, framework.CSINode,
		framework.CSIDriver, framework.CSIStorageCapacity, framework.VolumeAttachment,
	}
	Devices = []EventResource{framework.ResourceClaim, framework.ResourceSlice, framework.DeviceClass}
)

// Functions.
var (
	NewStatus = framework.NewStatus
	AsStatus  = framework.AsStatus
)
