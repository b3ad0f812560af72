package s3probe

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestFaultsOfMultipart(t *testing.T) {
	completes := func(e *exchange) bool { return e.is(http.MethodPost, "uploadId") }
	aborts := func(e *exchange) bool { return e.is(http.MethodDelete, "uploadId") }
	tryFaults(t, []faultCase{
		{"CompletesNothing", func(_ *front, e *exchange) {
			if completes(e) {
				e.answer(`<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
				return
			}
			e.pass()
		}, Unsafe, []found{{multipart, Wrong, "nothing is there"}}},
		{"ErrorInA200", func(_ *front, e *exchange) {
			if completes(e) {
				e.answer(`<?xml version="1.0"?><Error><Code>InternalError</Code><Message>x</Message></Error>`)
				return
			}
			e.pass()
		}, Unknown, []found{{multipart, NotMeasured, "InternalError"}}},
		{"JoinsTheFirstPartOnly", func(_ *front, e *exchange) {
			if first, rest, ok := strings.Cut(string(e.body), "</Part>"); completes(e) && ok {
				_, end, _ := strings.Cut(rest, "</Part>")
				e.body = []byte(first + "</Part>" + end)
				e.unverified()
			}
			e.pass()
		}, Unsafe, []found{{multipart, Wrong, "were joined to"}}},
		{"PartsOfOtherBytes", func(_ *front, e *exchange) {
			answer, body := e.send()
			if e.is(http.MethodGet) && strings.HasSuffix(e.r.URL.Path, "-parts") {
				body = but(body)
			}
			e.reply(answer, body)
		}, Unsafe, []found{{multipart, Wrong, "other bytes"}}},
		{"SecondCompleteSpoils", func(f *front, e *exchange) {
			if completes(e) && f.requests.Add(1) > 2 { // the first is refused for its small parts
				e.refuse(400, "InvalidPart")
				return
			}
			e.pass()
		}, Unsafe, []found{{multipart, Wrong, "completing twice: 400 InvalidPart"}}},
		{"SecondCompleteRemoves", func(f *front, e *exchange) {
			if completes(e) && f.requests.Add(1) > 2 {
				e.r.Method, e.body = http.MethodDelete, nil
				e.q.Del("uploadId")
				e.unverified().send()
				e.refuse(404, "NoSuchUpload")
				return
			}
			e.pass()
		}, Unsafe, []found{{multipart, Wrong, "after completing twice"}}},
		{"ForgetsUploads", func(f *front, e *exchange) {
			if completes(e) && f.requests.Add(1) > 2 {
				e.refuse(404, "NoSuchUpload")
				return
			}
			e.pass()
		}, Safe, []found{{multipart, Honours, "completing twice: 404 NoSuchUpload"}}},
		{"NoMultipart", func(_ *front, e *exchange) {
			if e.is(http.MethodPost, "uploads") {
				e.refuse(501, "NotImplemented")
				return
			}
			e.pass()
		}, Unsafe, []found{{multipart, Refuses, "501"}, {abort, Refuses, "501"}, {uploadList, Refuses, "501"}}},
		{"AbortsNothing", func(_ *front, e *exchange) {
			if aborts(e) {
				e.w.WriteHeader(204)
				return
			}
			e.pass()
		}, Unsafe, []found{{abort, Ignores, "can be completed"}}},
		{"AbortPublishes", func(_ *front, e *exchange) {
			if aborts(e) {
				put := *e
				put.q, put.r = nil, e.r.Clone(e.r.Context())
				put.r.Method, put.body = http.MethodPut, []byte("parts")
				put.unverified().send()
			}
			e.pass()
		}, Unsafe, []found{{abort, Wrong, "is visible"}}},
		{"CompleteOfAnAbortedFails", func(_ *front, e *exchange) {
			if completes(e) {
				e.refuse(500, "InternalError")
				return
			}
			e.pass()
		}, Safe, []found{{abort, Honours, "500"}}},
		{"CompleteOfAnAbortedPublishes", func(_ *front, e *exchange) {
			switch {
			case aborts(e):
				e.w.WriteHeader(204)
			case completes(e):
				e.send()
				e.refuse(404, "NoSuchUpload")
			default:
				e.pass()
			}
		}, Unsafe, []found{{abort, Wrong, "makes an object"}}},
		{"ListsNoUploads", func(_ *front, e *exchange) {
			if e.is(http.MethodGet, "uploads") {
				e.answer(`<ListMultipartUploadsResult></ListMultipartUploadsResult>`)
				return
			}
			e.pass()
		}, Safe, []found{{uploadList, Wrong, "not listed"}}},
	})
}

// A link that is too slow for 5 MiB says nothing against the store.
func TestSlowLink(t *testing.T) {
	f := newFront(t, testenv.Bucket(t), func(_ *front, e *exchange) {
		if len(e.body) >= leastPart || e.torn {
			<-e.r.Context().Done()
			return
		}
		e.pass()
	})
	cfg := f.config()
	cfg.ProbeTimeout = 500 * time.Millisecond
	r, err := run(t.Context(), cfg, only(multipart))
	if err != nil || r.Verdict != Safe {
		t.Errorf("%s %v: %v", r.Verdict, r.Faults, err)
	}
	wantFinding(t, r, multipart, Honours, "one part only")
}

func TestFaultsOfTornUploads(t *testing.T) {
	stores := func(e *exchange) {
		e.unverified().send()
	}
	tryFaults(t, []faultCase{
		{"AnswersSuccess", func(_ *front, e *exchange) {
			if e.torn {
				stores(e)
				return
			}
			e.pass()
		}, Unsafe, []found{{tornUploads, Wrong, "a torn blob is answered 200"}}},
		{"KeepsThem", func(_ *front, e *exchange) {
			if e.torn {
				stores(e)
				e.hangUp()
			}
			e.pass()
		}, Safe, []found{{tornUploads, Wrong, "a blob whose uploader died is visible, with 100000 bytes of 1048576"}}},
		{"HangsUp", func(_ *front, e *exchange) { e.pass() }, Safe, []found{{tornUploads, Honours, ""}}},
	})
}
