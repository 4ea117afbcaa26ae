package slots

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"unreserve.dev/reference/network"
)

// ownerIndex finds allocations by the UID of an owner.
const ownerIndex = "owner"

// room is what one node has for one Pod: the Pod's own slots are not counted as taken.
type room struct {
	slots, taken int
	current      bool // whether the capacity may be trusted
}

func (r room) free() int { return r.slots - r.taken }

// view is what this process knows: what the informers have delivered, its own later writes, and its ledger.
//
// The informers are those that wake Pods too. So whoever is woken by an event finds its object here.
type view struct {
	ledger                  *ledger
	capacities, allocations cache.Indexer

	mutex  sync.Mutex
	newest map[string]network.Allocation // by node; also saves reading the same object twice
}

func newView(ledger *ledger, capacities, allocations cache.Indexer) *view {
	return &view{
		ledger: ledger, capacities: capacities, allocations: allocations, newest: map[string]network.Allocation{},
	}
}

// capacity returns what was published about a node, the zero value where nothing was.
func (v *view) capacity(node string) network.Capacity {
	if object := get(v.capacities, node); object != nil {
		return network.CapacityOf(object)
	}
	return network.Capacity{Node: node}
}

// allocation returns the newest known allocation of a node, without owners where there is none.
func (v *view) allocation(node string) network.Allocation {
	object := get(v.allocations, node)
	v.mutex.Lock()
	defer v.mutex.Unlock()
	newest := v.newest[node]
	if object != nil && later(object.GetResourceVersion(), newest.Version) {
		newest = network.AllocationOf(object)
		v.newest[node] = newest
	}
	newest.Node = node
	return newest
}

// wrote notes the result of a write of our own, which the informer will deliver only later.
func (v *view) wrote(allocation network.Allocation) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if later(allocation.Version, v.newest[allocation.Node].Version) {
		v.newest[allocation.Node] = allocation
	}
}

// gone notes that the allocation of a node was deleted.
func (v *view) gone(node string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	delete(v.newest, node)
}

// allocated returns the nodes that have an allocation.
func (v *view) allocated() []string { return v.allocations.ListKeys() }

// owning returns the nodes whose slots a Pod owns.
func (v *view) owning(pod types.UID) []string {
	keys, _ := v.allocations.IndexKeys(ownerIndex, string(pod))
	return keys
}

// room returns what one node has for a Pod.
func (v *view) room(node string, pod types.UID, now time.Time, maxAge time.Duration) room {
	// The ledger first: an entry leaves it only after its claim was noted in the allocation.
	held := v.ledger.unwritten()[node]
	return v.count(v.capacity(node), held, pod, now, maxAge)
}

// rooms returns what every node has for a Pod, all at one moment.
func (v *view) rooms(pod types.UID, now time.Time, maxAge time.Duration) map[string]room {
	held := v.ledger.unwritten()
	rooms := map[string]room{}
	for _, object := range v.capacities.List() {
		capacity := network.CapacityOf(object.(*unstructured.Unstructured))
		rooms[capacity.Node] = v.count(capacity, held[capacity.Node], pod, now, maxAge)
	}
	return rooms
}

func (v *view) count(
	capacity network.Capacity, held []network.Owner, pod types.UID, now time.Time, maxAge time.Duration,
) room {
	counted := room{slots: capacity.Slots, current: capacity.Current(now, maxAge)}
	allocation := v.allocation(capacity.Node)
	for _, owner := range allocation.Owners {
		if owner.UID != pod {
			counted.taken += owner.Slots
		}
	}
	for _, owner := range held {
		if _, shown := allocation.Owner(owner.UID); !shown && owner.UID != pod {
			counted.taken += owner.Slots
		}
	}
	return counted
}

// holds says whether a Pod owns slots of a node, or has some reserved.
func (v *view) holds(node string, pod types.UID) bool {
	if _, held := v.ledger.get(key{pod, node}); held {
		return true
	}
	_, owns := v.allocation(node).Owner(pod)
	return owns
}

// owned returns how many slots of all nodes are owned.
func (v *view) owned() int {
	owned := 0
	for _, node := range v.allocated() {
		owned += v.allocation(node).Taken()
	}
	return owned
}

func get(indexer cache.Indexer, node string) *unstructured.Unstructured {
	found, exists, err := indexer.GetByKey(node)
	if err != nil || !exists {
		return nil
	}
	object, _ := found.(*unstructured.Unstructured)
	return object
}

func byOwner(object any) ([]string, error) {
	var uids []string
	if allocation, ok := object.(*unstructured.Unstructured); ok {
		for _, owner := range network.AllocationOf(allocation).Owners {
			uids = append(uids, string(owner.UID))
		}
	}
	return uids, nil
}

// later compares resourceVersions of one resource. None is the oldest.
func later(one, other string) bool {
	first, _ := strconv.ParseUint(one, 10, 64)
	second, _ := strconv.ParseUint(other, 10, 64)
	return first > second
}
