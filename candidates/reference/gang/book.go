package gang

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"unreserve.dev/reference/fault"
)

const (
	// After it was given up a gang rests: these are the limits of kube-scheduler's own backoff of Pods.
	firstRest, longestRest = time.Second, 10 * time.Second
	// settling is how long after a reservation was given back a member may be woken by just that: the scheduler first
	// writes to the API server, then says so.
	settling = 3 * time.Second
	// patience is how long a gang rests that nothing but its own giving up has woken.
	patience = 5 * time.Minute
	// quiet is how long a member of a gang that is still being created is held before it is refused aloud.
	quiet = 2 * time.Second
	// calling is the time between calls to gangs in line, should the one that was called not come.
	calling = time.Second
	// grace is how much longer than the book the framework waits at Permit.
	grace = 5 * time.Second
)

// book keeps who has reserved for which gang, and decides when a gang goes on, is given up and is tried again. It calls
// nobody: what has to be done is returned as effects. It is not safe for concurrent use.
//
// A try of a gang begins with its first member that waits at Permit, and ends when minMember members are reserved or
// bound, or when it is given up. A gang that was given up rests, so that tries keep to the backoff that Pods keep to.
// One gang at a time is in such a try as long as its members still come; the others stand in line, the oldest in front.
type book struct {
	reserveForMissing bool
	look              func(key) facts

	gangs   map[key]*state
	placing *key // whose turn it is
	line    map[key]time.Time
	call    time.Time // when the next in line is called again
	left    map[types.UID]returned
	settled time.Time // until then an event may come from what was given back
}

// state is what the book knows of one gang beside the facts.
type state struct {
	reservations map[types.UID]*reservation
	try          *try
	rest         *rest
	tries        int       // that ended without success since the gang was last whole
	asleep       bool      // a member was refused, and not woken since
	quiet        time.Time // until then members are held in silence
	held         bool      // one is
}

// phase is how far a reservation has come.
type phase int

const (
	waiting  phase = iota // at Permit
	allowed               // to be bound
	bound                 // and the watch of members does not show it yet
	rejected              // Unreserve comes next
	leaving               // Unreserve has begun
)

type reservation struct {
	name    string // of its Pod
	since   time.Time
	phase   phase
	waited  bool // at Permit
	givenUp bool // it ended before the gang was whole
}

func (r *reservation) counts() bool {
	return r.phase == waiting || r.phase == allowed || r.phase == bound
}

type try struct {
	until  time.Time
	needed int // members, as the Gang object said last
	failed map[types.UID]string
}

type rest struct {
	since, until, patience time.Time
	why                    string
	cause                  cause
	changed                bool // the gang has other members, or asks for something else
	wants                  bool // a member would have been tried
	news                   bool // something happened that the gang did not cause itself
}

// cause says which event after a gang was given up is news.
type cause int

const (
	noRoom  cause = iota // for a member
	tooLate              // a member that is tried after all
	lost                 // a reservation, by no decision of this plugin: that its Pod is queued again
)

// returned is a reservation that was given back.
type returned struct {
	gang  key
	since time.Time
}

// effects are what has to be done after a change of the book.
type effects struct {
	allow  []types.UID
	reject map[types.UID]rejection
	wake   []key // gangs whose members are to be tried now
	told   []key // gangs whose status may say something else now
}

type rejection struct {
	gang key
	why  string
}

func newBook(reserveForMissing bool, look func(key) facts) *book {
	return &book{
		reserveForMissing: reserveForMissing,
		look:              look,
		gangs:             map[key]*state{},
		line:              map[key]time.Time{},
		left:              map[types.UID]returned{},
	}
}

func (b *book) state(k key) *state {
	s := b.gangs[k]
	if s == nil {
		s = &state{reservations: map[types.UID]*reservation{}}
		b.gangs[k] = s
	}
	return s
}

// hold says why a member must not enter the queue yet, before anybody has tried it. It passes whom PreFilter refuses
// for long: only that is seen by users.
func (b *book) hold(k key, f facts, uid types.UID, now time.Time) string {
	s := b.state(k)
	if b.whole(s, f, uid) {
		return ""
	}
	if why := b.tooFew(k, s, f); why != "" {
		if s.quiet.IsZero() {
			s.quiet = now.Add(quiet)
		}
		if !now.Before(s.quiet) {
			return ""
		}
		s.held, s.asleep = true, true
		return why
	}
	r := s.rest
	if r == nil {
		return ""
	}
	own := now.Before(b.settled)
	if now.Before(r.until) {
		r.news = r.news || !own || r.cause == lost
	} else if r.news || !own || !now.Before(r.patience) {
		return ""
	}
	r.wants, s.asleep = true, true
	return rests(k, r)
}

