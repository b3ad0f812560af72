package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Passwords whose characters need encoding everywhere, so that each form of them is looked for.
const (
	databasePassword = "dbpw&S3cr/et+%?x"
	redisPassword    = "rdpw&S3cr/et+%?x"
	wrongSecret      = "fg_wrong-S3cr/et+%?xyz"
	acquireSecret    = "acquire-S3cr/et+id&x"
)

// guarded is a deployment whose every part has a secret.
type guarded struct {
	t        *testing.T
	ears     *ears
	database string // URL with the password
	redis    string
	s3       testenv.S3
	folder   string
	traces   *collector
}

// A gateway at debug level says no secret, whatever goes well or wrong: neither in its log nor in a refusal, a metric or a
// trace.
func TestSecretsAreNotSaid(t *testing.T) {
	t.Parallel()
	g := deploy(t)
	p := g.serve()
	execSQL(t, g.database, walletsSQL)
	protectBucket(t, g.database, g.s3.Bucket, "report:{key}")
	g.ledgerSecrets()
	admin := newWire(t, p.admin())
	worker := p.client().as("worker")
	bucket := "objects/" + g.s3.Bucket + "/"

	// What goes well.
	held := worker.acquire("wallet:1", time.Minute)
	worker.patch("wallets/1", held.Token, `{"balance":1}`).want(t, "")
	report := worker.acquire("report:a", time.Minute)
	worker.put(g.s3.Bucket+"/a", report.Token, []byte("body")).want(t, "")
	worker.get(bucket+"a").want(t, "")
	acquire := fmt.Sprintf(`{"ttl":"1m","acquire_id":%q}`, acquireSecret)
	g.refusals(p, worker, acquire)

	// What goes wrong behind the gateway: each server refuses it, then is gone.
	g.inRedis([]any{"CONFIG", "SET", "requirepass", "another-" + redisPassword}, []any{"CLIENT", "KILL", "TYPE", "normal"})
	worker.ask(http.MethodPost, "leases/wallet:3", acquire).want(t, "unavailable")
	execSQL(t, g.database, "ALTER TABLE fence.grants RENAME TO gone")
	worker.ask(http.MethodPost, "leases/wallet:4", acquire)
	worker.patch("wallets/1", held.Token+1, `{"balance":2}`)
	execSQL(t, g.database, "ALTER TABLE fence.gone RENAME TO grants")
	for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
		r := admin.do("GET", path, "")
		g.ears.hears("GET "+path, r.body)
		if path == "/metrics" && !strings.Contains(r.body, "fencegate_") {
			t.Errorf("no metrics were looked at: %v", r)
		}
	}
	hangup(t, p)
	within(t, patience, "the auth file is read again", func() bool { return strings.Contains(p.stderr.String(), "auth file and certificates again") })
	p.stop()
	g.ears.hears("the log", p.stderr.String())
	for _, want := range []string{`"configuration"`, `"code":"unauthenticated"`, `"code":"unavailable"`, `"level":"ERROR"`} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%s is not in the log: what it is about was not looked at", want)
		}
	}
	if spans := g.traces.text(); !strings.Contains(spans, "/v1/rows/{table}/{key}") {
		t.Errorf("no traces were looked at: %d bytes", len(spans))
	} else {
		g.ears.hears("the traces", spans)
	}
	for _, leak := range g.ears.leaks() {
		t.Error(leak)
	}
}

