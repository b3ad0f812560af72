package main

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestDoctorOfOtherLockers(t *testing.T) {
	url, exec := patient(t)
	pooler := testenv.PgBouncer(t, url, "transaction")
	etcd := testenv.Etcd(t)
	for _, c := range []struct{ name, args, begins, has string }{
		{"PostgreSQL", "--locker=postgres --database-url=" + url, "ok leases in PostgreSQL", "taken and given back"},
		{"PgBouncer", "--locker=postgres --pgbouncer --database-url=" + pooler, "warn leases in PostgreSQL", "every 100 ms"},
		{"PgBouncerListens", "--locker=postgres --pgbouncer --listen-url=" + url + " --database-url=" + pooler, "ok leases in PostgreSQL", "taken"},
		{"etcd", "--locker=etcd --etcd-url=" + etcd + " --database-url=" + url, "ok leases in etcd", "below fencegate:"},
		{"etcdPrefix", "--locker=etcd --etcd-prefix=mine --etcd-url=" + etcd + " --database-url=" + url, "ok leases in etcd", "below mine"},
		{"NoEtcd", "--locker=etcd --timeout=500ms --etcd-url=etcd://127.0.0.1:1 --database-url=" + url, "FAIL leases in etcd", "cannot be taken"},
		{"BadEtcd", "--locker=etcd --etcd-url=redis://x --database-url=" + url, "FAIL leases in etcd", "begins with none of etcd://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, lines := diagnose(t, strings.Fields(c.args)...)
			wantLine(t, lines, c.begins, c.has)
		})
	}
	code, out, errs := command(t, "doctor", "--locker=etcd", "--database-url="+url)
	if code == 0 || !strings.Contains(errs, "--locker=etcd needs --etcd-url") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	exec("ALTER TABLE fence.leases RENAME TO gone")
	_, lines := diagnose(t, "--locker=postgres", "--database-url="+url)
	wantLine(t, lines, "FAIL leases in PostgreSQL", "cannot be taken and given back")
}