// refusal says why a member must not be tried.
func (b *book) refusal(k key, f facts, uid types.UID, now time.Time) string {
	s := b.state(k)
	if b.whole(s, f, uid) {
		return ""
	}
	if why := b.tooFew(k, s, f); why != "" {
		s.asleep = true
		return why
	}
	if r := s.rest; r != nil && now.Before(r.until) {
		if r.cause == tooLate {
			r.wants, r.news = true, true
		}
		s.asleep = true
		return rests(k, r)
	}
	if other := b.placing; other != nil && *other != k && b.busy(*other) && !fault.Is(fault.GangDeadlock) {
		b.line[k] = f.spec.created
		if b.call.IsZero() {
			b.call = now.Add(calling)
		}
		s.asleep = true
		return fmt.Sprintf("gang %q, %d of %d members reserved or bound, waits its turn: gang %q is being placed",
			k, len(b.placed(s, f)), f.spec.minMember, *other)
	}
	return ""
}

// permit books a reservation, and says how long its Pod must wait for the others: 0 when it need not. It refuses, with
// an error, to reserve for a gang that is no more.
func (b *book) permit(k key, f facts, uid types.UID, now time.Time) (time.Duration, effects, error) {
	if !f.known {
		return 0, effects{}, fmt.Errorf("gang %q does not exist", k)
	}
	s := b.state(k)
	m, _ := f.get(uid)
	r := &reservation{name: m.name, since: now, phase: waiting}
	s.reservations[uid] = r
	delete(b.left, uid)
	delete(b.line, k)
	needed := f.spec.minMember
	if fault.Is(fault.PartialGang) && needed > 2 {
		needed--
	}
	if len(b.placed(s, f)) >= needed {
		r.phase = allowed
		return 0, b.allow(k, s, now), nil
	}
	e := effects{told: []key{k}}
	b.placing = &k
	if s.try == nil {
		timeout := f.spec.timeout
		if fault.Is(fault.PermitNeverEnds) {
			timeout = longestWait
		}
		s.try = &try{until: now.Add(timeout), failed: map[types.UID]string{}}
		s.rest = nil
		b.wake(k, s, &e)
	}
	r.waited = true
	s.try.needed = f.spec.minMember
	delete(s.try.failed, uid)
	return s.try.until.Sub(now) + grace, e, nil
}

// lose ends the wait of those whose Pods are gone. Their Unreserve may come after the Permit of the next member, and the
// watch of members after both: until then they would count, and beside a member created in its place twice.
func (b *book) lose(k key, lives func(name string, uid types.UID) bool) {
	for uid, r := range b.state(k).reservations {
		if r.phase == waiting && !lives(r.name, uid) && !fault.Is(fault.CountsDeletedMember) {
			r.phase = rejected
		}
	}
}

// failed books that a member found no room.
func (b *book) failed(k key, f facts, uid types.UID, name string, now time.Time) effects {
	s := b.state(k)
	if s.try == nil {
		return b.next(now)
	}
	s.try.failed[uid] = name
	if b.possible(s, f, b.reserveForMissing) || fault.Is(fault.GangDeadlock) {
		return effects{}
	}
	return b.giveUp(k, s, f, fmt.Sprintf("member %q fits on no node", name), noRoom, now)
}

// unreserve books that a Pod gives its reservation back; `gone`, because it was deleted. `vacate` must follow.
func (b *book) unreserve(k key, f facts, uid types.UID, name string, gone bool, now time.Time) effects {
	s := b.state(k)
	if gone {
		f = f.without(uid)
	}
	r := s.reservations[uid]
	if r != nil {
		was := r.phase
		if gone && r.waited && fault.Is(fault.CountsDeletedMember) {
			r.phase = allowed
			return effects{}
		}
		r.phase, r.givenUp = leaving, was == rejected || was == waiting
		if was == rejected {
			return effects{}
		}
	}
	if s.try == nil {
		return effects{}
	}
	why, cause := fmt.Sprintf("member %q was deleted", name), noRoom
	if !gone {
		s.try.failed[uid] = name
		why, cause = fmt.Sprintf("member %q could not keep its reservation", name), lost
	}
	if !s.any(waiting) && gone {
		s.try = nil
		return effects{}
	}
	if s.any(waiting) && b.possible(s, f, false) {
		return effects{}
	}
	return b.giveUp(k, s, f, why, cause, now)
}

