package s3api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Of 32 writers with one token, at two gateways and over HTTP and S3, exactly one succeeds (I1, I5).
func TestOneTokenOneWriter(t *testing.T) {
	const writers, rounds = 32, 2
	s := newServers(t)
	gateways := []*both{s.open(t, 0), s.open(t, 0)}
	g := gateways[0].grant("report:a")
	for round := range rounds {
		token := g.First() + tokenOf(round)
		type outcome struct {
			status int
			text   string
		}
		outcomes := make([]outcome, writers)
		requests := make([]*http.Request, writers)
		for i := range writers {
			requests[i] = gateways[i%2].put(i/2%2 == 0, "a", fmt.Sprintf("writer %d of round %d", i, round), token)
		}
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i, r := range requests {
			all.Go(func() {
				<-begin
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Error(err)
				}
				outcomes[i] = outcome{answer.StatusCode, string(text)}
			})
		}
		close(begin)
		all.Wait()
		winner := -1
		for i, o := range outcomes {
			switch {
			case o.status/100 == 2 && winner < 0:
				winner = i
			case o.status/100 == 2:
				t.Errorf("round %d: writers %d and %d both succeeded", round, winner, i)
			case o.status != http.StatusPreconditionFailed || !strings.Contains(o.text, "spent-token") && !strings.Contains(o.text, "SpentFenceToken"):
				t.Errorf("round %d: writer %d: %d %s", round, i, o.status, o.text)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody succeeded: %v", round, outcomes)
		}
		want, overS3 := fmt.Sprintf("writer %d of round %d", winner, round), winner/2%2 == 0
		for i, b := range gateways {
			if status, body := b.read(i == 0, "a"); status != http.StatusOK || body != want {
				t.Errorf("round %d: gateway %d reads %q, want %q", round, i, body, want)
			}
			// The winner's request is answered again anywhere, and nobody else's.
			for j, body := range []string{want, "another body"} {
				if answer := b.send(b.put(overS3, "a", body, token)); (answer.StatusCode/100 == 2) != (j == 0) {
					t.Errorf("round %d: %q again: %s", round, body, answer.Status)
				}
			}
		}
		gateways[0].wantBlobs(t, 1)
	}
}
