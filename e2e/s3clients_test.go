package e2e

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// s3Client is a program that speaks S3, and how it is told to do things to a bucket, which BUCKET stands for. What it is given for a token stands where its
// metadata is said.
type s3Client struct {
	name string
	// setup is what it needs to know, as files of a folder, as its environment, and as what comes first of its arguments.
	setup func(t *testing.T, dir string, front map[string]string) (env, first []string)
	put   func(file, key, token string) []string
	// parts is put for a body of 11 MiB, in parts of 5.
	parts  func(file, key, token string) []string
	get    func(key, file string) []string
	list   []string
	sign   func(key string) []string        // nil where URLs are signed as S3 did before 2014 only
	up     func(dir, token string) []string // a folder to below tree/
	down   func(dir string) []string
	remove func(key string) []string
	clear  []string // removes what is below tree/
}

func s3Clients() []s3Client {
	return []s3Client{
		{
			name: "aws",
			setup: func(t *testing.T, dir string, front map[string]string) (env, first []string) {
				config := filepath.Join(dir, "aws.config")
				writeFile(t, config, "[default]\nregion = eu-west-1\nmax_attempts = 1\ns3 =\n  multipart_threshold = 10MB\n  multipart_chunksize = 5MB\n")
				return []string{"AWS_CONFIG_FILE=" + config, "AWS_EC2_METADATA_DISABLED=true", "AWS_CA_BUNDLE=",
						"AWS_ACCESS_KEY_ID=" + front["FENCEGATE_S3_FRONT_ACCESS_KEY"], "AWS_SECRET_ACCESS_KEY=" + front["FENCEGATE_S3_FRONT_SECRET_KEY"]},
					[]string{"--endpoint-url", front["FENCEGATE_S3_FRONT_URL"]}
			},
			put: func(file, key, token string) []string {
				return []string{"s3", "cp", file, "s3://BUCKET/" + key, "--metadata", "fence-token=" + token}
			},
			parts: func(file, key, token string) []string {
				return []string{"s3", "cp", file, "s3://BUCKET/" + key, "--metadata", "fence-token=" + token}
			},
			get:  func(key, file string) []string { return []string{"s3", "cp", "s3://BUCKET/" + key, file} },
			list: []string{"s3", "ls", "--recursive", "s3://BUCKET/"},
			sign: func(key string) []string { return []string{"s3", "presign", "s3://BUCKET/" + key} },
			up: func(dir, token string) []string {
				return []string{"s3", "sync", dir, "s3://BUCKET/tree/", "--metadata", "fence-token=" + token}
			},
			down:   func(dir string) []string { return []string{"s3", "sync", "s3://BUCKET/tree/", dir} },
			remove: func(key string) []string { return []string{"s3", "rm", "s3://BUCKET/" + key} },
			clear:  []string{"s3", "rm", "--recursive", "s3://BUCKET/tree/"},
		},
		{
			name: "s3cmd",
			setup: func(t *testing.T, dir string, front map[string]string) (env, first []string) {
				host := strings.TrimPrefix(front["FENCEGATE_S3_FRONT_URL"], "http://")
				writeFile(t, filepath.Join(dir, ".s3cfg"), "[default]\nuse_https = False\nmax_retries = 1\nhost_base = "+host+"\nhost_bucket = "+host+
					"\naccess_key = "+front["FENCEGATE_S3_FRONT_ACCESS_KEY"]+"\nsecret_key = "+front["FENCEGATE_S3_FRONT_SECRET_KEY"]+"\n")
				return []string{"HOME=" + dir}, nil
			},
			put: func(file, key, token string) []string {
				return []string{"put", file, "s3://BUCKET/" + key, "--add-header=x-amz-meta-fence-token:" + token}
			},
			parts: func(file, key, token string) []string {
				return []string{"put", file, "s3://BUCKET/" + key, "--add-header=x-amz-meta-fence-token:" + token, "--multipart-chunk-size-mb=5"}
			},
			get:  func(key, file string) []string { return []string{"get", "s3://BUCKET/" + key, file} },
			list: []string{"ls", "--recursive", "s3://BUCKET"},
			up: func(dir, token string) []string {
				return []string{"sync", dir + "/", "s3://BUCKET/tree/", "--add-header=x-amz-meta-fence-token:" + token}
			},
			down:   func(dir string) []string { return []string{"sync", "s3://BUCKET/tree/", dir + "/"} },
			remove: func(key string) []string { return []string{"del", "s3://BUCKET/" + key} },
			clear:  []string{"del", "--recursive", "--force", "s3://BUCKET/tree/"},
		},
		{
			name: "rclone",
			setup: func(t *testing.T, dir string, front map[string]string) (env, first []string) {
				config := filepath.Join(dir, "rclone.conf")
				writeFile(t, config, "[front]\ntype = s3\nprovider = Other\nendpoint = "+front["FENCEGATE_S3_FRONT_URL"]+
					"\naccess_key_id = "+front["FENCEGATE_S3_FRONT_ACCESS_KEY"]+"\nsecret_access_key = "+front["FENCEGATE_S3_FRONT_SECRET_KEY"]+"\n")
				return []string{"RCLONE_CONFIG=" + config, "RCLONE_RETRIES=1", "RCLONE_LOW_LEVEL_RETRIES=1", "AWS_CA_BUNDLE="}, nil
			},
			put: func(file, key, token string) []string {
				return []string{"copyto", "--ignore-times", file, "front:BUCKET/" + key, "--header-upload=x-amz-meta-fence-token:" + token}
			},
			parts: func(file, key, token string) []string {
				return []string{"copyto", "--ignore-times", file, "front:BUCKET/" + key, "--header-upload=x-amz-meta-fence-token:" + token, "--s3-upload-cutoff=5M", "--s3-chunk-size=5M"}
			},
			get:  func(key, file string) []string { return []string{"copyto", "front:BUCKET/" + key, file} },
			list: []string{"lsf", "-R", "front:BUCKET"},
			sign: func(key string) []string { return []string{"link", "front:BUCKET/" + key} },
			up: func(dir, token string) []string {
				return []string{"sync", dir, "front:BUCKET/tree", "--header-upload=x-amz-meta-fence-token:" + token}
			},
			down:   func(dir string) []string { return []string{"sync", "front:BUCKET/tree", dir} },
			remove: func(key string) []string { return []string{"deletefile", "front:BUCKET/" + key} },
			clear:  []string{"delete", "front:BUCKET/tree"},
		},
	}
}

