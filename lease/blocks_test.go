package lease_test

import (
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// checkBlocks looks for a token that two grants have.
func checkBlocks(t *testing.T, grants []*fence.Grant) {
	t.Helper()
	seen := map[fence.Token]bool{}
	for _, g := range grants {
		for _, b := range g.Blocks {
			for first := b.First; first < b.Last; first += fence.BlockSize {
				if seen[first] {
					t.Fatalf("token %d was issued twice", first)
				}
				seen[first] = true
			}
		}
	}
}