// vacate books that a reservation is about to be given back.
func (b *book) vacate(k key, uid types.UID, now time.Time) effects {
	s := b.state(k)
	r := s.reservations[uid]
	if r == nil || r.phase != leaving {
		return effects{}
	}
	delete(s.reservations, uid)
	if r.givenUp {
		b.remember(uid, returned{gang: k, since: r.since}, now)
		b.settled = now.Add(settling)
	}
	b.forget(k, s)
	return b.pass(k, s, now)
}

// bind books that a member is bound.
func (b *book) bind(k key, f facts, uid types.UID) {
	s := b.state(k)
	if r := s.reservations[uid]; r != nil {
		r.phase = bound
	}
	s.drop(f)
}

// renominated books that the scheduler took back where it wanted to put a Pod, which wakes others as if one were gone.
func (b *book) renominated(now time.Time) { b.settled = now.Add(settling) }

// changed looks at a gang again after its object or its members have changed; `gone` names a member that was deleted.
func (b *book) changed(k key, gone string, now time.Time) effects {
	f := b.look(k)
	s := b.state(k)
	s.drop(f)
	if b.forget(k, s) {
		return effects{told: []key{k}}
	}
	if s.try != nil {
		switch {
		case !f.known:
			return b.giveUp(k, s, f, "its Gang object was deleted", noRoom, now)
		case len(b.placed(s, f)) >= f.spec.minMember:
			return b.allow(k, s, now)
		case gone != "" && !b.possible(s, f, false):
			return b.giveUp(k, s, f, fmt.Sprintf("member %q was deleted", gone), noRoom, now)
		}
	}
	e := effects{told: []key{k}}
	if r := s.rest; r != nil {
		r.changed, r.news, r.wants = true, true, r.wants || s.asleep
	}
	if b.tooFew(k, s, f) == "" {
		s.quiet, s.held = time.Time{}, false
		if s.asleep && s.rest == nil {
			b.wake(k, s, &e)
		}
	}
	return e
}

// tick does what is due.
func (b *book) tick(now time.Time) effects {
	var e effects
	for k, s := range b.gangs {
		if s.try != nil && !now.Before(s.try.until) {
			f := b.look(k)
			e.add(b.giveUp(k, s, f, fmt.Sprintf("the others did not come within %s", f.spec.timeout), tooLate, now))
		}
		if at := s.wakes(); !at.IsZero() && !now.Before(at) {
			b.wake(k, s, &e)
		}
	}
	if !b.call.IsZero() && !now.Before(b.call) {
		e.add(b.next(now))
	}
	return e
}

// due returns when `tick` has something to do, the zero time if never.
func (b *book) due() time.Time {
	first := b.call
	sooner := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, s := range b.gangs {
		if s.try != nil {
			sooner(s.try.until)
		}
		sooner(s.wakes())
	}
	return first
}

// news books that something has happened that may give a gang room, and says whether its members wait for that.
func (b *book) news(k key) bool {
	s := b.gangs[k]
	if s == nil || s.rest == nil {
		return false
	}
	s.rest.news = true
	return true
}

// caused says whether a gang knows the room that a Pod has given back: because it was its own, or because it was taken
// only after the gang had looked for room.
func (b *book) caused(k key, uid types.UID) bool {
	back, ok := b.left[uid]
	if !ok {
		return false
	}
	s := b.gangs[k]
	return back.gang == k || s == nil || s.rest == nil || back.since.After(s.rest.since)
}

// reserved says whether a Pod has a reservation that was not given back.
func (b *book) reserved(k key, uid types.UID) bool {
	s := b.gangs[k]
	return s != nil && s.reservations[uid] != nil
}

