package leasetest_test

import (
	"testing"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
)

func TestReferenceLedger(t *testing.T) {
	leasetest.RunLedger(t, func(*testing.T) lease.Ledger { return leasetest.NewLedger() })
}