// Programs that know nothing of fencing write, read, list and remove; only where a token is sent has to be said.
func TestS3Clients(t *testing.T) {
	t.Parallel()
	p, s := startShared(t, "--s3-front-listen=127.0.0.1:0")
	for _, c := range s3Clients() {
		t.Run(c.name, func(t *testing.T) {
			program, found := installed(c.name)
			if !found && os.Getenv("FENCEGATE_TEST_S3_CLIENTS") == "" {
				t.Skipf("%s is not installed (make testdeps does it); with FENCEGATE_TEST_S3_CLIENTS=1 this would be a failure", c.name)
			} else if !found {
				t.Fatalf("%s is missing: make testdeps", c.name)
			}
			bucket := "site-" + c.name
			protectBucket(t, s.database, bucket, bucket)
			execSQL(t, s.database, `SELECT fence.set_options($1, '', '{"deletes": "lease"}')`, bucket)
			w := &s3Work{t: t, s3Client: c, program: program, dir: t.TempDir(), bucket: bucket, gateway: p.client()}
			env, first := c.setup(t, w.dir, p.env())
			w.env, w.first = append(os.Environ(), env...), first
			w.play()
		})
	}
}

// installed finds a program that runs: what a version manager leaves in the PATH may not.
func installed(name string) (path string, found bool) {
	for _, path := range []string{"/usr/bin/" + name, name} {
		if exec.Command(path, "--version").Run() == nil {
			return path, true
		}
	}
	return "", false
}

