package pgstore

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Two notifications, of which the second comes while a description is read because of the first (PostgREST 2791): what was read
// is handed out and not kept.
func TestNotifiedWhileReading(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	var reads int64
	c := newTableCache(time.Hour, func(context.Context, string) (*table, error) {
		reads++
		version := reads
		if version == 2 {
			close(reading)
			<-goOn
		}
		return &table{version: version}, nil
	})
	get := func() int64 {
		got, err := c.get(t.Context(), "wallets", false)
		if err != nil {
			t.Error(err)
		}
		return got.version
	}
	if a, b := get(), get(); a != 1 || b != 1 {
		t.Fatalf("read %d, then %d", a, b)
	}
	c.forget()
	var slow sync.WaitGroup
	slow.Go(func() { get() })
	<-reading
	c.forget()
	close(goOn)
	slow.Wait()
	if a, b := get(), get(); a != 3 || b != 3 {
		t.Errorf("after the second notification version %d is believed, then %d", a, b)
	}
}
