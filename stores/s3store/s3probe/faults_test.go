package s3probe

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// found is what a fault has to be found as.
type found struct {
	name    string
	outcome Outcome
	note    string
}

type faultCase struct {
	name    string
	fault   func(*front, *exchange)
	verdict Verdict
	want    []found
}

func tryFaults(t *testing.T, cases []faultCase) {
	t.Helper()
	env := testenv.Bucket(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, env, c.fault)
			f.open = strings.HasPrefix(c.name, "Open")
			var names []string
			for _, w := range c.want {
				names = append(names, w.name)
			}
			r, err := run(t.Context(), f.config(), only(names...))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				wantFinding(t, r, w.name, w.outcome, w.note)
			}
			if r.Verdict != c.verdict {
				t.Errorf("verdict %s: %v, want %s", r.Verdict, r.Faults, c.verdict)
			}
		})
	}
}

// Without a fault the front hides none and adds none: what is found below is the fault's.
func TestFrontWithoutAFault(t *testing.T) {
	f := newFront(t, testenv.Bucket(t), func(_ *front, e *exchange) { e.pass() })
	r, err := Run(t.Context(), f.config())
	if err != nil || r.Verdict != Safe {
		t.Errorf("%s %v: %v", r.Verdict, r.Faults, err)
	}
	for _, finding := range r.Findings {
		// It signs presigned requests anew, whatever their length.
		if want := map[bool]Outcome{true: Ignores, false: Honours}[finding.Name == presignedLength]; finding.Outcome != want {
			t.Errorf("%+v", finding)
		}
	}
}

func TestFaultsOfBlobs(t *testing.T) {
	tryFaults(t, []faultCase{
		{"StoresHalf", func(_ *front, e *exchange) {
			if e.isPut() {
				e.body = e.body[:len(e.body)/2]
				e.unverified()
			}
			e.pass()
		}, Unsafe, []found{{readBack, Wrong, "4096 bytes were stored, HEAD tells of 2048"}, {blobKeys, Wrong, ""}}},
		{"StoresNothing", func(_ *front, e *exchange) {
			if !e.isPut() {
				e.pass()
			}
		}, Unsafe, []found{{readBack, Wrong, "not there"}, {emptyBlobs, Wrong, "not there"}}},
		{"StoresOtherBytes", func(_ *front, e *exchange) {
			if e.isPut() {
				e.body = but(append(e.body, 0))[:len(e.body)]
				e.unverified()
			}
			e.pass()
		}, Unsafe, []found{{readBack, Wrong, "other bytes"}}},
		{"ReadsHalf", func(_ *front, e *exchange) {
			answer, body := e.send()
			if e.is(http.MethodGet) && answer.StatusCode < 300 {
				body = body[:len(body)/2]
				answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
			}
			e.reply(answer, body)
		}, Unsafe, []found{{readBack, Wrong, "GET has 2048"}, {rangedReads, Wrong, "0 bytes that are not those"}}},
		{"ReadsEndEarly", func(_ *front, e *exchange) {
			answer, body := e.send()
			if !e.is(http.MethodGet) || answer.StatusCode >= 300 || e.r.Header.Get("Range") == "bytes=0-0" {
				e.reply(answer, body)
				return
			}
			e.reply(answer, body[:len(body)/2])
			e.w.(http.Flusher).Flush()
			e.hangUp()
		}, Unsafe, []found{{readBack, Wrong, "ends early"}, {rangedReads, Wrong, "ends early"}}},
		{"WritesAppearLate", func(_ *front, e *exchange) {
			if e.is(http.MethodGet) && strings.Contains(e.r.URL.Path, "/read-") {
				e.refuse(404, "NoSuchKey")
				return
			}
			e.pass()
		}, Unsafe, []found{{readBack, Wrong, "GET does not"}}},
		{"ReadsIgnoreRange", func(_ *front, e *exchange) {
			e.r.Header.Del("Range")
			e.pass()
		}, Unsafe, []found{{rangedReads, Ignores, "the whole object"}, {readBack, Honours, ""}}},
		{"ReadsBehindTheEnd", func(_ *front, e *exchange) {
			answer, body := e.send()
			if answer.StatusCode == 416 {
				answer.StatusCode, body = 206, nil
				answer.Header.Set("Content-Length", "0")
			}
			e.reply(answer, body)
		}, Unsafe, []found{{rangedReads, Wrong, "behind the end"}}},
		{"FindsEverything", func(_ *front, e *exchange) {
			answer, body := e.send()
			if answer.StatusCode != 404 {
				e.reply(answer, body)
			}
		}, Unsafe, []found{{absentKeys, Wrong, "HEAD finds"}, {deletes, Wrong, "HEAD finds"}}},
		{"HidesWhatIsAbsent", func(_ *front, e *exchange) {
			if e.torn {
				e.hangUp()
			}
			answer, body := e.send()
			if answer.StatusCode == 404 && e.r.Method != http.MethodDelete {
				e.refuse(403, "AccessDenied")
				return
			}
			e.reply(answer, body)
		}, Safe, []found{{absentKeys, Refuses, "right to list"}, {deletes, Honours, ""}, {wrongBytes, Honours, ""}, {abort, Honours, ""}, {tornUploads, Honours, ""}, {checksumSHA256, Honours, ""}, {copyIfMatch, Honours, ""}}},
		{"MayNotRead", func(_ *front, e *exchange) {
			if e.is(http.MethodGet) || e.is(http.MethodHead) {
				e.refuse(403, "AccessDenied")
				return
			}
			e.pass()
		}, Unsafe, []found{{readBack, Refuses, "403"}, {rangedReads, Refuses, "403 AccessDenied"}, {emptyBlobs, Refuses, "403"}}},
		{"ReadsWhatIsDeleted", func(_ *front, e *exchange) {
			if e.is(http.MethodGet) && strings.HasSuffix(e.r.URL.Path, "/deleted") {
				return
			}
			e.pass()
		}, Unsafe, []found{{deletes, Wrong, "GET finds"}}},
		{"DeletesNothing", func(_ *front, e *exchange) {
			if e.is(http.MethodDelete) && !e.q.Has("uploadId") {
				e.w.WriteHeader(204)
				return
			}
			e.pass()
		}, Unsafe, []found{{deletes, Wrong, "HEAD finds"}, {cleanUp, Wrong, "2 objects and 0 uploads are left"}}},
		{"DeletesOnce", func(f *front, e *exchange) {
			if e.is(http.MethodDelete) && f.requests.Add(1) > 1 {
				e.refuse(400, "InvalidRequest")
				return
			}
			e.pass()
		}, Unsafe, []found{{deletes, Wrong, "400 InvalidRequest"}}},
		{"KeysIgnoreCase", func(_ *front, e *exchange) {
			e.r.URL.Path = strings.ToLower(e.r.URL.Path)
			e.pass()
		}, Unsafe, []found{{blobKeys, Wrong, ""}}},
		{"KeysAreShort", func(_ *front, e *exchange) {
			if e.isPut() && len(e.r.URL.Path) > 200 {
				e.refuse(400, "KeyTooLongError")
				return
			}
			e.pass()
		}, Unsafe, []found{{blobKeys, Refuses, "400 KeyTooLongError"}}},
	})
}

