package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// overheard is what the programs of the whole run have said, and what none of them may say. TestMain looks at the end.
var overheard = &ears{forms: map[string][]form{}}

// ears finds secrets in what is said, in whatever form.
type ears struct {
	mu    sync.Mutex
	said  []statement       // guarded by mu
	forms map[string][]form // guarded by mu: by the first keySize bytes, so that a text is searched once for all
}

// statement is a text and where it came from.
type statement struct{ where, text string }

// form is one way to write a secret.
type form struct{ what, text string }

// keySize is the length of the shortest secret that can be looked for. Shorter ones would be found by chance.
const keySize = 8

// hears remembers what was said.
func (e *ears) hears(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, statement{where, text})
}

// secret remembers what nobody may say.
func (e *ears) secret(what, secret string) {
	if len(secret) < keySize {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range formsOf(secret) {
		key := f[:keySize]
		if known := (form{what, f}); !slices.Contains(e.forms[key], known) {
			e.forms[key] = append(e.forms[key], known)
		}
	}
}

// formsOf lists the ways in which a secret could show up in a text.
func formsOf(secret string) []string {
	quoted := strconv.Quote(secret)
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], quoted[1 : len(quoted)-1],
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	// In base64 a secret looks different after one or two other bytes, as behind the user name of Authorization: Basic. Its
	// first and last character then depend on what stands beside it.
	for before := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
			first := (before*8 + 5) / 6
			all = append(all, text[first:len(text)-1])
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < keySize })
}

// leaks tells which secrets were said, each once for each place.
func (e *ears) leaks() (found []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.said {
		for i := 0; i+keySize <= len(s.text); i++ {
			for _, f := range e.forms[s.text[i:i+keySize]] {
				if strings.HasPrefix(s.text[i:], f.text) {
					// Without the secret: this line is read by many, too.
					found = append(found, fmt.Sprintf("%s: %s after %q", s.where, f.what, s.text[max(0, i-60):i]))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// exchange remembers the secrets of an exchange, and hears a refusal, which must have none. Another answer is for the
// holder and has the grant's id.
func (e *ears) exchange(resp *http.Response, body []byte) {
	e.secret("a lease id", resp.Header.Get("X-Lease-Id"))
	// A request's own X-Lease-Id is not remembered: tests send things in it that are no secrets.
	e.secret("a bearer secret", strings.TrimPrefix(resp.Request.Header.Get("Authorization"), "Bearer "))
	if resp.StatusCode >= http.StatusBadRequest {
		e.hears("a refusal of "+resp.Request.Method+" "+resp.Request.URL.Path, fmt.Sprint(resp.Header, string(body)))
	}
}

// arguments remembers the secrets in a command line.
func (e *ears) arguments(args []string) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case name == "--s3-access-key" || name == "--s3-secret-key":
			e.secret("a key of S3", value)
		case strings.HasSuffix(name, "-url"):
			if u, err := url.Parse(value); err == nil {
				password, _ := u.User.Password()
				e.secret("a password in "+name, password)
			}
		}
	}
}

func TestEars(t *testing.T) {
	const secret = "p&ss/wörd+\"?"
	basic := func(user string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + secret + "@"))
	}
	for name, text := range map[string]string{
		"Plain":   secret,
		"URL":     url.UserPassword("u", secret).String(),
		"Query":   url.Values{"password": {secret}}.Encode(),
		"JSON":    strconv.Quote(secret),
		"Hex":     hex.EncodeToString([]byte("x" + secret)),
		"Base64":  basic(""),
		"Base64b": basic("a"),
		"Base64c": basic("ab"),
	} {
		t.Run(name, func(t *testing.T) {
			e := &ears{forms: map[string][]form{}}
			e.secret("the password", secret)
			e.hears("a log", "before "+text+" after")
			if found := e.leaks(); len(found) == 0 {
				t.Errorf("not found in %s", text)
			} else if strings.Contains(strings.Join(found, ""), secret) {
				t.Error("the report says it again")
			}
		})
	}
	t.Run("Silence", func(t *testing.T) {
		e := &ears{forms: map[string][]form{}}
		e.secret("the password", secret)
		e.hears("a log", secret[:len(secret)-2]+" "+hex.EncodeToString([]byte(secret))[2:])
		if found := e.leaks(); len(found) > 0 {
			t.Error(found)
		}
	})
}
