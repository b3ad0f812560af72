package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencegate/fencegate/internal/load"
)

// progress tells how a measurement goes: on a terminal one line that changes, elsewhere now and then a line.
type progress struct {
	out      io.Writer
	terminal bool
	every    time.Duration
	told     bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: 5 * time.Second}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		p.terminal = err == nil
	}
	if p.terminal {
		p.every = 500 * time.Millisecond
	}
	return p
}

func (p *progress) tell(r load.Result) {
	p.told = true
	text := "warming up"
	if r.Elapsed > 0 {
		text = fmt.Sprintf("%s: %.0f/s, p50 %s, p99 %s, refused %d, failed %d", r.Elapsed.Round(100*time.Millisecond),
			r.Throughput(), inMS(r.Latency.Quantile(0.5)), inMS(r.Latency.Quantile(0.99)), r.Refused, r.Failed)
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", text)
	} else {
		fmt.Fprintln(p.out, text)
	}
}

// end takes the line away.
func (p *progress) end() {
	if p.terminal && p.told {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// inMS shows milliseconds with as many digits as matter.
func inMS(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
