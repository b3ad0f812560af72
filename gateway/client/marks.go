package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// mark reads the answer of a path below /v1/marks.
func (c *Client) mark(ctx context.Context, path string) (fence.State, error) {
	var m struct {
		Resource  string      `json:"resource"`
		Token     fence.Token `json:"token"`
		Lease     string      `json:"lease"`
		Principal string      `json:"principal"`
		WrittenAt time.Time   `json:"written_at"`
	}
	err := c.do(ctx, &request{what: "marks.get", method: http.MethodGet, path: path, limit: c.within}, func(resp *http.Response) error {
		if err := c.answer(resp, &m); err != nil {
			return err
		}
		if m.Resource == "" {
			return errors.New("the answer is no mark")
		}
		return nil
	})
	if err != nil {
		return fence.State{}, err
	}
	return fence.State{Resource: m.Resource, Lease: m.Lease, Mark: m.Token, MarkedBy: m.Principal, WrittenAt: m.WrittenAt}, nil
}