// refusals provokes each kind of refusal that has to do with a secret.
func (g *guarded) refusals(p *program, worker *client, acquire string) {
	id := "X-Lease-Id"
	r := worker.ask(http.MethodPost, "leases/wallet:2", acquire)
	r.want(g.t, "")
	lease := r.header.Get(id)
	g.ears.secret("a lease id", lease)
	long := strings.Repeat(acquireSecret, 20)
	for _, body := range []string{
		strings.Replace(acquire, "1m", "2m", 1), `{"acquire_id":["` + acquireSecret + `"]}`, `{"acquire_id":"` + long + `"}`, `{"acquire_id":"` + acquireSecret + `\u0000"}`,
		`{"acquire_id":"` + acquireSecret, `{"holder":"x","acquire_id":"` + acquireSecret + `","acquire_id":"y"}`,
	} {
		worker.ask(http.MethodPost, "leases/wallet:2", body)
	}
	worker.ask(http.MethodPut, "leases/wallet:1", "{}", id, lease)
	worker.ask(http.MethodPut, "leases/wallet:2", `{"ttl":1}`, id, lease)
	worker.ask(http.MethodPut, "leases/wallet:2", "", id, lease, id, lease)
	worker.ask(http.MethodPost, "leases/wallet:2/break", "", id, lease)
	worker.ask(http.MethodGet, "leases/wallet:2", "")
	worker.ask(http.MethodDelete, "leases/wallet:2", "", id, lease).want(g.t, "")
	worker.ask(http.MethodDelete, "leases/wallet:2", "", id, lease)
	worker.ask(http.MethodPost, "leases/wallet:2", acquire).want(g.t, "grant-ended")
	nobody := p.client()
	for _, header := range []string{"Bearer " + wrongSecret, "Basic " + wrongSecret, wrongSecret, "Bearer " + wrongSecret + " " + secretOf("worker"), "bearer\t" + secretOf("worker")} {
		nobody.ask(http.MethodGet, "rows/wallets/1", "", "Authorization", header).want(g.t, "unauthenticated")
	}
	worker.ask(http.MethodGet, "rows/wallets/1?access_token="+url.QueryEscape(wrongSecret), "")
	worker.ask(http.MethodGet, "rows/fence.settings/true", "")
}

// ask sends a request to a path below /v1/, whatever the answer.
func (c *client) ask(method, path, body string, header ...string) reply {
	c.t.Helper()
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	return c.must(c.try(c.t.Context(), method, "/v1/"+path, strings.NewReader(body), header...))
}

