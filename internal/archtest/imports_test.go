package archtest

import (
	"fmt"
	"strings"
)

// layer says what the packages of a pattern may import, in files that are no tests.
type layer struct {
	packages []string
	except   []string
	ours     []string
	// without are prefixes of forbidden imports; "." forbids all but the standard library.
	without []string
}

func backends() []string {
	return []string{
		"github.com/jackc/", "github.com/redis/", "github.com/alicebob/", "github.com/aws/", "github.com/pressly/", "go.etcd.io/",
		"database/sql",
	}
}

// layers is section 6 of the design: imports go one way.
func layers() []layer {
	return []layer{
		{packages: []string{"fence"}, without: []string{"."}},
		{packages: []string{"lease"}, ours: []string{"fence"}, without: backends()},
		{packages: []string{"lease/..."}, except: []string{"lease"}, ours: []string{"fence", "lease", "lease/leasetest"}},
		{packages: []string{"stores"}, ours: []string{"fence"}, without: backends()},
		{packages: []string{"stores/..."}, except: []string{"stores"}, ours: []string{"fence", "stores", "migrations"}},
		{packages: []string{"gateway"}, ours: []string{"fence", "lease", "gateway/openapi"}, without: backends()},
		{packages: []string{"gateway/openapi"}, ours: []string{"fence"}, without: []string{"."}},
		{packages: []string{"gateway/client"}, ours: []string{"fence", "lease", "internal/sse"}, without: []string{"."}},
		{packages: []string{"gateway/..."}, except: []string{"gateway", "gateway/client"}, ours: []string{"fence", "lease", "gateway"}, without: []string{"github.com/jackc/", "github.com/redis/"}},
		{packages: []string{"migrations"}, without: []string{"."}},
		{packages: []string{"internal/ratelimit"}, ours: []string{"fence"}, without: []string{"github.com/jackc/"}},
		{packages: []string{"internal/localservers"}},
		{packages: []string{"internal/testenv"}, ours: []string{"internal/localservers"}},
	}
}

func importsGoOneWay(s source) (found []string) {
	if s.isTest() {
		return nil
	}
	ours, theirs := s.imports()
	for _, l := range layers() {
		if !s.in(l.packages...) || s.in(l.except...) {
			continue
		}
		for _, name := range ours {
			if !matches(name, l.ours) {
				found = append(found, fmt.Sprintf("%s must not import %s", s.folder(), name))
			}
		}
		for _, name := range theirs {
			if forbidden(name, l.without) {
				found = append(found, fmt.Sprintf("%s must not import %s", s.folder(), name))
			}
		}
	}
	return found
}

func forbidden(name string, prefixes []string) bool {
	first, _, _ := strings.Cut(name, "/")
	for _, p := range prefixes {
		if p == "." && strings.Contains(first, ".") || strings.HasPrefix(name, p) && p != "." {
			return true
		}
	}
	return false
}

// supportStaysInTests keeps servers for development out of the libraries, and what serves tests out of the program.
func supportStaysInTests(s source) (found []string) {
	if s.isTest() {
		return nil
	}
	ours, _ := s.imports()
	for _, name := range ours {
		switch name {
		case "internal/localservers":
			if !s.in("cmd/...", "e2e/...", "internal/testenv") {
				found = append(found, fmt.Sprintf("%s must not import %s: only cmd, e2e and tests do", s.folder(), name))
			}
		case "internal/testenv", "internal/archtest", "lease/leasetest", "stores/storetest", "gateway/gatewaytest":
			if !s.in("e2e/...", "lease/leasetest", "stores/storetest", "gateway/gatewaytest") {
				found = append(found, fmt.Sprintf("%s must not import %s: only tests do", s.folder(), name))
			}
		}
	}
	return found
}
