// Command shell prints a service of docker-compose.yml as assignments for bash, so that a script can start by hand what
// the file describes:
//
//	shell service ROOT NAME [FROM=TO ...]   arrays environment, command, health; grace in seconds
//	shell ports N                           array ports, of free loopback ports
//
// Each FROM is replaced by its TO in every word.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/fencegate/fencegate/internal/composetest"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shell:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) >= 3 && args[0] == "service":
		return service(out, args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == "ports":
		return ports(out, args[1])
	}
	return fmt.Errorf("usage: shell service ROOT NAME [FROM=TO ...] | shell ports N")
}

func service(out io.Writer, root, name string, rewrites []string) error {
	project, err := composetest.Load(context.Background(), root)
	if err != nil {
		return err
	}
	s, err := project.GetService(name)
	if err != nil {
		return err
	}
	var pairs []string
	for _, r := range rewrites {
		from, to, ok := strings.Cut(r, "=")
		if !ok || from == "" {
			return fmt.Errorf("%s: it has the form FROM=TO", r)
		}
		pairs = append(pairs, from, to)
	}
	p := printer{out: out, rewrite: strings.NewReplacer(pairs...)}
	p.array("environment", environment(s))
	p.array("command", append(slices.Clone([]string(s.Entrypoint)), s.Command...))
	p.array("health", health(s))
	grace := 10.0 // Docker's own
	if s.StopGracePeriod != nil {
		grace = float64(*s.StopGracePeriod) / 1e9
	}
	p.printf("grace=%.0f\n", grace)
	return p.err
}

func environment(s types.ServiceConfig) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if value := s.Environment[name]; value != nil {
			list = append(list, name+"="+*value)
		}
	}
	return list
}

// health is the check as words to execute.
func health(s types.ServiceConfig) []string {
	if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 {
		return nil
	}
	switch test := s.HealthCheck.Test; test[0] {
	case "CMD":
		return test[1:]
	case "CMD-SHELL":
		return append([]string{"/bin/sh", "-c"}, test[1:]...)
	}
	return nil
}

// ports are free when they are printed. All are held until then, so that they differ.
func ports(out io.Writer, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	p := printer{out: out, rewrite: strings.NewReplacer()}
	var list []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		list = append(list, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	p.array("ports", list)
	return p.err
}

type printer struct {
	out     io.Writer
	rewrite *strings.Replacer
	err     error
}

func (p *printer) array(name string, words []string) {
	p.printf("%s=(", name)
	for i, w := range words {
		if i > 0 {
			p.printf(" ")
		}
		p.printf("'%s'", strings.ReplaceAll(p.rewrite.Replace(w), "'", `'\''`))
	}
	p.printf(")\n")
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}
