package s3api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An upload may take longer than a request without one, on both fronts. One whose lease has passed on in its first part, and in which the next
// holder has written, is refused at its end; nothing of it is visible, and nothing refers to its blob (I1, I2).
func TestSlowUploads(t *testing.T) {
	const (
		writeTimeout = 500 * time.Millisecond
		begun        = 1 << 20
	)
	b := newServers(t).open(t, writeTimeout)
	type slow struct {
		name            string
		overS3, chunked bool
		size            int
		passesOn        bool

		feed   *io.PipeWriter
		rest   string
		answer chan *http.Response // closed without an answer
	}
	uploads := []*slow{
		{name: "HTTP", size: begun + 10},
		{name: "HTTPChunked", chunked: true, size: begun + 10},
		{name: "S3", overS3: true, size: begun + 10},
		{name: "HTTPStaleSmall", size: begun + 10, passesOn: true},
		{name: "HTTPStale", size: 6 << 20, passesOn: true},
		{name: "HTTPStaleChunked", chunked: true, size: 6 << 20, passesOn: true},
		{name: "S3Stale", overS3: true, size: 6 << 20, passesOn: true},
	}
	patient := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer patient.CloseIdleConnections()
	body := strings.Repeat("0123456789abcdef", 1<<20)
	for _, u := range uploads {
		u.rest, u.answer = body[begun:u.size], make(chan *http.Response, 1)
		r := b.put(u.overS3, u.name, "", b.grant("report:"+u.name).First())
		r.Body, u.feed = io.Pipe()
		if r.ContentLength = int64(u.size); u.chunked {
			r.ContentLength = -1
		}
		if u.overS3 {
			r = b.resigned(r)
		}
		// A body is asked for when the upload has been admitted.
		r.Header.Set("Expect", "100-continue")
		go func() {
			defer close(u.answer)
			answer, err := patient.RoundTrip(r)
			if err != nil {
				t.Errorf("%s: %v", u.name, err)
				return
			}
			u.answer <- answer
		}()
	}
	for _, u := range uploads {
		if _, err := io.WriteString(u.feed, body[:begun]); err != nil {
			t.Errorf("%s: %v", u.name, err)
		}
	}
	<-time.After(3 * writeTimeout)
	for _, u := range uploads {
		if !u.passesOn {
			continue
		}
		if answer := b.send(b.put(!u.overS3, u.name, "of the next holder", b.grant("report:"+u.name).First())); answer.StatusCode/100 != 2 {
			t.Errorf("%s: the next holder: %s", u.name, answer.Status)
		}
	}
	for _, u := range uploads {
		go func() {
			_, _ = io.WriteString(u.feed, u.rest) // an error comes with the answer
			u.feed.Close()
		}()
	}
	for _, u := range uploads {
		answer := <-u.answer
		if answer == nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Error(err)
		}
		status, now := b.read(u.overS3, u.name)
		switch {
		case status != http.StatusOK:
			t.Errorf("%s: cannot be read: %d", u.name, status)
		case !u.passesOn && (answer.StatusCode/100 != 2 || len(now) != u.size):
			t.Errorf("%s: %s %s; %d of %d bytes are there", u.name, answer.Status, text, len(now), u.size)
		case u.passesOn && (answer.StatusCode != http.StatusPreconditionFailed || !strings.Contains(strings.ToLower(string(text)), "stale")):
			t.Errorf("%s: %s %s", u.name, answer.Status, text)
		case u.passesOn && now != "of the next holder":
			t.Errorf("%s: %d bytes are there, not those of the next holder", u.name, len(now))
		}
	}
	b.wantBlobs(t, int64(len(uploads)))
}
