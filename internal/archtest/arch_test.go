package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rule returns what is wrong with a file.
type rule func(source) []string

func rules() map[string]rule {
	return map[string]rule{
		"ImportsGoOneWay":          importsGoOneWay,
		"SupportStaysInTests":      supportStaysInTests,
		"PackagesKeepNoState":      packagesKeepNoState,
		"StatusesStayInTheGateway": statusesStayInTheGateway,
		"OneTableMapsCodes":        oneTableMapsCodes,
		"FilesAreShort":            filesAreShort,
	}
}

func TestArchitecture(t *testing.T) {
	files := sources(t)
	for name, check := range rules() {
		t.Run(name, func(t *testing.T) {
			for _, s := range files {
				for _, problem := range check(s) {
					t.Errorf("%s: %s", s.path, problem)
				}
			}
		})
	}
}

// The walk could miss what it is about, and every rule would hold.
func TestSourcesCoverTheModule(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		seen[s.folder()] = true
	}
	for _, folder := range []string{"fence", "lease", "lease/redislease", "stores", "stores/pgstore", "gateway", "cmd/fencegate", "internal/archtest"} {
		if !seen[folder] {
			t.Errorf("no file of %s was read", folder)
		}
	}
}

// An exception that outlived its file would silently cover the next file of that name.
func TestExceptionsAreNeeded(t *testing.T) {
	for name := range longFiles() {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || strings.Count(string(text), "\n") <= maxLines {
			t.Errorf("%s needs no exception for its length", name)
		}
	}
	for name := range fixedVariables() {
		file, variable, _ := strings.Cut(name, ":")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), "var "+variable+" ") {
			t.Errorf("%s has no variable %s any more", file, variable)
		}
	}
}

