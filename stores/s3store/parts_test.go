package s3store_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/storetest"
)

func TestAssembler(t *testing.T) {
	storetest.RunAssembler(t, func(t *testing.T) storetest.PartStore {
		env := testenv.Bucket(t)
		s := open(t, configOf(env))
		return storetest.PartStore{Assembler: s, Blobs: s, Other: open(t, configOf(env)), Bucket: env.Bucket}
	})
}
