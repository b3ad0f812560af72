package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestAuthCheckOfIssuers(t *testing.T) {
	i := newIssuer(t)
	dir := t.TempDir()
	file, token, expired := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "token"), filepath.Join(dir, "expired")
	writeFile(t, file, i.entry()+`principals:
  - name: `+i.URL+`#root
    admin: true
    database_role: owner
  - name: static
    secret_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    database_role: App User
    claims: {sub: s}
`)
	writeFile(t, token, i.token(t, "alice")+"\n")
	writeFile(t, expired, strings.Replace(i.token(t, "alice"), ".", ".e", 1))
	alice, root := i.URL+"#alice", i.URL+"#root"
	for _, c := range []struct {
		name string
		args []string
		in   string
		code int
		says []string
	}{
		{"Lists", nil, "", 0, []string{
			`"` + root + `" (JWTs of "` + i.URL + `" only, admin, database role "owner")`,
			`"static" (1 secret, database role "App User", may do nothing)` + "\n  claims {\"sub\":\"s\"}",
			`issuer "` + i.URL + `" (audience "fencegate", leeway 30s, database role "app_user")` + "\n  keys from " + i.URL + "/keys, for RS256 ",
			`  line 6: read; tables wallets; columns "owner" "Balance"`,
		}},
		{"Subject", []string{"--principal=" + alice}, "", 0, []string{`"` + alice + `" (JWTs of "` + i.URL + `" only, database role "app_user")` + "\n  line 6: read"}},
		{"SubjectWithEntry", []string{"--principal=" + root}, "", 0, []string{`admin, database role "owner")`}},
		{"SubjectOfNobody", []string{"--principal=https://x#alice"}, "", 1, []string{`no principal "https://x#alice"`}},
		{"Can", []string{"--principal=" + alice, "--can=read wallets"}, "", 0, []string{"yes: "}},
		{"CanNot", []string{"--principal=" + alice, "--can=write wallets"}, "", 1, []string{"no: "}},
		{"Token", []string{"--token-file=" + token}, "", 0, []string{`"` + alice + `"`, `claims {"aud":"fencegate"`, "line 6: read"}},
		{"TokenCan", []string{"--token-file=" + token, "--can=write wallets"}, "", 1, []string{"no: "}},
		{"TokenOfInput", []string{"--token-file=-"}, i.token(t, "root"), 0, []string{`"` + root + `"`}},
		{"Secret", []string{"--token-file=-"}, "test\n", 0, []string{`"static"`}},
		{"WrongSecret", []string{"--token-file=-"}, "tset\n", 1, []string{"the credentials are not valid"}},
		{"WrongToken", []string{"--token-file=" + expired}, "", 1, []string{"the JWT is not valid"}},
		{"NoToken", []string{"--token-file=" + file + "x"}, "", 1, []string{"no such file"}},
		{"Both", []string{"--token-file=" + token, "--principal=" + alice}, "", 1, []string{"either --principal or --token-file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			code := run(context.Background(), append([]string{"auth", "check", file}, c.args...), streams{strings.NewReader(c.in), &out, &out})
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "eyJ") {
				t.Errorf("the token is shown:\n%s", out.String())
			}
		})
	}
}