func TestFaultsOfChecksums(t *testing.T) {
	all := []string{payloadHash, checksumSHA256, checksumCRC32C, checksumCRC64, contentMD5}
	each := func(o Outcome, more ...found) []found {
		for _, name := range all {
			more = append(more, found{name, o, ""})
		}
		return more
	}
	tryFaults(t, []faultCase{
		{"Ignored", func(_ *front, e *exchange) {
			e.unverified().pass()
		}, Unsafe, each(Ignores, found{wrongBytes, Ignores, "stored"}, found{wrongPart, Ignores, "stored"})},
		{"RefusedAndStored", func(_ *front, e *exchange) {
			if e.isPut() && strings.Contains(e.r.URL.Path, "/wrong-") {
				e.unverified().send()
				e.refuse(400, "BadDigest")
				return
			}
			e.pass()
		}, Unsafe, each(Wrong, found{wrongBytes, Wrong, "refused, and visible"})},
		{"ConfirmsAnyCRC", func(_ *front, e *exchange) {
			sum := e.r.Header.Get("X-Amz-Checksum-Crc64nvme")
			if sum == "" || !e.q.Has("partNumber") {
				e.pass()
				return
			}
			answer, body := e.unverified().send()
			answer.Header.Set("X-Amz-Checksum-Crc64nvme", sum)
			e.reply(answer, body)
		}, Unsafe, each(Honours, found{wrongPart, Ignores, "is confirmed"})},
		{"NoCRCOfParts", func(_ *front, e *exchange) {
			if e.r.Header.Get("X-Amz-Checksum-Algorithm") == "CRC64NVME" && e.q.Has("uploads") {
				e.refuse(400, "InvalidRequest")
				return
			}
			e.pass()
		}, Safe, each(Honours, found{wrongPart, Honours, ""})},
		{"Unknown", func(_ *front, e *exchange) {
			if e.isPut() && strings.Contains(e.r.URL.Path, "checksum-") {
				e.refuse(501, "NotImplemented")
				return
			}
			e.pass()
		}, Safe, each(Refuses, found{wrongBytes, Honours, ""})},
		{"OneOfTwo", func(_ *front, e *exchange) { // the signature's hash stays
			hash := e.r.Header.Get("X-Amz-Content-Sha256")
			e.unverified().r.Header.Set("X-Amz-Content-Sha256", hash)
			e.pass()
		}, Safe, []found{{wrongBytes, Honours, "XAmzContentSHA256Mismatch"}, {payloadHash, Honours, ""}, {checksumSHA256, Ignores, ""}, {checksumCRC64, Ignores, ""}}},
	})
}

