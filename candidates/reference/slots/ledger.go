package slots

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"unreserve.dev/reference/network"
)

// phase is how far a reservation has come.
type phase int

const (
	// reserved: nothing was written yet, so giving back is a matter of this process alone.
	reserved phase = iota
	// claiming: PreBind has begun; whether the allocation holds the claim is not known.
	claiming
	// claimed: the allocation holds the claim.
	claimed
	// releasing: to be given back, as soon as the API server says what became of the Pod.
	releasing
)

// key names a reservation: a Pod that is tried again elsewhere may still have one to be given back.
type key struct {
	pod  types.UID
	node string
}

// entry is one reservation. `written` says that the allocation holds the claim, so that it must not be counted twice.
type entry struct {
	owner   network.Owner
	phase   phase
	written bool
}

// ledger holds what was reserved for Pods that are not bound yet. It is kept by Pod, never as a count: whatever is done
// twice changes nothing the second time.
type ledger struct {
	mutex   sync.Mutex
	entries map[key]entry
}

func newLedger() *ledger { return &ledger{entries: map[key]entry{}} }

// reserve holds slots for a Pod. An earlier reservation of the Pod on that node, still to be given back, is taken up.
func (l *ledger) reserve(node string, owner network.Owner) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at := key{owner.UID, node}
	l.entries[at] = entry{owner: owner, phase: reserved, written: l.entries[at].written}
}

// begin notes that the claim is about to be written.
func (l *ledger) begin(node string, owner network.Owner) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at := key{owner.UID, node}
	l.entries[at] = entry{owner: owner, phase: claiming, written: l.entries[at].written}
}

// wrote notes whether the allocation was seen to hold the claim.
func (l *ledger) wrote(at key, held bool) {
	l.change(at, func(e *entry) { e.written = held })
}

// claim notes that the allocation holds the claim.
func (l *ledger) claim(at key) {
	l.change(at, func(e *entry) { e.phase, e.written = claimed, true })
}

// release notes that the slots are to be given back.
func (l *ledger) release(at key) {
	l.change(at, func(e *entry) { e.phase = releasing })
}

func (l *ledger) change(at key, change func(*entry)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if found, ok := l.entries[at]; ok {
		change(&found)
		l.entries[at] = found
	}
}

// drop forgets a reservation, and says whether there was one.
func (l *ledger) drop(at key) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, ok := l.entries[at]
	delete(l.entries, at)
	return ok
}

func (l *ledger) get(at key) (entry, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found, ok := l.entries[at]
	return found, ok
}

// on returns the reservations on a node, by Pod.
func (l *ledger) on(node string) map[types.UID]entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found := map[types.UID]entry{}
	for at, entry := range l.entries {
		if at.node == node {
			found[at.pod] = entry
		}
	}
	return found
}

// unwritten returns, by node, who holds slots that no allocation is known to show.
func (l *ledger) unwritten() map[string][]network.Owner {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found := map[string][]network.Owner{}
	for at, entry := range l.entries {
		if !entry.written {
			found[at.node] = append(found[at.node], entry.owner)
		}
	}
	return found
}

// totals returns how many slots are held, and how many reservations wait to be given back.
func (l *ledger) totals() (slots, pending int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, entry := range l.entries {
		slots += entry.owner.Slots
		if entry.phase == releasing {
			pending++
		}
	}
	return slots, pending
}

// lose makes a reservation one that nobody will ever give back. Only faults do that.
func (l *ledger) lose(at key) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lost := l.entries[at]
	delete(l.entries, at)
	at.pod, lost.owner.UID, lost.written = "lost-"+at.pod, "lost-"+at.pod, false
	l.entries[at] = lost
}

// dropAny forgets somebody's reservation on a node. Only a fault does that.
func (l *ledger) dropAny(node string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for at := range l.entries {
		if at.node == node {
			delete(l.entries, at)
			return
		}
	}
}
