package main

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestProtectGuardListRemove(t *testing.T) {
	url, exec := patient(t)
	exec(`CREATE TABLE base (id bigint PRIMARY KEY, v int); CREATE VIEW shown AS SELECT id AS no, v FROM base; CREATE TABLE gone (id int PRIMARY KEY);
		CREATE TABLE set (id int PRIMARY KEY)`)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"wallets --guard", exitOK, "table wallets is guarded"},
		{"wallets --guard --unguard", 80, "can't be used together"},
		{"shown --lease=s", exitFailed, "declare the columns that name its rows"},
		{"shown --lease=s:{no} --key=no", exitOK, "table shown is protected by lease s:{no}"},
		{"shown --lease=t:{no}", exitOK, "is protected by lease t:{no}"},
		{"shown --guard", exitFailed, "only a table can be guarded"},
		{"shown --key=no --guard", 80, "--key goes with --lease"},
		{"wallets --lease=w --key=id", exitFailed, "a key is declared for a view only"},
		{"base --lease=b", exitFailed, "its rows are protected as public.shown"},
		{"base --guard", exitFailed, "protect it first"},
		{"gone --lease=gone:{id} --guard", exitOK, "table gone is guarded"},
		{"gone --unguard", exitOK, "table gone is not guarded any more"},
		{"--bucket=reports --prefix=daily/ --lease=daily:{key:2}", exitOK, "keys below daily/ is protected by lease"},
		{"--bucket=reports --prefix=daily/ --keep=1h --redirect", exitOK, "keys below daily/ is set up as asked for"},
		{"--bucket=reports --keep=1h", exitFailed, "not protected"},
		{"wallets --keep=1h", 80, "are for a bucket"},
		{"--bucket=reports --deletes=allow", 80, "--deletes must be one of"},
		{"--bucket=reports --prefix=daily/ --keep=-1h", exitFailed, "keep is a time of up to 3650 days"},
		{"--bucket=reports --prefix=daily/ --no-existing", exitOK, "set up"},
		{"--bucket=reports --prefix=daily/ --existing", exitOK, "set up"},
		{"--bucket=reports --lease=r", exitOK, ""},
		{"--bucket=reports --guard", exitFailed, "not for buckets"},
		{"--bucket=reports --remove", exitOK, "bucket reports is not protected any more"},
		{"--bucket=reports --remove", exitFailed, "the bucket reports is not protected"},
		{"gone --remove --lease=x", 80, "--remove takes a protection away"},
		{"public.set --lease=x", exitOK, "table public.set is protected"},
		{"set set --remove", exitOK, "table set is not protected any more"},
	} {
		code, out, errs := command(t, append(append([]string{"protect"}, strings.Fields(c.args)...), "--database-url="+url)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("protect %s: exit %d, want %q in:\n%s%s", c.args, code, c.says, out, errs)
		}
	}
	exec("DROP TABLE gone; ALTER TABLE wallets DISABLE TRIGGER fence_guard_delete")
	_, out, errs := command(t, "protect", "ls", "--database-url="+url)
	want := `KIND    NAME            KEY  LEASE          GUARD    OPTIONS                                  STATE
table   public.gone     id   gone:{id}      -        -                                        gone: there is no such table any more
view    public.shown    no   t:{no}         -        -                                        ok
table   public.wallets  id   wallet:{id}    guarded  -                                        guard has gaps: guard it again
bucket  reports/daily/  -    daily:{key:2}  -        existing=true keep=1h0m0s redirect=true  ok
`
	if out != want || errs != "" {
		t.Errorf("%s%s\nwant\n%s", out, errs, want)
	}
	_, lines := diagnose(t, "--database-url="+url)
	wantLine(t, lines, "warn table public.wallets", "fencegate protect 'public.wallets' --guard")
	wantLine(t, lines, "FAIL table public.gone", "not there any more")
	wantLine(t, lines, "ok table public.shown", "lease t:{no}")
	exec("SELECT fence.guard('wallets')")
	code, out, errs := command(t, "protect", "ls", "--json", "--database-url="+testenv.PgBouncer(t, url, "transaction"))
	if first := `{"kind":"table","name":"public.gone","lease":"gone:{id}","key":["id"],"state":"gone"}` + "\n"; code != exitOK || !strings.HasPrefix(out, first) ||
		!strings.Contains(out, `{"kind":"table","name":"public.wallets","lease":"wallet:{id}","key":["id"],"guarded":true}`+"\n") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
