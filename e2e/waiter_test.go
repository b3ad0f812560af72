package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// waitersEnv is set for the copy of the test binary whose requests wait for a lease.
const waitersEnv = "FENCEGATE_E2E_WAITERS"

// waitersPlan is what such a process does: so many acquires at once, each of which releases what it is granted.
type waitersPlan struct {
	URL, Lease, Holder string
	Count              int
}

// waitersMain tells a line for each grant, before it releases it: the holder and the first token.
func waitersMain(plan string) int {
	var p waitersPlan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0, MaxIdleConnsPerHost: p.Count}}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards standard output
	failed := 0
	for i := range p.Count {
		wg.Go(func() {
			line, err := p.one(client, i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				fmt.Fprintln(os.Stderr, err)
				return
			}
			fmt.Println(line)
		})
	}
	wg.Wait()
	return failed
}

func (p waitersPlan) one(client *http.Client, i int) (string, error) {
	holder := fmt.Sprintf("%s/%d", p.Holder, i)
	body := fmt.Sprintf(`{"ttl":"1m","wait":"2m","holder":%q}`, holder)
	var g grant
	if err := call(client, http.MethodPost, p.URL+"/v1/leases/"+p.Lease, body, "", &g); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d", holder, g.Token), call(client, http.MethodDelete, p.URL+"/v1/leases/"+p.Lease, "", g.ID, nil)
}

func call(client *http.Client, method, url, body, id string, into any) error {
	req, err := http.NewRequest(method, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if id != "" {
		req.Header.Set("X-Lease-Id", id)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %d %s", method, resp.StatusCode, content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}
