package history

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const limit = 10 * time.Second

// TestCheckers: histories that fencegate may produce pass both checkers; one with a defect fails where it must. broken
// are the invariants that the ledger's checker names, illegal says that porcupine fails.
func TestCheckers(t *testing.T) {
	tests := []struct {
		name    string
		make    func(s *scene)
		illegal bool
		broken  string
	}{
		{"OK", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.read(row, shows(1000, "v1"))
			s.op(Call{Kind: Release, First: 1000}, accepted())
			s.end("released")
			s.write(row, 1001, "v2", refused("grant-ended"))
			s.grant("a", 2000)
			s.write(row, 1001, "v2", refused("stale-token"))
			s.read(row, shows(1000, "v1"))
			s.put(row, 2000, "v3")
			s.write(row, 2000, "v4", refused("spent-token"))
			s.read(row, shows(2000, "v3"))
		}, false, ""},
		{"UnknownAppliedLater", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1001, "v2", lost())
			s.read(row, shows(1000, "v1"))
			s.done(row, 1001, "v2")
			s.read(row, shows(1001, "v2"))
		}, false, ""},
		{"UnknownNeverApplied", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1001, "v2", lost())
			s.put(row, 1002, "v3")
			s.read(row, shows(1002, "v3"))
		}, false, ""},
		{"KilledClientApplied", func(s *scene) {
			s.grant("a", 1000)
			s.write(row, 1000, "v1", nil)
			s.done(row, 1000, "v1")
			s.read(row, shows(1000, "v1"))
		}, false, ""},
		{"RefusedAfterUnknownApplied", func(s *scene) {
			s.grant("a", 1000)
			op := s.write(row, 1000, "v1", lost())
			s.done(row, 1000, "v1")
			s.read(row, shows(1000, "v1"))
			s.granted("a", 2000)
			s.op(Call{Kind: Acquire, Holder: "a2000"}, lost())
			s.again(op, refused("stale-token"))
		}, false, ""},
		{"Replayed", func(s *scene) {
			s.grant("a", 1000)
			op := s.write(row, 1000, "v1", lost())
			s.done(row, 1000, "v1")
			s.again(op, &Reply{Status: 201, Created: true, Replayed: true})
		}, false, ""},
		{"CommitReplayedForItsOtherResource", func(s *scene) {
			s.grant("a", 1000)
			op := s.op(Call{Kind: Put, Resource: row, Token: 1000, Value: "v1", Class: ClassCommit}, lost())
			s.done(row, 1000, "v1")
			s.grant("a", 2000)
			s.put(row, 2000, "v2")
			s.again(op, &Reply{Status: 200, Mark: 2000, Replayed: true})
		}, false, ""},
		{"Deleted", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.op(Call{Kind: Delete, Resource: row, Token: 1001}, accepted())
			s.done(row, 1001, "")
			s.read(row, gone(1001))
			s.op(Call{Kind: Patch, Resource: row, Token: 1002, Value: "v2"}, refused("not-found"))
		}, false, ""},
		{"Refusals", func(s *scene) {
			s.write(row, 1000, "v0", refused("unissued-token"))
			s.grant("b", 1000)
			s.write(row, 1000, "v1", refused("foreign-token"))
			s.write(row, 9000, "v2", refused("unissued-token"))
			s.write(row, 500, "v3", refused("stale-token"))
		}, false, ""},

		{"ReleasedTwice", func(s *scene) {
			s.grant("a", 1000)
			s.op(Call{Kind: Release, First: 1000}, accepted())
			s.end("released")
			s.grant("a", 2000)
			s.op(Call{Kind: Release, First: 1000}, refused("lease-lost"))
		}, false, ""},
		{"ReleaseUnavailable", func(s *scene) {
			s.grant("a", 1000)
			s.op(Call{Kind: Release, First: 1000}, refused("unavailable"))
			s.end("released")
			s.write(row, 1000, "v1", refused("grant-ended"))
		}, false, ""},
		{"BrokenUnknown", func(s *scene) {
			s.grant("a", 1000)
			s.op(Call{Kind: Break, Reason: "r1"}, lost())
			s.put(row, 1000, "v1")
			s.end("broken: r1")
			s.write(row, 1001, "v2", refused("grant-ended"))
		}, false, ""},

		{"StaleAcceptedAfterSeal", func(s *scene) {
			s.grant("a", 1000)
			s.grant("a", 2000)
			s.put(row, 1000, "v1")
		}, true, "I2"},
		{"StaleAppliedAfterSeal", func(s *scene) {
			s.grant("a", 1000)
			s.write(row, 1000, "v1", lost())
			s.grant("a", 2000)
			s.read(row, gone(0))
			s.done(row, 1000, "v1")
			s.read(row, shows(1000, "v1"))
		}, true, "I2"},
		{"AcceptedAfterRelease", func(s *scene) {
			s.grant("a", 1000)
			s.op(Call{Kind: Release, First: 1000}, accepted())
			s.end("released")
			s.put(row, 1000, "v1")
		}, true, "I2"},
		{"LostAccepted", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1001, "v2", accepted())
			s.read(row, shows(1000, "v1"))
		}, true, "I7"},
		{"RefusedButApplied", func(s *scene) {
			s.grant("a", 1000)
			s.write(row, 1000, "v1", refused("contention"))
			s.done(row, 1000, "v1")
			s.read(row, shows(1000, "v1"))
		}, true, "I7"},
		{"RefusedWithoutReason", func(s *scene) {
			s.grant("a", 1000)
			s.write(row, 1000, "v1", refused("stale-token"))
		}, true, ""},
		{"TokenReused", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1000, "v2", &Reply{Status: 200, Mark: 1000})
			s.changed(row, 1000, "v2")
		}, true, "I5 I7"},
		{"LowerTokenAccepted", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1001, "v1")
			s.write(row, 1000, "v2", &Reply{Status: 200, Mark: 1000})
			s.done(row, 1000, "v2")
		}, true, "I1"},
		{"MarkWithoutData", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1001, "v2", &Reply{Status: 200, Mark: 1001})
			s.marked(row, 1001)
			s.read(row, shows(1001, "v1"))
		}, true, "I5 I7"},
		{"DataWithoutMark", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.op(Call{Kind: Delete, Resource: row, Token: 1001}, accepted())
			s.changed(row, 1001, "")
			s.read(row, gone(1000))
		}, true, "I5 I7"},
		{"ReplayForAnotherBody", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.write(row, 1000, "v2", &Reply{Status: 200, Mark: 1000, Replayed: true})
		}, true, "I7"},
		{"CommitReplayedAsOlderThanItIs", func(s *scene) {
			s.grant("a", 1000)
			op := s.op(Call{Kind: Put, Resource: row, Token: 1000, Value: "v1", Class: ClassCommit}, lost())
			s.done(row, 1000, "v1")
			s.again(op, &Reply{Status: 200, Mark: 1000, Replayed: true})
		}, true, ""},
		{"ReplayOfNothing", func(s *scene) {
			s.grant("a", 1000)
			s.write(row, 1000, "v1", &Reply{Status: 201, Created: true, Replayed: true})
			s.done(row, 1000, "v1")
		}, false, "I7"},
		{"ForgedAccepted", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 9000, "v1")
		}, true, "I3"},
		{"ForeignAccepted", func(s *scene) {
			s.grant("b", 1000)
			s.put(row, 1000, "v1")
		}, true, "I3"},
		{"ReadGoesBack", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.put(row, 1001, "v2")
			s.read(row, shows(1000, "v1"))
		}, true, ""},
		{"GrantsOutOfOrder", func(s *scene) {
			s.grant("a", 2000)
			s.grant("a", 1000)
		}, true, "I4"},
		{"BlockGivenTwice", func(s *scene) {
			s.grant("a", 1000)
			s.newest.Lease, s.newest.Holder = "job:2", "a1000b"
			s.audited()
			s.op(Call{Kind: Acquire, Holder: "a1000b"}, lost()).Lease = "job:2"
		}, false, "I4"},
		{"GrantNobodyAskedFor", func(s *scene) { s.granted("a", 1000) }, false, "I4"},
		{"GrantNotInTheLedger", func(s *scene) {
			s.op(Call{Kind: Acquire, Holder: "x"}, &Reply{Status: 201, First: 1000, Last: 1999})
		}, false, "I4"},
		{"WriteNobodyAskedFor", func(s *scene) {
			s.grant("a", 1000)
			s.done(row, 1000, "v1")
		}, false, "I7"},
		{"CertifiedWhileEarlierLeaseRuns", func(s *scene) {
			s.grant("a", 1000).TTL = int64(time.Hour)
			s.grant("a", 2000)
		}, false, "I4"},
		{"ReleasedIsNotEnded", func(s *scene) {
			s.grant("a", 1000)
			s.op(Call{Kind: Release, First: 1000}, accepted())
		}, false, "I7"},
		{"GivenUpBlobPublished", func(s *scene) {
			s.grant("a", 1000)
			s.Audit.Blobs = []BlobRow{{Seq: s.seq, Blob: "b1", From: "pending", To: "aborted"}}
			s.put(object, 1000, "v1")
			s.Audit.Data[0].Blob = "b1"
		}, false, "I6"},
		{"FinalIsNotTheLast", func(s *scene) {
			s.grant("a", 1000)
			s.put(row, 1000, "v1")
			s.Finals = []Final{{Resource: row, Mark: 1000, Value: "v0"}}
		}, false, "I5"},
		{"TornBody", func(s *scene) {
			s.read(object, &Reply{Status: 200, Torn: true, Mark: -1})
		}, false, "I6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{}
			tt.make(s)
			illegal, broken := judged(t, s)
			if illegal != tt.illegal {
				t.Errorf("porcupine: got illegal %v, want %v", illegal, tt.illegal)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(broken)), " "); got != tt.broken {
				t.Errorf("ledger: got %q, want %q", got, tt.broken)
			}
		})
	}
}

// TestOrderIsNotAskedWhereRedisLostLeases: a lease that Redis forgot stands in nobody's way.
func TestOrderIsNotAskedWhereRedisLostLeases(t *testing.T) {
	s := &scene{}
	s.grant("a", 1000).TTL = int64(time.Hour)
	s.Faults = []Fault{{From: s.now, To: s.now + 1, What: "Redis flushed", Lossy: true}}
	s.grant("a", 2000)
	if violations, orders := s.CheckLedger(); len(violations) > 0 || orders != 0 {
		t.Errorf("got %v, %d pairs", violations, orders)
	}
}

func TestJoinRefusesLinesOutOfPlace(t *testing.T) {
	for name, lines := range map[string][]Line{
		"ReplyWithoutCall": {{ID: "1", Reply: accepted()}},
		"TwoCalls":         {{ID: "1", Call: &Call{}}, {ID: "1", Call: &Call{}}},
		"TwoReplies":       {{ID: "1", Call: &Call{}}, {ID: "1", Reply: accepted()}, {ID: "1", Reply: accepted()}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Join(lines); err == nil {
				t.Error("joined")
			}
		})
	}
}
