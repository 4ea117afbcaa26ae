package slots

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Why nodes, or whole Pods, are refused: values of the label `reason`.
const (
	refusedMalformed = "malformed"
	refusedNetwork   = "network"
	refusedCapacity  = "capacity"
	refusedSlots     = "slots"
)

var (
	refusals = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "network_slots_refused_total",
		Help:           "Nodes refused to a Pod, and Pods refused before any node was looked at, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	conflicts = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "network_slots_claim_conflicts_total",
		Help:           "Claims of slots for which somebody else was faster.",
		StabilityLevel: metrics.ALPHA,
	})

	reservedSlots = metrics.NewDesc("network_slots_reserved",
		"Slots held by Pods that are reserved and not bound yet.", nil, nil, metrics.ALPHA, "")
	ownedSlots = metrics.NewDesc("network_slots_owned",
		"Slots owned by Pods, on all nodes, as last seen.", nil, nil, metrics.ALPHA, "")
	pendingReleases = metrics.NewDesc("network_slots_releases_pending",
		"Reservations that are given back as soon as it is known what became of their Pods.", nil, nil, metrics.ALPHA, "")
)

// gauges reads the gauges when they are asked for.
type gauges struct {
	metrics.BaseStableCollector
	view *view
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- reservedSlots
	descriptions <- ownedSlots
	descriptions <- pendingReleases
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(found chan<- metrics.Metric) {
	slots, pending := g.view.ledger.totals()
	found <- metrics.NewLazyConstMetric(reservedSlots, metrics.GaugeValue, float64(slots))
	found <- metrics.NewLazyConstMetric(ownedSlots, metrics.GaugeValue, float64(g.view.owned()))
	found <- metrics.NewLazyConstMetric(pendingReleases, metrics.GaugeValue, float64(pending))
}

func registerMetrics(view *view) {
	legacyregistry.MustRegister(refusals, conflicts)
	legacyregistry.CustomMustRegister(&gauges{view: view})
	for _, reason := range []string{refusedMalformed, refusedNetwork, refusedCapacity, refusedSlots} {
		refusals.WithLabelValues(reason)
	}
}
