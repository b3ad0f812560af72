package gateway_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

func TestAcquireRate(t *testing.T) {
	limited := func(c *gateway.Config) { c.AcquireRate, c.AcquireBurst = 0.01, 3 }
	t.Run("RateLimitedPerPrincipal", func(t *testing.T) {
		a := serve(t, limited)
		for i := range 3 {
			a.want(201, "POST", fmt.Sprintf("/v1/leases/l%d", i), "", "X-User: greedy")
		}
		p := a.refused(429, "rate-limited", "POST", "/v1/leases/l3", "", "X-User: greedy")
		if !p.Retryable || p.Lease != "l3" {
			t.Fatalf("%+v", p)
		}
		if after, err := strconv.Atoi(a.want(429, "POST", "/v1/leases/l3", "", "X-User: greedy").Header.Get("Retry-After")); err != nil || after < 50 || after > 100 {
			t.Errorf("Retry-After is %d, one more draw comes after 100 s", after)
		}
		a.want(404, "GET", "/v1/leases/l3", "", "X-User: greedy")
		a.want(201, "POST", "/v1/leases/l3", "", "X-User: modest")
	})
	t.Run("MoreTokensCount", func(t *testing.T) {
		a := serve(t, limited)
		id := "X-Lease-Id: " + a.want(201, "POST", "/v1/leases/l", "").Header.Get("X-Lease-Id")
		a.want(200, "POST", "/v1/leases/l/tokens", "", id)
		a.want(200, "POST", "/v1/leases/l/tokens", "", id)
		a.refused(429, "rate-limited", "POST", "/v1/leases/l/tokens", "", id)
		a.want(200, "PUT", "/v1/leases/l", "", id)
		a.want(204, "DELETE", "/v1/leases/l", "", id)
	})
	t.Run("Unlimited", func(t *testing.T) {
		a := serve(t, nil)
		for i := range 100 {
			a.want(201, "POST", fmt.Sprintf("/v1/leases/l%d", i), "")
		}
	})
	t.Run("OutOfRange", func(t *testing.T) {
		mem := gatewaytest.New()
		for rate, ok := range map[float64]bool{0: true, 0.5: true, 1e6: true, -1: false, 1e7: false, math.NaN(): false} {
			_, err := gateway.New(gateway.Config{Leases: mem, Rows: mem, Objects: mem, Readiness: mem, AcquireRate: rate})
			if ok != (err == nil) {
				t.Errorf("a rate of %v: %v", rate, err)
			}
		}
	})
}