func TestFaultsOfConditions(t *testing.T) {
	conditions := []string{"If-None-Match", "If-Match"}
	conditional := func(e *exchange) bool {
		return e.isPut() && slices.ContainsFunc(conditions, func(name string) bool { return e.r.Header.Get(name) != "" })
	}
	tryFaults(t, []faultCase{
		{"Ignored", func(_ *front, e *exchange) {
			for _, name := range conditions {
				e.r.Header.Del(name)
			}
			e.pass()
		}, Safe, []found{{ifNoneMatch, Ignores, ""}, {ifMatch, Ignores, ""}, {oneCreator, Wrong, "16 of 16"}, {oneReplacer, Wrong, "16 of 16"}}},
		{"Unknown", func(_ *front, e *exchange) {
			if conditional(e) {
				e.refuse(501, "NotImplemented")
				return
			}
			e.pass()
		}, Safe, []found{{ifNoneMatch, Refuses, "501 NotImplemented"}, {ifMatch, Refuses, ""}, {oneCreator, Refuses, ""}, {oneReplacer, Refuses, ""}}},
		// It looks, and then writes. The looks of a race meet, so that all see the same.
		{"NotAtomic", notAtomic(conditional), Safe, []found{{ifNoneMatch, Honours, ""}, {ifMatch, Honours, ""}, {oneCreator, Wrong, "writers at once succeeded"}, {oneReplacer, Wrong, ""}}},
		{"NobodyWins", func(_ *front, e *exchange) {
			if conditional(e) && strings.Contains(e.r.URL.Path, "/race/") {
				e.refuse(409, "ConditionalRequestConflict")
				return
			}
			e.pass()
		}, Safe, []found{{oneCreator, Refuses, "none of 16"}, {oneReplacer, Refuses, "409"}}},
		{"RefusedAndStored", func(f *front, e *exchange) {
			if !conditional(e) {
				e.pass()
				return
			}
			condition := e.r.Header.Clone()
			answer, body := e.send()
			if answer.StatusCode == 412 {
				for _, name := range conditions {
					e.r.Header.Del(name)
				}
				e.send()
				e.r.Header = condition
			}
			e.reply(answer, body)
		}, Safe, []found{{ifNoneMatch, Wrong, "refused, and yet"}, {ifMatch, Wrong, "refused, and yet"}}},
		{"AnswersTheWrongOne", func(f *front, e *exchange) {
			if conditional(e) && strings.Contains(e.r.URL.Path, "/race/") {
				answer, body := e.send()
				if answer.StatusCode < 300 {
					e.body = random(100)
					e.r.Header.Del("If-None-Match")
					e.r.Header.Del("If-Match")
					e.unverified().send()
				}
				e.reply(answer, body)
				return
			}
			e.pass()
		}, Safe, []found{{oneCreator, Wrong, "not those of the writer"}, {oneReplacer, Wrong, "not those of the writer"}}},
	})
}

func notAtomic(conditional func(*exchange) bool) func(*front, *exchange) {
	var mu sync.Mutex // the looks are one after the other, so that no write comes between two of a race
	return func(_ *front, e *exchange) {
		if !conditional(e) {
			e.pass()
			return
		}
		mu.Lock()
		look := *e
		look.r = e.r.Clone(e.r.Context())
		look.r.Method, look.body = http.MethodHead, nil
		look.r.Header.Del("If-None-Match")
		look.r.Header.Del("If-Match")
		now, _ := look.unverified().send()
		mu.Unlock()
		want := e.r.Header.Get("If-Match")
		if want == "" && now.StatusCode == 200 || want != "" && now.Header.Get("ETag") != want {
			e.refuse(412, "PreconditionFailed")
			return
		}
		if strings.Contains(e.r.URL.Path, "/race/") {
			time.Sleep(20 * time.Millisecond)
		}
		e.r.Header.Del("If-None-Match")
		e.r.Header.Del("If-Match")
		e.pass()
	}
}