// A program that cannot start says why, and not with which secret.
func TestSecretsAreNotSaidAtTheStart(t *testing.T) {
	t.Parallel()
	g := deploy(t)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate(t, dir, "server", pkix.Name{CommonName: "server"}, nil)
	key, err := os.ReadFile(filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			g.ears.secret("the private key", line)
		}
	}
	hash := sha256.Sum256([]byte(secretOf("worker")))
	pw := url.QueryEscape(databasePassword)
	rd := url.QueryEscape(redisPassword)
	for name, env := range map[string][]string{
		"WrongDatabasePassword": {"FENCEGATE_DATABASE_URL=" + strings.Replace(g.database, pw, pw+"x", 1)},
		"NoDatabase":            {"FENCEGATE_DATABASE_URL=postgres://gateway:" + pw + "@127.0.0.1:1/fencegate"},
		"DatabasePort":          {"FENCEGATE_DATABASE_URL=postgres://gateway:" + pw + "@127.0.0.1:port/fencegate"},
		"DatabaseRawPassword":   {"FENCEGATE_DATABASE_URL=postgres://gateway:" + databasePassword + "@127.0.0.1:1/fencegate"},
		"DatabaseScheme":        {"FENCEGATE_DATABASE_URL=mysql://gateway:" + pw + "@127.0.0.1:1/fencegate"},
		"DatabaseWords":         {"FENCEGATE_DATABASE_URL=host=127.0.0.1 port=1 user=gateway password='" + databasePassword + "' dbname=fencegate"},
		"DatabaseWordsBroken":   {"FENCEGATE_DATABASE_URL=host=127.0.0.1 port=x user=gateway password='" + databasePassword + "' dbname"},
		"DatabaseUnclosed":      {"FENCEGATE_DATABASE_URL=user=gateway password='" + databasePassword},
		"DatabaseOption":        {"FENCEGATE_DATABASE_URL=postgres://gateway:" + pw + "@127.0.0.1:1/fencegate?sslmode=odd&password=" + pw},
		"RedisPort":             {"FENCEGATE_REDIS_URL=redis://:" + rd + "@127.0.0.1:port"},
		"RedisRawPassword":      {"FENCEGATE_REDIS_URL=redis://:" + redisPassword + "@127.0.0.1:1"},
		"RedisScheme":           {"FENCEGATE_REDIS_URL=http://:" + rd + "@127.0.0.1:1"},
		"RedisDatabase":         {"FENCEGATE_REDIS_URL=redis://:" + rd + "@127.0.0.1:1/x"},
		"RedisOption":           {"FENCEGATE_REDIS_URL=redis://127.0.0.1:1?password=" + rd + "&odd=1"},
		"S3Endpoint":            {"FENCEGATE_S3_ENDPOINT=http://" + g.s3.AccessKey + ":" + g.s3.SecretKey + "@127.0.0.1:port"},
		"SecretInAuthFile":      {"FENCEGATE_AUTH_FILE=" + file("secret.yaml", "principals:\n  - name: a\n    secret_sha256: "+secretOf("worker")+"\n")},
		"HashInWrongPlace":      {"FENCEGATE_AUTH_FILE=" + file("hash.yaml", "principals:\n  - name: a\n    secret_sha256: "+hex.EncodeToString(hash[:])+"\n    secret_sha256: "+hex.EncodeToString(hash[:])+"0\n")},
		"BrokenAuthFile":        {"FENCEGATE_AUTH_FILE=" + file("broken.yaml", "principals:\n  - {name: a, secret_sha256: \""+hex.EncodeToString(hash[:])+"\n")},
		"KeyIsBroken":           {"FENCEGATE_TLS_CERT=" + filepath.Join(dir, "server.pem"), "FENCEGATE_TLS_KEY=" + file("broken.key", strings.Replace(string(key), "A", "B", 3))},
		"KeyIsTheCertificate":   {"FENCEGATE_TLS_CERT=" + filepath.Join(dir, "server.key"), "FENCEGATE_TLS_KEY=" + filepath.Join(dir, "server.key")},
		"KeyAsAuthFile":         {"FENCEGATE_AUTH_FILE=" + filepath.Join(dir, "server.key")},
		"KeyAsAuthority":        {"FENCEGATE_TLS_CERT=" + filepath.Join(dir, "server.pem"), "FENCEGATE_TLS_KEY=" + filepath.Join(dir, "server.key"), "FENCEGATE_TLS_CLIENT_CA=" + filepath.Join(dir, "server.key")},
		"OTLPEndpoint":          {"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:" + pw + "@127.0.0.1:port"},
		"BadFlag":               {"FENCEGATE_LOCK_TIMEOUT=" + "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := runBinary(t, append(g.env(), env...), "serve", "--listen=127.0.0.1:0", "--migrate", "--start-timeout=500ms", "--log-level=debug")
			if code == 0 || stderr == "" {
				t.Errorf("exit code %d and nothing said", code)
			}
			g.ears.hears(name, stdout+stderr)
		})
	}
	for _, args := range [][]string{{"migrate", "up"}, {"doctor"}, {"protect", "nowhere", "--lease=x"}} {
		stdout, stderr, _ := runBinary(t, append(g.env(), "FENCEGATE_DATABASE_URL="+strings.Replace(g.database, pw, pw+"x", 1)), args...)
		g.ears.hears(strings.Join(args, " "), stdout+stderr)
	}
	for _, leak := range g.ears.leaks() {
		t.Error(leak)
	}
}

// deploy starts what a gateway needs, each with a secret.
func deploy(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{t: t, ears: &ears{forms: map[string][]form{}}, s3: testenv.Bucket(t), folder: t.TempDir(), traces: collect(t)}
	g.requirePasswords()
	hash := sha256.Sum256([]byte(secretOf("worker")))
	for what, secret := range map[string]string{
		"the database password": databasePassword, "the Redis password": redisPassword, "the S3 secret key": g.s3.SecretKey, "the S3 access key": g.s3.AccessKey,
		"a bearer secret": secretOf("worker"), "a wrong bearer secret": wrongSecret, "a secret's hash": hex.EncodeToString(hash[:]), "a secret's raw hash": string(hash[:]),
		"an acquire id": acquireSecret,
	} {
		g.ears.secret(what, secret)
	}
	writeAuthFile(t, g.authFile(), principal("worker", false, `{leases: ["*"], tables: ["public.*"], buckets: ["*"], verbs: [lease, read, write]}`))
	return g
}

