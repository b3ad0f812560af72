package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// slowCatalogue tells who asks it, and keeps them until it is told.
type slowCatalogue struct{ entered, leave chan struct{} }

func (c *slowCatalogue) Tables(context.Context) ([]fence.TableName, error) {
	c.entered <- struct{}{}
	<-c.leave
	return nil, fence.Errorf(fence.CodeUnavailable, "PostgreSQL does not answer")
}

func (c *slowCatalogue) DescribeTables(context.Context, []fence.TableName) ([]fence.TableDescription, error) {
	return nil, nil
}

// Without its tables the document would tell of a gateway that there is not.
func TestOpenAPIWithoutPostgreSQL(t *testing.T) {
	c := &slowCatalogue{entered: make(chan struct{}, 10), leave: make(chan struct{})}
	a := serve(t, func(cfg *gateway.Config) { cfg.Catalogue = c })
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			if got := a.do("GET", "/openapi.json", ""); got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
				t.Errorf("%d: %s", got.StatusCode, got.text)
			}
		})
	}
	<-c.entered
	select {
	case <-c.entered:
		t.Error("two documents are made at once")
	case <-time.After(50 * time.Millisecond):
	}
	close(c.leave)
	clients.Wait()
}