func TestRulesFindViolations(t *testing.T) {
	const ours = module + "/"
	tests := []struct {
		rule, name, path, text string
		want                   string // part of the only problem; empty when there is none
	}{
		{"ImportsGoOneWay", "FenceImportsOurs", "fence/a.go", `import "` + ours + `lease"`, "fence must not import lease"},
		{"ImportsGoOneWay", "FenceImportsTheirs", "fence/a.go", `import "golang.org/x/sync/errgroup"`, "fence must not import golang.org/x/sync/errgroup"},
		{"ImportsGoOneWay", "FenceImportsStandard", "fence/a.go", `import "crypto/sha256"`, ""},
		{"ImportsGoOneWay", "FenceTestImportsTheirs", "fence/a_test.go", `import "pgregory.net/rapid"`, ""},
		{"ImportsGoOneWay", "LeaseImportsStores", "lease/a.go", `import "` + ours + `stores"`, "lease must not import stores"},
		{"ImportsGoOneWay", "LeaseImportsRedis", "lease/a.go", `import "github.com/redis/go-redis/v9"`, "lease must not import github.com/redis"},
		{"ImportsGoOneWay", "LockerImportsRedis", "lease/redislease/a.go", `import "github.com/redis/go-redis/v9"`, ""},
		{"ImportsGoOneWay", "LockerImportsPgstore", "lease/pglease/a.go", `import "` + ours + `stores/pgstore"`, "must not import stores/pgstore"},
		{"ImportsGoOneWay", "StoreImportsMigrations", "stores/pgstore/a.go", `import "` + ours + `migrations"`, ""},
		{"ImportsGoOneWay", "StoreImportsStore", "stores/pgstore/a.go", `import "` + ours + `stores/s3store"`, "must not import stores/s3store"},
		{"ImportsGoOneWay", "StoreImportsGateway", "stores/s3store/a.go", `import "` + ours + `gateway"`, "must not import gateway"},
		{"ImportsGoOneWay", "GatewayImportsStores", "gateway/a.go", `import "` + ours + `stores"`, "gateway must not import stores"},
		{"ImportsGoOneWay", "GatewayImportsPgx", "gateway/a.go", `import "github.com/jackc/pgx/v5"`, "gateway must not import github.com/jackc/pgx/v5"},
		{"ImportsGoOneWay", "GatewayImportsSQL", "gateway/a.go", `import "database/sql"`, "gateway must not import database/sql"},
		{"ImportsGoOneWay", "ClientImportsTheGateway", "gateway/client/a.go", `import "` + ours + `gateway"`, "gateway/client must not import gateway"},
		{"ImportsGoOneWay", "ClientImportsTheirs", "gateway/client/a.go", `import "golang.org/x/sync/errgroup"`, "must not import golang.org/x/sync"},
		{"ImportsGoOneWay", "ClientImportsRedis", "gateway/client/a.go", `import "github.com/redis/go-redis/v9"`, "must not import github.com/redis"},
		{"ImportsGoOneWay", "LimiterImportsRedis", "internal/ratelimit/a.go", `import "github.com/redis/go-redis/v9"`, ""},
		{"ImportsGoOneWay", "LimiterImportsGateway", "internal/ratelimit/a.go", `import "` + ours + `gateway"`, "must not import gateway"},
		{"ImportsGoOneWay", "ProgramImportsEverything", "cmd/fencegate/a.go", `import "` + ours + `stores/pgstore"`, ""},

		{"SupportStaysInTests", "LibraryStartsServers", "stores/pgstore/a.go", `import "` + ours + `internal/localservers"`, "must not import internal/localservers"},
		{"SupportStaysInTests", "ProgramStartsServers", "cmd/fencegate/a.go", `import "` + ours + `internal/localservers"`, ""},
		{"SupportStaysInTests", "TestStartsServers", "stores/pgstore/a_test.go", `import "` + ours + `internal/localservers"`, ""},
		{"SupportStaysInTests", "ProgramUsesTestenv", "cmd/fencegate/a.go", `import "` + ours + `internal/testenv"`, "must not import internal/testenv"},
		{"SupportStaysInTests", "ProgramUsesSuite", "cmd/fencegate/a.go", `import "` + ours + `lease/leasetest"`, "must not import lease/leasetest"},

		{"PackagesKeepNoState", "Counter", "lease/a.go", `var count int`, "variable count"},
		{"PackagesKeepNoState", "Map", "lease/a.go", `var cache = map[string]int{}`, "variable cache"},
		{"PackagesKeepNoState", "SecondOfTwo", "lease/a.go", `var errA, b = errors.New("a"), 1`, "variable b"},
		{"PackagesKeepNoState", "NamedLikeAnError", "lease/a.go", `var errCount int`, "variable errCount"},
		{"PackagesKeepNoState", "Init", "lease/a.go", `func init() {}`, "func init"},
		{"PackagesKeepNoState", "MethodNamedInit", "lease/a.go", `type a int; func (a) init() {}`, ""},
		{"PackagesKeepNoState", "Sentinel", "lease/a.go", `var ErrVoid = errors.New("void")`, ""},
		{"PackagesKeepNoState", "InterfaceCheck", "lease/a.go", `var _ Locker = (*A)(nil)`, ""},
		{"PackagesKeepNoState", "Embedded", "lease/a.go", "//go:embed a.lua\nvar script string", ""},
		{"PackagesKeepNoState", "EmbeddedInAGroup", "lease/a.go", "var (\n\t//go:embed a.lua\n\tscript string\n)", ""},
		{"PackagesKeepNoState", "Regexp", "lease/a.go", "var word = regexp.MustCompile(`a`)", ""},
		{"PackagesKeepNoState", "ListedElsewhere", "gateway/other.go", `var outcomes = map[int]int{}`, "variable outcomes"},
		{"PackagesKeepNoState", "Local", "lease/a.go", `func f() { var a int; _ = a }`, ""},
		{"PackagesKeepNoState", "InATest", "lease/a_test.go", `var seed = 1`, ""},

		{"StatusesStayInTheGateway", "Store", "stores/pgstore/a.go", `func f() int { return http.StatusConflict }`, "http.StatusConflict is for the gateway"},
		{"StatusesStayInTheGateway", "Fence", "fence/a.go", `const c = http.StatusOK`, "http.StatusOK is for the gateway"},
		{"StatusesStayInTheGateway", "S3ReturnsOne", "stores/s3store/a.go", `func f() int { return http.StatusConflict }`, "http.StatusConflict is for the gateway"},
		{"StatusesStayInTheGateway", "S3ComparesOne", "stores/s3store/a.go", `func f(n int) bool { switch n { case http.StatusOK: return true }; return n != http.StatusFound }`, ""},
		{"StatusesStayInTheGateway", "ProbeComparesOne", "stores/s3store/s3probe/a.go", `func f(n int) bool { switch n { case http.StatusOK: return true }; return n != http.StatusFound }`, ""},
		{"StatusesStayInTheGateway", "RowsCompareOne", "stores/pgstore/a.go", `func f(n int) bool { return n != http.StatusFound }`, "http.StatusFound is for the gateway"},
		{"StatusesStayInTheGateway", "Gateway", "gateway/a.go", `const c = http.StatusOK`, ""},

		{"OneTableMapsCodes", "Case", "gateway/a.go", `func f(c fence.Code) int { switch c { case fence.CodeNotFound: return http.StatusNotFound }; return 0 }`, "fence.CodeNotFound becomes http.StatusNotFound"},
		{"OneTableMapsCodes", "Condition", "gateway/a.go", `func f(c fence.Code) int { if c == fence.CodeNotFound { return http.StatusNotFound }; return 0 }`, "fence.CodeNotFound becomes http.StatusNotFound"},
		{"OneTableMapsCodes", "Table", "gateway/a.go", `func f() any { return map[fence.Code]int{fence.CodeNotFound: http.StatusNotFound} }`, "fence.CodeNotFound becomes http.StatusNotFound"},
		{"OneTableMapsCodes", "ErrorsFile", errorsFile, `func f() any { return map[fence.Code]int{fence.CodeNotFound: http.StatusNotFound} }`, ""},
		{"OneTableMapsCodes", "StatusAlone", "gateway/a.go", `func f() int { return http.StatusNoContent }`, ""},

		{"FilesAreShort", "Long", "lease/a.go", strings.Repeat("\n", maxLines), "401 lines are more than 400"},
		{"FilesAreShort", "LongTest", "lease/a_test.go", strings.Repeat("\n", maxLines), "401 lines are more than 400"},
		{"FilesAreShort", "JustShortEnough", "lease/a.go", strings.Repeat("\n", maxLines-1), ""},
	}
	covered := make(map[string]bool)
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.name, func(t *testing.T) {
			s, err := parse(tt.path, "package a\n"+tt.text)
			if err != nil {
				t.Fatal(err)
			}
			found := rules()[tt.rule](s)
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("found %q", found)
			case tt.want != "" && (len(found) != 1 || !strings.Contains(found[0], tt.want)):
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
		covered[tt.rule] = covered[tt.rule] || tt.want != ""
	}
	for name := range rules() {
		if !covered[name] {
			t.Errorf("no violation of %s is tried", name)
		}
	}
}
