package pgstore_test

import (
	"testing"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
)

func TestLedgerConformance(t *testing.T) {
	leasetest.RunLedger(t, func(t *testing.T) lease.Ledger { return newWorld(t).Store })
}
