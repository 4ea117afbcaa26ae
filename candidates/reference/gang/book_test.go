package gang

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"unreserve.dev/reference/fault"
)

// scene is a book with the facts it rests on, and a clock.
type scene struct {
	*book
	t     *testing.T
	facts map[key]facts
	now   time.Time
}

var (
	older = key{Namespace: "team", Name: "older"}
	other = key{Namespace: "team", Name: "other"}
)

func newScene(t *testing.T) *scene {
	s := &scene{t: t, facts: map[key]facts{}, now: time.Unix(1000, 0)}
	s.book = newBook(false, func(k key) facts { return s.facts[k] })
	return s
}

// gang declares a gang with so many members, named like a, b, c.
func (s *scene) gang(k key, minMember, members int) {
	f := facts{known: true, spec: spec{minMember: minMember, timeout: 10 * time.Second, created: s.now}}
	for i := range members {
		f.members = append(f.members, member{uid: uid(k, i), name: name(i)})
	}
	s.facts[k] = f
	s.now = s.now.Add(time.Millisecond)
}

func uid(k key, i int) types.UID { return types.UID(k.Name + "-" + name(i)) }
func name(i int) string          { return string(rune('a' + i)) }

// set changes one member.
func (s *scene) set(k key, i int, change func(*member)) {
	members := slices.Clone(s.facts[k].members)
	change(&members[i])
	f := s.facts[k]
	f.members = members
	s.facts[k] = f
}

