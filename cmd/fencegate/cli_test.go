package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
)

// asProgram makes a process of this test binary the program, for what starts itself.
const asProgram = "TEST_BINARY_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(testenv.Main(m))
}

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), args, streams{strings.NewReader(""), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestMigrateAndProtect(t *testing.T) {
	url := "--database-url=" + testenv.Database(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"StatusOfAnEmptyDatabase", []string{"migrate", "status"}, 0, "missing  00001_ledger.sql"},
		{"Up", []string{"migrate", "up"}, 0, "applied 00001_ledger.sql"},
		{"UpToDate", []string{"migrate", "up"}, 0, "the ledger is up to date"},
		{"Status", []string{"migrate", "status"}, 0, "applied  00006_protect.sql"},
		{"NoSuchTable", []string{"protect", "nowhere", "--lease=x"}, 1, "there is no table public.nowhere"},
		{"Bucket", []string{"protect", "--bucket=reports", "--prefix=daily/", "--lease=daily:{key:2}"}, 0, "bucket reports, keys below daily/ is protected by lease daily:{key:2}"},
		{"BadTemplate", []string{"protect", "--bucket=reports", "--lease=x:{id}"}, 1, "names {id}"},
		{"BothKinds", []string{"protect", "t", "--bucket=reports", "--lease=x"}, 1, "either a table or a bucket"},
		{"NeitherKind", []string{"protect", "--lease=x"}, 1, "either a table or a bucket"},
		{"PrefixOfATable", []string{"protect", "t", "--prefix=x", "--lease=x"}, 1, "--prefix goes with --bucket"},
		{"NoLease", []string{"protect", "t"}, 80, "--lease"},
		{"EscapeSequence", []string{"protect", "no\x1bwhere", "--lease=x"}, 1, "fencegate: not a table name: no\\u001bwhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, append(c.args, url)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit %d, want %d, and %q in:\n%s%s", code, c.code, c.says, out, errs)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"Help", []string{"--help"}, 0, "Commands:"},
		{"DevHelp", []string{"dev", "--help"}, 0, "$FENCEGATE_LISTEN"},
		{"Version", []string{"version"}, 0, "fencegate "},
		{"NoCommand", nil, 80, "expected one of"},
		{"UnknownFlag", []string{"dev", "--nope"}, 80, "unknown flag --nope"},
		{"NotLoopback", []string{"dev", "--listen=0.0.0.0:0"}, 1, "loopback only"},
		{"NoPort", []string{"dev", "--listen=127.0.0.1"}, 1, "missing port"},
		{"Limit", []string{"dev", "--max-body=0"}, 1, "must be positive"},
		{"HalfOfTheServers", []string{"dev", "--listen=127.0.0.1:0", "--data=" + t.TempDir(), "--redis-url=redis://127.0.0.1:1"}, 1, "both or neither"},
		{"DemoWithoutGateway", []string{"demo", "--url=http://127.0.0.1:1"}, 1, "does not answer"},
		{"DemoTTL", []string{"demo", "--ttl=1ms"}, 1, "at least 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, c.args...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit %d, want %d, and %q in:\n%s%s", code, c.code, c.says, out, errs)
			}
		})
	}
}

