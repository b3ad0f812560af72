package fence_test

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// The ledger keeps digests of writes, and replays of them are found by other programs than the one that wrote.
func TestDigestStaysWhatItIs(t *testing.T) {
	if got, want := fence.DigestOf("row", "patch", "", `{"a":1}`).String(), "8a8da4831fff1944b5b8f115268c4865f907bad87a6a85b496f08c49f64c16b9"; got != want {
		t.Errorf("it is %s, was %s", got, want)
	}
	for _, fields := range [][]string{nil, {""}, {"", ""}, {"a", "bc"}, {"ab", "c"}, {strings.Repeat("x", 496), ""}, {strings.Repeat("x", 497), ""}, {"row", strings.Repeat("y", 100_000)}} {
		h := sha256.New()
		for _, f := range fields {
			_ = binary.Write(h, binary.BigEndian, uint64(len(f)))
			h.Write([]byte(f))
		}
		if got := fence.DigestOf(fields...); got != fence.Digest(h.Sum(nil)) {
			t.Errorf("%d fields: %s", len(fields), got)
		}
	}
}

func TestDigestTakesNoMemory(t *testing.T) {
	body := `{"balance":42.50,"note":"top-up"}`
	if n := testing.AllocsPerRun(100, func() { fence.DigestOf("row", "patch", "", body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