// permit lets a member come to Permit, and returns whether it goes on.
func (s *scene) permit(k key, i int) (bool, effects) {
	s.t.Helper()
	if why := s.refusal(k, s.facts[k], uid(k, i), s.now); why != "" {
		s.t.Fatalf("member %s was refused: %s", name(i), why)
	}
	timeout, e, err := s.book.permit(k, s.facts[k], uid(k, i), s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	return timeout == 0, e
}

func (s *scene) waits(k key, members ...int) {
	s.t.Helper()
	for _, i := range members {
		if on, _ := s.permit(k, i); on {
			s.t.Fatalf("member %s of %s did not wait", name(i), k)
		}
	}
}

func (s *scene) leaves(k key, members ...int) (e effects) {
	for _, i := range members {
		e.add(s.unreserve(k, s.facts[k], uid(k, i), name(i), false, s.now))
		e.add(s.vacate(k, uid(k, i), s.now))
	}
	return e
}

func (s *scene) fails(k key, i int) effects {
	return s.failed(k, s.facts[k], uid(k, i), name(i), s.now)
}

func (s *scene) held(k key, i int) string { return s.hold(k, s.facts[k], uid(k, i), s.now) }

func (s *scene) after(d time.Duration) effects {
	s.now = s.now.Add(d)
	return s.tick(s.now)
}

func (s *scene) rejected(e effects, k key, why string, members ...int) {
	s.t.Helper()
	var want []types.UID
	for _, i := range members {
		want = append(want, uid(k, i))
	}
	got := slices.Sorted(maps.Keys(e.reject))
	if !slices.Equal(got, want) {
		s.t.Fatalf("rejected are %v, not %v", got, want)
	}
	for _, r := range e.reject {
		if !strings.Contains(r.why, why) || !strings.Contains(r.why, fmt.Sprintf("%q", k)) {
			s.t.Errorf("the reason is %q, without %q", r.why, why)
		}
	}
}

func (s *scene) woken(e effects, keys ...key) {
	s.t.Helper()
	if !slices.Equal(e.wake, keys) {
		s.t.Fatalf("woken are %v, not %v", e.wake, keys)
	}
}

func TestMembersWaitUntilEnoughAreReserved(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	on, e := s.permit(older, 0)
	if on {
		t.Fatal("the first went on alone")
	}
	s.woken(e, older)
	s.waits(older, 1)
	on, e = s.permit(older, 2)
	if !on || len(e.allow) != 2 || len(e.reject) > 0 {
		t.Fatalf("the last went on: %t, with %v", on, e)
	}
	if due := s.due(); !due.IsZero() {
		t.Errorf("something is due at %s", due)
	}
}

func TestBoundMembersOfAnEarlierProcessCount(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.set(older, 0, func(m *member) { m.node = "n1" })
	s.set(older, 1, func(m *member) { m.node, m.ended = "n1", true })
	if on, _ := s.permit(older, 2); !on {
		t.Fatal("the last waits, though the others are bound or have succeeded")
	}
	s.leaves(older, 2)
	s.set(older, 1, func(m *member) { m.failed = true })
	if why := s.refusal(older, s.facts[older], uid(older, 2), s.now); why != `gang "team/older" has 2 of 3 members` {
		t.Errorf("a failed member counts: %q", why)
	}
}

func TestMembersAreRefusedWhileSomeAreMissing(t *testing.T) {
	s := newScene(t)
	if why := s.refusal(older, facts{}, "x", s.now); why != `gang "team/older" does not exist` {
		t.Error(why)
	}
	s.gang(older, 3, 2)
	if why := s.held(older, 0); why == "" {
		t.Error("it is refused aloud at once")
	}
	s.woken(s.after(quiet), older)
	if why := s.held(older, 0); why != "" {
		t.Errorf("it is held for ever: %s", why)
	}
	if why := s.refusal(older, s.facts[older], uid(older, 0), s.now); why != `gang "team/older" has 2 of 3 members` {
		t.Error(why)
	}
	s.gang(older, 3, 3)
	s.woken(s.changed(older, "", s.now), older)
	s.waits(older, 0, 1)
}

func TestMembersMayWaitForMissingOnes(t *testing.T) {
	s := newScene(t)
	s.reserveForMissing = true
	s.gang(older, 3, 2)
	s.waits(older, 0)
	if e := s.fails(older, 1); len(e.reject) != 1 {
		t.Fatal("two of three can be there, and it waits")
	}
	s.leaves(older, 0)
	s.after(time.Minute)
	if why := s.refusal(older, s.facts[older], uid(older, 0), s.now); why != `gang "team/older" has 2 of 3 members` {
		t.Errorf("it is tried again in vain: %q", why)
	}
	s.gang(older, 3, 3)
	s.changed(older, "", s.now)
	s.woken(s.after(0), older)
	s.waits(older, 0, 1)
}

func TestAMemberIsSeenBeforeItsGangAndItsOwnWatch(t *testing.T) {
	s := newScene(t)
	s.reserveForMissing = true
	if why := s.hold(older, s.facts[older], uid(older, 0), s.now); why == "" {
		t.Fatal("a member of an unknown gang is not kept back")
	}
	s.gang(older, 2, 0)
	s.woken(s.changed(older, "", s.now), older)
}

func TestAGangIsGivenUpWhenTooFewMembersCanBePlaced(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 4)
	s.waits(older, 0, 1)
	s.rejected(s.fails(older, 2), older, "")
	e := s.fails(older, 3)
	s.rejected(e, older, `is given up: 2 of 3 members were reserved or bound, member "d" fits on no node`, 0, 1)
	if why := s.refusal(older, s.facts[older], uid(older, 2), s.now); !strings.Contains(why, "rests after it was given up") {
		t.Errorf("who was in the queue is tried at once: %q", why)
	}
}

func TestAMemberThatComesAfterAllHasNotFailed(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 4)
	s.waits(older, 0)
	s.fails(older, 1)
	s.waits(older, 1)
	s.rejected(s.fails(older, 2), older, "")
	if on, _ := s.permit(older, 3); !on {
		t.Fatal("three are reserved, and wait")
	}
}

func TestTheWaitEnds(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.set(older, 2, func(m *member) { m.gated = true })
	s.waits(older, 0)
	s.now = s.now.Add(4 * time.Second)
	s.waits(older, 1)
	s.rejected(s.after(5*time.Second), older, "")
	s.rejected(s.after(time.Second), older, "2 of 3 members were reserved or bound, the others did not come within 10s", 0, 1)
	s.leaves(older, 0, 1)
	if e := s.after(time.Hour); len(e.wake) > 0 {
		t.Error("it is tried again though nothing has happened")
	}
	s.waits(older, 2)
}

