package etcdlease

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// unknownHolder is who holds a lease whose record is none of ours.
const unknownHolder = "unknown"

// held says who holds a lease, or has it reserved.
type held struct {
	value fence.Digest
	// gateway is whose value it is.
	gateway  string
	holder   string
	reserved bool
	// ttl is how long it runs from when the record was written with this stamp, and renewed how much of that is by an
	// extension of another gateway.
	ttl, renewed time.Duration
	// stamp is random, and another whenever the record counts its time anew. Revisions would not do: a store that lost its data
	// begins with them anew. Of a record that is none of ours it is the revision.
	stamp  int64
	tenant fence.Digest
	// waiters is how many requests wait behind the value, in its own gateway.
	waiters int
}

// heldText is held as it is kept.
type heldText struct {
	Value    string `json:"value"`
	Gateway  string `json:"gateway"`
	Holder   string `json:"holder"`
	Reserved bool   `json:"reserved,omitempty"`
	TTL      int64  `json:"ttl_ms"`
	Renewed  int64  `json:"renewed_ms,omitempty"`
	Stamp    int64  `json:"stamp"`
	Tenant   string `json:"tenant,omitempty"`
	Waiters  int    `json:"waiters,omitempty"`
}

func (h held) String() string {
	t := heldText{
		Value: h.value.String(), Gateway: h.gateway, Holder: h.holder, Reserved: h.reserved,
		TTL: millis(h.ttl), Stamp: h.stamp, Waiters: h.waiters,
	}
	if h.renewed > 0 {
		t.Renewed = millis(h.renewed)
	}
	if h.tenant != (fence.Digest{}) {
		t.Tenant = h.tenant.String()
	}
	return render(t)
}

// parseHeld reads a record. One that is none of ours holds the lease, too: with a value that nobody made, and for as long as
// a lease may run.
func parseHeld(kv *mvccpb.KeyValue) held {
	var t heldText
	err := json.Unmarshal(kv.Value, &t)
	h := held{
		gateway: t.Gateway, holder: t.Holder, reserved: t.Reserved, stamp: t.Stamp, waiters: t.Waiters,
		ttl: time.Duration(t.TTL) * time.Millisecond, renewed: time.Duration(t.Renewed) * time.Millisecond,
	}
	var hasValue bool
	h.value, hasValue = parseDigest(t.Value)
	hasTenant := t.Tenant == ""
	if !hasTenant {
		h.tenant, hasTenant = parseDigest(t.Tenant)
	}
	const most = int64(lease.MaxTTL / time.Millisecond)
	inRange := t.TTL >= 1 && t.TTL <= most && t.Renewed >= 0 && t.Renewed <= most && t.Waiters >= 0
	if err != nil || !hasValue || !hasTenant || !inRange || t.Gateway == "" {
		return held{value: fence.DigestOf("foreign", string(kv.Value)), holder: unknownHolder, ttl: lease.MaxTTL, stamp: kv.ModRevision}
	}
	return h
}

// entry is an entry of a queue. Where it stands and whose it is says its key.
type entry struct {
	Holder  string `json:"holder"`
	Waiters int    `json:"waiters"`
	Note    string `json:"note,omitempty"`
}

func (e entry) String() string { return render(e) }

// parseEntry reads an entry. What is none of ours stands in the queue all the same, until it is its turn.
func parseEntry(kv *mvccpb.KeyValue) (e entry) {
	if json.Unmarshal(kv.Value, &e) != nil {
		return entry{Holder: unknownHolder}
	}
	return e
}

func render(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and booleans only
	}
	return string(text)
}

func parseDigest(text string) (fence.Digest, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(fence.Digest{}) {
		return fence.Digest{}, false
	}
	d := fence.Digest(raw)
	return d, d.String() == text
}

// bounded is a time to live that no mistake makes endless.
func bounded(d time.Duration) time.Duration { return max(time.Millisecond, min(d, lease.MaxTTL)) }

func millis(d time.Duration) int64 { return bounded(d).Milliseconds() }