// waited says whether a Pod with a reservation had to wait at Permit.
func (b *book) waited(k key, uid types.UID) bool {
	s := b.gangs[k]
	return s != nil && s.reservations[uid] != nil && s.reservations[uid].waited
}

// rejecting says whether a Pod was rejected and has not noticed yet.
func (b *book) rejecting(k key, uid types.UID) bool {
	s := b.gangs[k]
	return s != nil && s.reservations[uid] != nil && s.reservations[uid].phase == rejected
}

// stands says how far a gang is.
func (b *book) stands(k key, f facts) string {
	s := b.state(k)
	if s.rest != nil {
		return fmt.Sprintf("gang %q is given up: %s", k, s.rest.why)
	}
	return fmt.Sprintf("gang %q has %d of %d members reserved or bound", k, len(b.placed(s, f)), f.spec.minMember)
}

// remarks returns why a gang was given up last, empty while it is being tried, and how many are reserved or bound.
func (b *book) remarks(k key) (why string, reserved int) {
	s := b.gangs[k]
	if s == nil {
		return "", 0
	}
	if s.rest != nil {
		why = s.rest.why
	}
	return why, len(b.placed(s, b.look(k)))
}

// anyGivenUp says whether any gang was given up and not tried since.
func (b *book) anyGivenUp() bool {
	for _, s := range b.gangs {
		if s.rest != nil {
			return true
		}
	}
	return false
}

func (b *book) tooFew(k key, s *state, f facts) string {
	switch {
	case !f.known:
		return fmt.Sprintf("gang %q does not exist", k)
	case s.missing(f) > 0 && (!b.reserveForMissing || s.rest != nil && !s.rest.changed):
		return fmt.Sprintf("gang %q has %d of %d members", k, s.live(f), f.spec.minMember)
	}
	return ""
}

// placed returns who is reserved or bound.
func (b *book) placed(s *state, f facts) map[types.UID]bool {
	found := map[types.UID]bool{}
	for _, m := range f.members {
		if m.bound() && !fault.Is(fault.PartialAfterBindFailure) {
			found[m.uid] = true
		}
	}
	for uid, r := range s.reservations {
		if r.counts() {
			found[uid] = true
		}
	}
	return found
}

// whole says whether the gang is whole once this member is reserved.
func (b *book) whole(s *state, f facts, uid types.UID) bool {
	placed := b.placed(s, f)
	placed[uid] = true
	return f.known && len(placed) >= f.spec.minMember
}

// possible says whether enough members are left that have not failed; with `unborn`, missing ones may still come.
func (b *book) possible(s *state, f facts, unborn bool) bool {
	left := s.live(f)
	if unborn {
		left += s.missing(f)
	}
	for uid := range s.try.failed {
		if m, ok := f.get(uid); ok && m.waits() {
			left--
		}
	}
	return left >= f.spec.minMember
}

// busy says whether a gang holds room and gets on: members come or go. One that only waits for members that nobody tries
// does not keep others from being placed.
func (b *book) busy(k key) bool {
	s := b.gangs[k]
	if s == nil {
		return false
	}
	if s.any(rejected) || s.any(leaving) {
		return true
	}
	if s.try == nil {
		return false
	}
	for _, m := range b.look(k).members {
		_, failed := s.try.failed[m.uid]
		if m.waits() && !m.gated && !failed && s.reservations[m.uid] == nil {
			return true
		}
	}
	return false
}

func (b *book) allow(k key, s *state, now time.Time) effects {
	e := effects{told: []key{k}}
	for uid, r := range s.reservations {
		if r.phase == waiting {
			r.phase = allowed
			e.allow = append(e.allow, uid)
		}
	}
	s.try, s.rest, s.tries = nil, nil, 0
	if s.asleep {
		b.wake(k, s, &e)
	}
	e.add(b.pass(k, s, now))
	return e
}

func (b *book) giveUp(k key, s *state, f facts, why string, cause cause, now time.Time) effects {
	if fault.Is(fault.PermitNeverEnds) {
		s.try.until = now.Add(longestWait)
		return effects{}
	}
	why = fmt.Sprintf("%d of %d members were reserved or bound, %s", len(b.placed(s, f)), s.try.needed, why)
	e := effects{reject: map[types.UID]rejection{}, told: []key{k}}
	for uid, r := range s.reservations {
		if r.phase == waiting {
			r.phase = rejected
			e.reject[uid] = rejection{k, fmt.Sprintf("gang %q is given up: %s", k, why)}
		}
	}
	s.try, s.asleep = nil, true
	s.tries++
	s.rest = &rest{
		since: now, until: now.Add(restAfter(s.tries)), patience: now.Add(patience), why: why, cause: cause,
	}
	e.add(b.pass(k, s, now))
	return e
}