func TestWriteEnv(t *testing.T) {
	dir := t.TempDir()
	if err := writeEnv(dir, []setting{{"FENCEGATE_URL", "http://127.0.0.1:1"}, {"FENCEGATE_DATABASE_URL", "postgres://u@/d?host=/a b&x='y'"}, {"FENCEGATE_REDIS_URL", "unix:///r"}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "env"))
	want := "export FENCEGATE_URL=http://127.0.0.1:1\nexport FENCEGATE_DATABASE_URL='postgres://u@/d?host=/a b&x='\\''y'\\'''\nexport FENCEGATE_REDIS_URL=unix:///r\n"
	if err != nil || string(data) != want {
		t.Errorf("%v %s", err, data)
	}
	info, err := os.Stat(filepath.Join(dir, "env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".env-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestNoPartOfAPasswordIsShown(t *testing.T) {
	const url = "postgres://user:12/hunter2@127.0.0.1:1/ledger"
	for _, args := range [][]string{{"serve", "--redis-url=redis://127.0.0.1:1", "--blob-dir=" + t.TempDir()}, {"doctor", "--redis-url=redis://127.0.0.1:1"}, {"migrate", "status"}, {"protect", "t", "--lease=x"}} {
		code, out, errs := command(t, append(args, "--database-url="+url)...)
		if code == 0 || strings.Contains(out+errs, "hunter2") || !strings.Contains(out+errs, "%2F") {
			t.Errorf("%s: exit %d:\n%s%s", args[0], code, out, errs)
		}
	}
	for _, args := range [][]string{{"serve", "--redis-url=redis://127.0.0.1:1", "--blob-dir=" + t.TempDir()}, {"doctor", "--redis-url=redis://127.0.0.1:1"}, {"migrate", "up"}} {
		for _, dsn := range []string{"host=127.0.0.1 password = hunter2 sslmode=bogus", "host=127.0.0.1 PASSWORD=hunter2 sslmode=bogus", "postgres://u:hunter2@h:port/d", "postgres://u:hunter2%zz@h/d", "hunter2"} {
			if code, out, errs := command(t, append(args, "--database-url="+dsn)...); code == 0 || strings.Contains(out+errs, "hunter2") {
				t.Errorf("%s with %s: exit %d:\n%s%s", args[0], dsn, code, out, errs)
			}
		}
	}
	for shown, secret := range map[string]string{
		"postgres://u:xxxxx@h/d?sslmode=disable":                     "postgres://u:hunter2@h/d?sslmode=disable",
		"redis+sentinel://h?addr=b%3A1&master_name=m&password=xxxxx": "redis+sentinel://h?master_name=m&addr=b:1&password=hunter2",
		"redis://xxxxx@h":                  "redis://hunter2@h",
		"postgres://u@h/d?options=xxxxx":   "postgres://u@h/d?options=-c%20app.jwt%3Dhunter2",
		"redis://h?PASSWORD=xxxxx":         "redis://h?PASSWORD=hunter2",
		"host=h port=5432 dbname=d user=u": "host=h user=u dbname=d password=hunter2",
		"":                                 "",
	} {
		if got := redact(secret); got != shown {
			t.Errorf("%s is shown as %s, want %s", secret, got, shown)
		}
	}
	for _, secret := range []string{url, "hunter2", "postgres://u:1#hunter2@h/d", "postgres://u:1?hunter2@h/d", "redis://u:1?hunter2@h", "https://u:1#hunter2@minio", "user:hunter2@minio:9000", "redis+sentinel://h?addr=u:hunter2@b:1"} {
		if got := redact(secret); strings.Contains(got, "hunter2") {
			t.Errorf("%s is shown as %s", secret, got)
		}
	}
}

func TestSayable(t *testing.T) {
	answer := errors.New("operation error S3: CopyObject, https response error StatusCode: 400, api error MetadataTooLarge: too large")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"NoCode":   {fmt.Errorf("export a: %w", answer), "export a: " + answer.Error()},
		"Code":     {fmt.Errorf("export a: %w", fence.Wrap(fence.CodeContention, answer, "it changed")), "export a: it changed"},
		"Store":    {fmt.Errorf("export a: %w", fence.Wrap(fence.CodeStoreUnavailable, answer, "copy it")), "export a: copy it: " + answer.Error()},
		"Stores":   {fence.Wrap(fence.CodeStoreUnavailable, fence.Errorf(fence.CodeStoreUnavailable, "it is off"), "copy it"), "copy it: it is off"},
		"Alone":    {fence.Errorf(fence.CodeStoreUnavailable, "copy it"), "copy it"},
		"Internal": {fmt.Errorf("a: %w", fence.Errorf(fence.CodeInternal, "lost")), "a: internal: lost"},
	} {
		if got := sayable(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