func TestWhoComesTooLateIsTriedAfterTheRest(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.waits(older, 0, 1)
	s.after(10 * time.Second)
	s.leaves(older, 0, 1)
	if why := s.refusal(older, s.facts[older], uid(older, 2), s.now); why == "" {
		t.Fatal("it is tried in the rest")
	}
	s.woken(s.after(firstRest), older)
}

func TestDeletionOfAMemberEndsTheWait(t *testing.T) {
	for name, deleted := range map[string]int{"a member that waits": 0, "one that is gated": 2} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.gang(older, 3, 3)
			s.set(older, 2, func(m *member) { m.gated = true })
			s.waits(older, 0, 1)
			var e effects
			rest := []int{0, 1}
			if deleted == 0 {
				e = s.unreserve(older, s.facts[older], uid(older, 0), "a", true, s.now)
				e.add(s.vacate(older, uid(older, 0), s.now))
				rest = []int{1}
			}
			s.facts[older] = s.facts[older].without(uid(older, deleted))
			e.add(s.changed(older, "x", s.now))
			s.rejected(e, older, "was deleted", rest...)
		})
	}
}

func TestADeletedMemberDoesNotCountBesideTheOneInItsPlace(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 4)
	s.waits(older, 0, 1)
	s.lose(older, func(_ string, who types.UID) bool { return who != uid(older, 0) })
	s.waits(older, 2)
	s.unreserve(older, s.facts[older], uid(older, 0), "a", true, s.now)
	if on, _ := s.permit(older, 3); !on {
		t.Error("three are reserved, and it waits")
	}
}

func TestDeletionOfTheGangObjectEndsTheWait(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.waits(older, 0)
	s.facts[older] = facts{members: s.facts[older].members}
	s.rejected(s.changed(older, "", s.now), older, "1 of 3 members were reserved or bound, its Gang object was deleted", 0)
}

func TestALostReservationEndsTheWait(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.waits(older, 0, 1)
	s.rejected(s.leaves(older, 0), older, `member "a" could not keep its reservation`, 1)
	// The scheduler puts it back into the queue.
	if why := s.held(older, 0); why == "" {
		t.Fatal("it is tried in the rest")
	}
	s.woken(s.after(firstRest), older)
}

func TestAFailedBindingConcernsNobodyElse(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.waits(older, 0, 1)
	s.permit(older, 2)
	s.bind(older, s.facts[older], uid(older, 0))
	e := s.leaves(older, 1)
	if len(e.reject)+len(e.wake) > 0 {
		t.Fatalf("others are concerned: %v", e)
	}
	if why := s.held(older, 1); why != "" {
		t.Fatal(why)
	}
	if on, _ := s.permit(older, 1); !on {
		t.Fatal("the member that is tried again waits")
	}
}

func TestTriesBackOff(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		s.waits(older, 0)
		s.fails(older, 1)
		s.leaves(older, 0)
		if s.held(older, 1) == "" || !s.news(older) {
			t.Fatalf("it is tried at once after try %d", i+1)
		}
		s.woken(s.after(want*time.Second - time.Millisecond))
		s.woken(s.after(time.Millisecond), older)
		if why := s.held(older, 1); why != "" {
			t.Fatalf("woken, and held: %s", why)
		}
	}
}

func TestAGangDoesNotWakeItself(t *testing.T) {
	s := newScene(t)
	s.gang(older, 3, 3)
	s.waits(older, 0, 1)
	s.fails(older, 2)
	s.leaves(older, 0, 1)
	// The plugin that refused c takes what a and b gave back for room.
	if s.held(older, 2) == "" {
		t.Fatal("it is tried in the rest")
	}
	for _, i := range []int{0, 1} {
		if !s.caused(older, uid(older, i)) {
			t.Error("its own leaving is news to it")
		}
	}
	s.woken(s.after(longestRest))
	if !s.news(older) {
		t.Fatal("its members do not wait for news")
	}
	s.woken(s.after(0), older)

	s.waits(older, 0)
	s.fails(older, 2)
	s.leaves(older, 0)
	s.held(older, 2)
	s.woken(s.after(patience - time.Second))
	s.woken(s.after(time.Second), older) // in case that an event was taken for its own
}

