package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway/access"
)

const (
	anAccessKey = "exporter-2026-01"
	aSecretKey  = "0123456789abcdefghijklmnopqrstuv"
)

func TestS3Keys(t *testing.T) {
	policy, err := access.Parse([]byte("principals:\n  - name: a\n    s3_keys:\n      - {access_key: " + anAccessKey + ", secret_key: " + aSecretKey + "}\n  - name: b\n"))
	if err != nil {
		t.Fatal(err)
	}
	secret, owner, found := policy.Key(anAccessKey)
	if !found || secret != aSecretKey || owner.Principal() != "a" || len(owner.AccessKeys()) != 1 || owner.AccessKeys()[0] != anAccessKey {
		t.Errorf("%v %v", owner, found)
	}
	if _, _, found := policy.Key("another-key-2026"); found {
		t.Error("a key that is not there was found")
	}
}

// Nothing of what may be a secret is repeated.
func TestS3KeysAreRefused(t *testing.T) {
	const head = "principals:\n  - name: a\n    s3_keys:\n"
	pair := "{access_key: " + anAccessKey + ", secret_key: " + aSecretKey + "}"
	for _, c := range []struct{ name, file, want string }{
		{"None", "principals:\n  - name: a\n    s3_keys: []\n", `3:5: principal "a": s3_keys is an empty list`},
		{"Text", head + "      - " + aSecretKey + "\n", `4:9: principal "a": an S3 key is a mapping with the keys access_key, secret_key, secret_key_file`},
		{"NoAccessKey", head + "      - {secret_key: " + aSecretKey + "}\n", `4:9: principal "a": the S3 key has no access_key`},
		{"NoSecret", head + "      - {access_key: " + anAccessKey + "}\n", `4:9: principal "a": an S3 key has a secret_key or a secret_key_file`},
		{"TwoSecrets", head + "      - {access_key: " + anAccessKey + ", secret_key: " + aSecretKey + ", secret_key_file: f}\n", `4:9: principal "a": an S3 key has a secret_key or a secret_key_file`},
		{"ShortAccessKey", head + "      - {access_key: short, secret_key: " + aSecretKey + "}\n", `4:22: principal "a": access_key: an access key has 16 to 128 characters, this one has 5`},
		{"StrangeAccessKey", head + "      - {access_key: a/b/c/d/e/f/g/h/i, secret_key: " + aSecretKey + "}\n", `4:22: principal "a": access_key: an access key has letters, digits and _.@+- only`},
		{"TemporaryAccessKey", head + "      - {access_key: ASIA567890123456, secret_key: " + aSecretKey + "}\n", `4:22: principal "a": access_key: an access key that begins with ASIA is a temporary one, which comes with a session token`},
		{"ShortSecret", head + "      - {access_key: " + anAccessKey + ", secret_key: " + aSecretKey[1:] + "}\n", `4:52: principal "a": secret_key: a secret key has 32 to 512 characters, this one has 31`},
		{"SpaceInSecret", head + "      - {access_key: " + anAccessKey + ", secret_key: \"" + aSecretKey[1:] + " x\"}\n", `4:52: principal "a": secret_key: a secret key has characters of ASCII without spaces only`},
		{"SameKey", head + "      - " + pair + "\n  - name: b\n    s3_keys:\n      - " + pair + "\n", `7:9: principal "b": the same access_key stands in line 4, of principal "a"`},
		{"OfASubject", "issuers:\n  - {issuer: i, audience: [x], jwks_file: f}\nprincipals:\n  - name: i#s\n    s3_keys:\n      - " + pair + "\n", `5:5: principal "i#s": a subject of an issuer comes with JWTs, and has no S3 keys`},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.file, c.want) })
	}
}

func TestS3SecretsOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("auth.yaml", "principals:\n  - name: a\n    s3_keys:\n      - {access_key: "+anAccessKey+", secret_key_file: a.key}\n")
	if _, err := access.Load(file); err == nil || !strings.Contains(err.Error(), "auth.yaml:4:1: principal \"a\": secret_key_file: ") {
		t.Errorf("without the file: %v", err)
	}
	for _, content := range []string{aSecretKey, aSecretKey + "\n", aSecretKey + "\r\n"} {
		write("a.key", content)
		policy, err := access.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if secret, _, _ := policy.Key(anAccessKey); secret != aSecretKey {
			t.Errorf("%q is read as %d characters", content, len(secret))
		}
	}
	for _, content := range []string{"", "short\n", aSecretKey + "\nmore\n", strings.Repeat("x", 600)} {
		write("a.key", content)
		if _, err := access.Load(file); err == nil || content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("%.40q: %v", content, err)
		}
	}
}

// What replaces a policy replaces its keys.
func TestS3KeysAreReplaced(t *testing.T) {
	parse := func(access1 string) *access.Policy {
		t.Helper()
		p, err := access.Parse([]byte("principals:\n  - name: a\n    s3_keys:\n      - {access_key: " + access1 + ", secret_key: " + aSecretKey + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, err := access.New(access.Config{Policy: parse(anAccessKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if secret, caller, found := a.Key(anAccessKey); !found || secret != aSecretKey || caller.Principal() != "a" {
		t.Errorf("%v %v", caller, found)
	}
	a.Replace(parse("exporter-2026-02"))
	if _, caller, found := a.Key(anAccessKey); found || caller != nil {
		t.Error("the old key is good still")
	}
	a.NoteFailed()
	if a.Failed() != 1 {
		t.Errorf("%d failed", a.Failed())
	}
}
