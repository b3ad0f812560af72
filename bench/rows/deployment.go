package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// startGateways starts gateways until there are so many.
func (b *bench) startGateways(ctx context.Context, n int) error {
	for len(b.gateways) < n {
		name := fmt.Sprint("gateway-", len(b.gateways)+1)
		c, err := startChild(ctx, b.servers.dir, name, b.gateway, nil, "serve", "--listen=127.0.0.1:0", "--drain-delay=0s", "--log-level=warn",
			"--database-url="+b.servers.postgres.URL(""), "--redis-url="+b.servers.redis.URL(), "--blob-dir="+filepath.Join(b.servers.dir, "blobs"))
		if err != nil {
			return err
		}
		b.servers.add(func() error { c.stop(); return nil })
		b.gateways = append(b.gateways, c)
	}
	return nil
}

// startService starts this program once more, as the service without fencing. Connections that are idle for a second are
// closed, since the server has not enough of them for all who take turns.
func (b *bench) startService(ctx context.Context) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s&pool_max_conns=%d&pool_max_conn_idle_time=1s&pool_health_check_period=500ms", b.servers.postgres.URL(""), poolSize)
	c, err := startChild(ctx, b.servers.dir, caseUnfenced, program, []string{serviceURL + "=" + url}, serviceArg)
	if err != nil {
		return nil, err
	}
	b.servers.add(func() error { c.stop(); return nil })
	return c, nil
}

// peakMemory is the most memory that a process had in RAM, in bytes; 0 where it cannot be seen.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

func parsePeak(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("the status of a process has no VmHWM")
}