func TestGangsThatGiveBackWhatTheyTookLaterAreNoNews(t *testing.T) {
	s := newScene(t)
	s.gang(older, 2, 2)
	s.gang(other, 2, 2)
	s.waits(older, 0)
	s.fails(older, 1)
	s.leaves(older, 0)
	s.now = s.now.Add(time.Second)
	s.waits(other, 0)
	s.now = s.now.Add(time.Second)
	s.fails(other, 1)
	s.leaves(other, 0)
	if !s.caused(older, uid(other, 0)) {
		t.Error("room that was free when it looked is news to the one")
	}
	s.now = s.now.Add(time.Second)
	s.waits(older, 0)
	s.fails(older, 1)
	s.leaves(older, 0)
	if !s.caused(other, uid(older, 0)) {
		t.Error("room that was free when it looked is news to the other")
	}
}

func TestOneGangAtATime(t *testing.T) {
	third := key{Namespace: "team", Name: "third"}
	s := newScene(t)
	s.gang(older, 2, 2)
	s.gang(other, 2, 2)
	s.gang(third, 2, 2)
	s.waits(third, 0)
	for _, k := range []key{other, older} {
		if why := s.refusal(k, s.facts[k], uid(k, 0), s.now); !strings.Contains(why, "waits its turn") {
			t.Fatalf("%s is not refused: %q", k, why)
		}
	}
	s.woken(s.after(calling))
	e := s.fails(third, 1)
	s.rejected(e, third, "", 0)
	s.woken(e)
	s.woken(s.leaves(third, 0), older)
	s.woken(s.after(calling), other) // the oldest does not come
	s.waits(older, 0)
	if why := s.refusal(other, s.facts[other], uid(other, 0), s.now); why == "" {
		t.Fatal("the other is tried as well")
	}
	_, e = s.permit(older, 1)
	s.woken(e, other)
}

func TestAGangThatOnlyWaitsDoesNotKeepOthersBack(t *testing.T) {
	s := newScene(t)
	s.gang(older, 2, 2)
	s.gang(other, 2, 2)
	s.set(older, 1, func(m *member) { m.gated = true })
	s.waits(older, 0)
	s.waits(other, 0)
	if on, _ := s.permit(other, 1); !on {
		t.Fatal("it waits")
	}
}

func TestTheRestOfAGangGoesOnWhenAnotherBindsAMember(t *testing.T) {
	s := newScene(t)
	s.gang(older, 2, 2)
	s.waits(older, 0)
	s.set(older, 1, func(m *member) { m.node = "n1" })
	if e := s.changed(older, "", s.now); !slices.Equal(e.allow, []types.UID{uid(older, 0)}) {
		t.Fatalf("allowed are %v", e.allow)
	}
}

func TestNothingIsLeftOfAGangThatIsGone(t *testing.T) {
	s := newScene(t)
	s.gang(older, 2, 2)
	s.waits(older, 0)
	s.facts[older] = facts{known: true, spec: s.facts[older].spec}
	s.unreserve(older, s.facts[older], uid(older, 0), "a", true, s.now)
	s.changed(older, "a", s.now)
	s.vacate(older, uid(older, 0), s.now)
	if len(s.gangs)+len(s.line) > 0 || !s.due().IsZero() {
		t.Errorf("left are %v, %v, and something is due at %s", s.gangs, s.line, s.due())
	}
}

func TestFaults(t *testing.T) {
	choose := func(t *testing.T, name fault.Name) {
		if err := fault.Choose(string(name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = fault.Choose("") })
	}
	t.Run("partial gang", func(t *testing.T) {
		choose(t, fault.PartialGang)
		s := newScene(t)
		s.gang(older, 3, 3)
		s.waits(older, 0)
		if on, _ := s.permit(older, 1); !on {
			t.Error("it is not partial")
		}
	})
	t.Run("permit never ends", func(t *testing.T) {
		choose(t, fault.PermitNeverEnds)
		s := newScene(t)
		s.gang(older, 3, 3)
		s.waits(older, 0, 1)
		s.rejected(s.fails(older, 2), older, "")
		s.rejected(s.after(time.Hour), older, "")
		if !s.due().After(s.now) {
			t.Error("it is for ever due")
		}
	})
}
