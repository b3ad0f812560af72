package leasetest_test

import (
	"slices"
	"testing"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
)

func TestReferenceLedger(t *testing.T) {
	leasetest.RunLedger(t, func(*testing.T) lease.Ledger { return leasetest.NewLedger() })
}

// The locker in memory keeps the contract that it stands for in other tests.
func TestLockerInMemory(t *testing.T) {
	space := leasetest.NewSpace()
	leasetest.Run(t, leasetest.Backend{
		Open: func(*testing.T) lease.Locker { return space.Locker() },
		Leftovers: func(_ *testing.T, name string) []string {
			if slices.Contains(space.Names(), name) {
				return []string{name}
			}
			return nil
		},
	})
}