// pass ends the turn of a gang that holds nothing any more for want of others.
func (b *book) pass(k key, s *state, now time.Time) effects {
	if s.any(waiting) || s.any(rejected) || s.any(leaving) {
		return effects{}
	}
	if b.placing != nil && *b.placing == k {
		b.placing = nil
	}
	return b.next(now)
}

// next calls the oldest gang in line, if nobody is being placed.
func (b *book) next(now time.Time) effects {
	var e effects
	b.call = time.Time{}
	if len(b.line) == 0 {
		return e
	}
	if b.placing == nil || !b.busy(*b.placing) {
		var first key
		for k, created := range b.line {
			if first == (key{}) || created.Before(b.line[first]) ||
				created.Equal(b.line[first]) && k.String() < first.String() {
				first = k
			}
		}
		delete(b.line, first)
		b.wake(first, b.state(first), &e)
	}
	if len(b.line) > 0 {
		b.call = now.Add(calling)
	}
	return e
}

func (b *book) wake(k key, s *state, e *effects) {
	s.asleep, s.held = false, false
	if s.rest != nil {
		// Whoever is woken was told to come: only the wait that is not over yet keeps it back.
		s.rest.wants, s.rest.news = false, true
	}
	e.wake = append(e.wake, k)
}

// forget drops a gang of which nothing is left, and says whether that was so. A member that was kept back is left too, though
// the watch of members may not show it yet.
func (b *book) forget(k key, s *state) bool {
	f := b.look(k)
	if len(s.reservations) > 0 || len(f.members) > 0 || s.asleep && f.known {
		return false
	}
	delete(b.gangs, k)
	delete(b.line, k)
	return true
}

func (b *book) remember(uid types.UID, back returned, now time.Time) {
	const many, old = 1000, 10 * time.Minute
	if len(b.left) >= many {
		for uid, back := range b.left {
			if now.Sub(back.since) > old {
				delete(b.left, uid)
			}
		}
	}
	b.left[uid] = back
}

// wakes returns when the members that were kept back are to be tried again, the zero time if an event must wake them.
func (s *state) wakes() time.Time {
	switch {
	case s.held:
		return s.quiet
	case s.rest == nil || !s.rest.wants:
		return time.Time{}
	case s.rest.news:
		return s.rest.until
	}
	return s.rest.patience
}

// live counts the members that are bound or still have to be, those included that the watch of members does not show yet.
func (s *state) live(f facts) int {
	count := 0
	for _, m := range f.members {
		if m.bound() || m.waits() {
			count++
		}
	}
	for uid, r := range s.reservations {
		if _, seen := f.get(uid); r.counts() && !seen {
			count++
		}
	}
	return count
}

// missing counts the Pods that must be created before the gang can be whole.
func (s *state) missing(f facts) int { return max(0, f.spec.minMember-s.live(f)) }

func (s *state) any(p phase) bool {
	for _, r := range s.reservations {
		if r.phase == p {
			return true
		}
	}
	return false
}

// drop forgets reservations that are bindings by now.
func (s *state) drop(f facts) {
	for uid, r := range s.reservations {
		if m, ok := f.get(uid); r.phase == bound && (!ok || m.node != "" || m.ended || m.going) {
			delete(s.reservations, uid)
		}
	}
}

func (e *effects) add(other effects) {
	e.allow = append(e.allow, other.allow...)
	e.wake = append(e.wake, other.wake...)
	e.told = append(e.told, other.told...)
	if e.reject == nil {
		e.reject = map[types.UID]rejection{}
	}
	maps.Copy(e.reject, other.reject)
}

func restAfter(tries int) time.Duration {
	rest := firstRest
	for range tries - 1 {
		if rest *= 2; rest >= longestRest {
			return longestRest
		}
	}
	return rest
}

func rests(k key, r *rest) string {
	return fmt.Sprintf("gang %q rests after it was given up: %s", k, r.why)
}