// s3Work is what a client is put through.
type s3Work struct {
	t *testing.T
	s3Client
	program, dir, bucket string
	env, first           []string
	gateway              *client
}

func (w *s3Work) play() {
	t := w.t
	lease := w.bucket
	g := w.gateway.acquire(lease, time.Hour)
	small, large := []byte("hello\n"), make([]byte, 11<<20)
	rand.Read(large)
	file := filepath.Join(w.dir, "small")
	writeFile(t, file, string(small))
	w.must(w.put(file, "a", itoa(g.Token+1)))
	w.wantObject("a", small)

	out, failed := w.run(w.put(file, "a", itoa(g.Token)))
	if !failed || !strings.Contains(out, "StaleFenceToken") && !strings.Contains(out, "412") {
		t.Errorf("a stale token is not shown as such:\n%s", out)
	}

	file = filepath.Join(w.dir, "large")
	writeFile(t, file, string(large))
	w.must(w.parts(file, "b/large", itoa(g.Token+1)))
	w.wantObject("b/large", large)
	back := filepath.Join(w.dir, "back")
	w.must(w.get("b/large", back))
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if list := w.must(w.list); !strings.Contains(list, "b/large") {
		t.Errorf("the list has no b/large:\n%s", list)
	}

	tree := filepath.Join(w.dir, "tree")
	for i := range 12 {
		writeFile(t, filepath.Join(tree, "file"+itoa(int64(i))), "1")
	}
	writeFile(t, filepath.Join(tree, "sub", "image(1)+2 x.png"), "2")
	w.must(w.up(tree, itoa(g.Token+1)))
	w.must(w.down(filepath.Join(w.dir, "copy")))
	if got, err := os.ReadFile(filepath.Join(w.dir, "copy", "sub", "image(1)+2 x.png")); err != nil || string(got) != "2" {
		t.Errorf("%q came back, %v", got, err)
	}

	if w.sign != nil {
		lines := strings.Fields(w.must(w.sign("a")))
		w.fetch(lines[len(lines)-1], small)
	}
	if out, failed := w.run(w.remove("a")); !failed {
		t.Errorf("removed under somebody's lease:\n%s", out)
	}
	w.gateway.release(lease, g)
	w.must(w.remove("a"))
	if r := w.gateway.get("objects/" + w.bucket + "/a"); r.status != http.StatusNotFound {
		t.Errorf("what was removed answers %v", r)
	}
	// Under one lease, of which each key's delete needs a grant, or all together do.
	w.must(w.clear)
	if list := w.must(w.list); strings.Contains(list, "tree/file") || strings.Contains(list, "image(1)") || !strings.Contains(list, "b/large") {
		t.Errorf("what is left of the tree:\n%s", list)
	}
}

func (w *s3Work) run(args []string) (out string, failed bool) {
	w.t.Helper()
	all := slices.Clone(w.first)
	for _, a := range args {
		all = append(all, strings.ReplaceAll(a, "BUCKET", w.bucket))
	}
	cmd := exec.CommandContext(w.t.Context(), w.program, all...)
	cmd.Env, cmd.Dir = w.env, w.dir
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

func (w *s3Work) must(args []string) string {
	w.t.Helper()
	out, failed := w.run(args)
	if failed {
		w.t.Fatalf("%s %q:\n%s", w.name, args, out)
	}
	return out
}

// fetch wants a URL that was signed to answer a body.
func (w *s3Work) fetch(url string, body []byte) {
	w.t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
		w.t.Errorf("what was signed answers %s %q, %v", answer.Status, got, err)
	}
}

// wantObject wants what the client stored to be served over HTTP.
func (w *s3Work) wantObject(key string, body []byte) {
	w.t.Helper()
	if r := w.gateway.get("objects/" + w.bucket + "/" + key); !r.ok() || !bytes.Equal(r.body, body) {
		w.t.Errorf("%s answers %d with %d bytes", key, r.status, len(r.body))
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
