package e2e

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var memoryEach = flag.Int64("memory.each", 0, "how many MiB each of the uploads of TestMemoryOfManyUploads has; 300 to see what a deployment sees")

// TestMemoryOfManyUploads: eight bodies of unknown length at once go through a gateway that is to do with 128 MiB. Its peak stays below the
// budget of all uploads, which is 128 MiB, and 64 MiB more.
func TestMemoryOfManyUploads(t *testing.T) {
	if *memoryEach == 0 {
		t.Skip("gigabytes are sent only on request: go test ./e2e -run TestMemoryOfManyUploads -args -memory.each=300; TestHeapOfManyUploads of stores/s3store shows the same with a small budget")
	}
	const uploads, most = 8, (128 + 64) << 10
	server := newRestartableS3(t)
	server.start()
	s := testServers(t)
	p := launchServeIn(t, []string{"GOMEMLIMIT=128MiB"}, "--database-url="+s.database, "--redis-url="+s.redis,
		"--s3-endpoint="+server.Endpoint, "--s3-access-key="+server.AccessKey, "--s3-secret-key="+server.SecretKey)
	p.waitReady()
	server.makeBucket("reports")
	protectBucket(t, s.database, "reports", "report:{key}")
	w, idle := newWire(t, p.url), peakMemory(t, p)
	var all, begun sync.WaitGroup
	begun.Add(uploads)
	for i := range uploads {
		key := strconv.Itoa(i)
		g := w.acquire("report:"+key, `"ttl":"1h"`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.base+"/v1/objects/reports/"+key, io.MultiReader(
			meeting(&begun), io.LimitReader(endless{}, *memoryEach<<20)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Fence-Token", fmt.Sprint(g.Token))
		all.Go(func() {
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated || !strings.Contains(string(text), fmt.Sprintf(`"size":%d`, *memoryEach<<20)) {
				t.Errorf("%s %s %v", answer.Status, text, err)
			}
		})
	}
	all.Wait()
	peak := peakMemory(t, p)
	t.Logf("the peak is %d MiB, before the uploads it was %d MiB", peak>>10, idle>>10)
	if peak > most {
		t.Errorf("the peak is %d MiB, allowed are %d", peak>>10, most>>10)
	}
}

// peakMemory is the most that a program had resident so far, in KiB.
func peakMemory(t *testing.T, p *program) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("%s", status)
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// meeting is a reader without bytes that ends once all readers have begun.
func meeting(begun *sync.WaitGroup) io.Reader {
	return onRead(func([]byte) (int, error) {
		begun.Done()
		begun.Wait()
		return 0, io.EOF
	})
}

type onRead func(p []byte) (int, error)

func (f onRead) Read(p []byte) (int, error) { return f(p) }

// endless is as many bytes as are asked for.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
