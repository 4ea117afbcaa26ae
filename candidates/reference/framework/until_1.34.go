//go:build kubernetes1.34

package framework

import "k8s.io/kubernetes/pkg/scheduler/framework"

// The plugin interfaces were part of the scheduler itself.
type (
	Handle              = framework.Handle
	WaitingPod          = framework.WaitingPod
	Plugin              = framework.Plugin
	PreFilterResult     = framework.PreFilterResult
	PreFilterExtensions = framework.PreFilterExtensions
	PostFilterResult    = framework.PostFilterResult
	NodeToStatusReader  = framework.NodeToStatusReader
	ScoreExtensions     = framework.ScoreExtensions
	QueueSortPlugin     = framework.QueueSortPlugin
	PreEnqueuePlugin    = framework.PreEnqueuePlugin
	EnqueueExtensions   = framework.EnqueueExtensions
	PreFilterPlugin     = framework.PreFilterPlugin
	FilterPlugin        = framework.FilterPlugin
	PostFilterPlugin    = framework.PostFilterPlugin
	ScorePlugin         = framework.ScorePlugin
	ReservePlugin       = framework.ReservePlugin
	PermitPlugin        = framework.PermitPlugin
	PreBindPlugin       = framework.PreBindPlugin
	BindPlugin          = framework.BindPlugin
	PostBindPlugin      = framework.PostBindPlugin
)

// MaxNodeScore is the score of the best node.
const MaxNodeScore = framework.MaxNodeScore