// requirePasswords starts a PostgreSQL that asks for one over its socket, and a Redis.
func (g *guarded) requirePasswords() {
	server := testenv.PostgresServer(g.t)
	open := server.URL("fencegate")
	execSQL(g.t, open, "CREATE ROLE gateway SUPERUSER LOGIN PASSWORD '"+databasePassword+"'")
	rules := queryText(g.t, open, "SHOW hba_file")
	old, err := os.ReadFile(rules)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(rules, append([]byte("local all gateway scram-sha-256\n"), old...), 0o600); err != nil {
		g.t.Fatal(err)
	}
	execSQL(g.t, open, "SELECT pg_reload_conf()")
	u, err := url.Parse(open)
	if err != nil {
		g.t.Fatal(err)
	}
	g.database = strings.Replace(open, u.User.String()+"@", "gateway:"+url.QueryEscape(databasePassword)+"@", 1)
	g.redis = testenv.RedisServer(g.t).URL()
	g.inRedis([]any{"CONFIG", "SET", "requirepass", redisPassword})
	g.redis = strings.Replace(g.redis, "unix://", "unix://:"+url.QueryEscape(redisPassword)+"@", 1)
}

// inRedis runs commands on one connection, which authenticates with the password in force now.
func (g *guarded) inRedis(commands ...[]any) {
	g.t.Helper()
	options, err := redis.ParseURL(g.redis)
	if err != nil {
		g.t.Fatal(err)
	}
	options.PoolSize = 1
	client := redis.NewClient(options)
	defer client.Close()
	for _, c := range commands {
		if err := client.Do(g.t.Context(), c...).Err(); err != nil {
			g.t.Fatalf("%v: %v", c[0], err)
		}
	}
}

func (g *guarded) authFile() string { return filepath.Join(g.folder, "auth.yaml") }

// env is the gateway's whole configuration.
func (g *guarded) env() []string {
	return []string{
		"FENCEGATE_DATABASE_URL=" + g.database, "FENCEGATE_REDIS_URL=" + g.redis, "FENCEGATE_AUTH_FILE=" + g.authFile(),
		"FENCEGATE_S3_ENDPOINT=" + g.s3.Endpoint, "FENCEGATE_S3_ACCESS_KEY=" + g.s3.AccessKey, "FENCEGATE_S3_SECRET_KEY=" + g.s3.SecretKey,
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + g.traces.url, "OTEL_BSP_SCHEDULE_DELAY=100",
	}
}

func (g *guarded) serve() *program {
	g.t.Helper()
	p := launchServeIn(g.t, g.env(), "--s3-endpoint="+g.s3.Endpoint, "--admin-listen=127.0.0.1:0", "--log-level=debug")
	p.waitReady()
	return p
}

// ledgerSecrets remembers the ledger's keys, from which every grant's id could be computed.
func (g *guarded) ledgerSecrets() {
	g.t.Helper()
	conn := connect(g.t, g.database)
	defer conn.Close(context.Background())
	var inner, outer []byte
	if err := conn.QueryRow(g.t.Context(), "SELECT inner_key, outer_key FROM fence.settings").Scan(&inner, &outer); err != nil {
		g.t.Fatal(err)
	}
	g.ears.secret("the ledger's inner key", string(inner))
	g.ears.secret("the ledger's outer key", string(outer))
}

// admin is the URL of the operators' side.
func (p *program) admin() string {
	p.t.Helper()
	_, rest, found := strings.Cut(p.stderr.String(), `"msg":"operators' side","url":"`)
	if !found {
		p.t.Fatal("there is no operators' side")
	}
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// collector takes OTLP traces over HTTP and keeps them as they came.
type collector struct {
	url string
	mu  sync.Mutex
	got strings.Builder // guarded by mu
}

func collect(t *testing.T) *collector {
	c := &collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprint(&c.got, r.Header, string(body))
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.String()
}
