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

func TestFaultsOfDirectRequests(t *testing.T) {
	isPresigned := func(e *exchange) bool { return e.q.Has("X-Amz-Signature") }
	tryFaults(t, []faultCase{
		{"NoPresigning", func(_ *front, e *exchange) {
			if isPresigned(e) {
				e.refuse(403, "SignatureDoesNotMatch")
				return
			}
			e.pass()
		}, Safe, []found{{presignedGet, Refuses, "403"}, {presignedPut, Refuses, "403"}, {presignedLength, Refuses, ""}, {presignedSum, Refuses, ""}}},
		{"OnlyTheSignatureCounts", func(_ *front, e *exchange) {
			if isPresigned(e) {
				e.unverified()
			}
			e.pass()
		}, Safe, []found{{presignedGet, Honours, ""}, {presignedPut, Honours, ""}, {presignedLength, Ignores, ""}, {presignedSum, Ignores, ""}}},
		{"PresignedRange", func(_ *front, e *exchange) {
			if isPresigned(e) {
				e.r.Header.Del("Range")
			}
			e.pass()
		}, Safe, []found{{presignedGet, Wrong, "other bytes"}}},
		{"OpenToAll", func(_ *front, e *exchange) { e.pass() }, Safe, []found{{unsigned, Wrong, "write: a way around"}}},
		{"OpenToReaders", func(_ *front, e *exchange) {
			if e.isPut() && e.r.Header.Get("Authorization") == "" {
				e.refuse(403, "AccessDenied")
				return
			}
			e.pass()
		}, Safe, []found{{unsigned, Wrong, "may read"}}},
	})
}

func TestFaultsOfListsAndCopies(t *testing.T) {
	lists := func(e *exchange) bool { return e.is(http.MethodGet, "list-type") }
	copying := func(e *exchange) bool { return e.r.Header.Get("X-Amz-Copy-Source") != "" }
	const copied = `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`
	tryFaults(t, []faultCase{
		{"ListsOnePage", func(_ *front, e *exchange) {
			answer, body := e.send()
			if lists(e) {
				body = []byte(strings.Replace(string(body), "<IsTruncated>true<", "<IsTruncated>false<", 1))
				answer.Header.Del("Content-Length")
			}
			e.reply(answer, body)
		}, Safe, []found{{objectList, Wrong, "1 keys are listed"}}},
		{"ListsTheSameForEver", func(_ *front, e *exchange) {
			e.q.Del("continuation-token")
			e.pass()
		}, Safe, []found{{objectList, Wrong, "3 keys are listed"}}},
		{"ListsWhatIsDeleted", staleLists(lists), Safe, []found{{objectList, Wrong, "2 keys are listed, page by page, where there are 1"}}},
		{"CopiesNothing", func(_ *front, e *exchange) {
			if copying(e) {
				e.answer(copied)
				return
			}
			e.pass()
		}, Safe, []found{{copies, Wrong, "not there"}, {copyIfMatch, Ignores, ""}}},
		{"CopiesWhateverMatches", func(_ *front, e *exchange) {
			e.r.Header.Del("X-Amz-Copy-Source-If-Match")
			e.pass()
		}, Safe, []found{{copies, Honours, ""}, {copyIfMatch, Ignores, ""}}},
		{"RefusesAndCopies", func(_ *front, e *exchange) {
			if strings.HasSuffix(e.r.URL.Path, "/copy-if-other") && copying(e) {
				e.r.Header.Del("X-Amz-Copy-Source-If-Match")
				e.send()
				e.refuse(412, "PreconditionFailed")
				return
			}
			e.pass()
		}, Safe, []found{{copyIfMatch, Wrong, "copied all the same"}}},
		{"NoCopies", func(_ *front, e *exchange) {
			if copying(e) {
				e.refuse(501, "NotImplemented")
				return
			}
			e.pass()
		}, Safe, []found{{copies, Refuses, "501"}, {copyIfMatch, Refuses, "501"}}},
	})
}

// staleLists answers a list that was asked for before as it was.
func staleLists(lists func(*exchange) bool) func(*front, *exchange) {
	var mu sync.Mutex
	seen := make(map[string][]byte) // guarded by mu
	return func(_ *front, e *exchange) {
		if !lists(e) || e.q.Get("max-keys") == "" {
			e.pass()
			return
		}
		answer, body := e.send()
		mu.Lock()
		defer mu.Unlock()
		key := e.q.Get("continuation-token")
		if old, ok := seen[key]; ok {
			body = old
			answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
		}
		seen[key] = body
		e.reply(answer, body)
	}
}

func TestFaultsOfBuckets(t *testing.T) {
	says := func(parameter, xml string) func(*front, *exchange) {
		return func(_ *front, e *exchange) {
			if e.is(http.MethodGet, parameter) {
				e.answer(xml)
				return
			}
			e.pass()
		}
	}
	rule := func(inside string) func(*front, *exchange) {
		return says("lifecycle", "<LifecycleConfiguration><Rule><ID>r1</ID><Status>Enabled</Status>"+inside+"</Rule></LifecycleConfiguration>")
	}
	const ends = "<Expiration><Days>30</Days></Expiration>"
	tryFaults(t, []faultCase{
		{"Clock", func(_ *front, e *exchange) {
			answer, body := e.send()
			answer.Header.Set("Date", time.Now().Add(-5*time.Minute).UTC().Format(http.TimeFormat))
			e.reply(answer, body)
		}, Safe, []found{{clock, Wrong, "-5m0s away"}}},
		{"Versions", says("versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), Safe, []found{{frees, Ignores, "keeps versions"}}},
		{"Lock", says("object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>9</Days></DefaultRetention></Rule></ObjectLockConfiguration>"), Safe, []found{{objectLock, Wrong, "locks every object"}}},
		{"LockWithoutARule", says("object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"), Safe, []found{{objectLock, Honours, "no default retention"}}},
		{"DeletesAll", rule("<Filter></Filter>" + ends), Unsafe, []found{{lifecycle, Wrong, "rule r1 deletes blobs"}}},
		{"DeletesByDate", rule("<Prefix></Prefix><Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>"), Unsafe, []found{{lifecycle, Wrong, ""}}},
		{"DeletesOurs", rule("<Filter><Prefix>.fencegate/</Prefix></Filter>" + ends), Unsafe, []found{{lifecycle, Wrong, ""}}},
		{"DeletesSomeOfOurs", rule("<Filter><And><Prefix>.fencegate/blobs/a</Prefix><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And></Filter>" + ends), Unsafe, []found{{lifecycle, Wrong, ""}}},
		{"ArchivesOurs", rule("<Prefix>.fence</Prefix><Transition><Days>9</Days><StorageClass>GLACIER</StorageClass></Transition>"), Unsafe, []found{{lifecycle, Wrong, "archives"}}},
		{"DeletesOthers", rule("<Filter><Prefix>logs/</Prefix></Filter>" + ends), Safe, []found{{lifecycle, Honours, "none ends uploads"}}},
		{"DeletesTagged", rule("<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>" + ends), Safe, []found{{lifecycle, Honours, ""}}},
		{"DeletesTaggedBelow", rule("<Filter><And><Prefix></Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter>" + ends), Safe, []found{{lifecycle, Honours, ""}}},
		{"DeletesMarkers", rule("<Filter></Filter><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"), Safe, []found{{lifecycle, Honours, ""}}},
		{"EndsUploads", rule("<Filter></Filter><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"), Safe, []found{{lifecycle, Honours, rulesEndUploads}}},
		{"EndsSomeUploads", rule("<Filter><Prefix>.fencegate/blobs/a</Prefix></Filter><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"), Safe, []found{{lifecycle, Honours, "none ends uploads"}}},
		{"Secret", func(_ *front, e *exchange) {
			if e.is(http.MethodGet, "lifecycle") || e.is(http.MethodGet, "versioning") {
				e.refuse(403, "AccessDenied")
				return
			}
			e.pass()
		}, Safe, []found{{lifecycle, NotMeasured, "may not read the rules"}, {frees, NotMeasured, "403 AccessDenied"}}},
	})
}

// What deletes leave behind as versions cannot be seen in a list of objects.
func TestCleanUpOfVersionsThatCannotBeListed(t *testing.T) {
	f := newFront(t, testenv.Bucket(t), func(_ *front, e *exchange) {
		switch {
		case e.is(http.MethodGet, "versions"):
			e.refuse(403, "AccessDenied")
		case e.is(http.MethodDelete):
			e.w.Header().Set("X-Amz-Delete-Marker", "true")
			e.w.WriteHeader(204)
		default:
			e.pass()
		}
	})
	r, err := run(t.Context(), f.config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, r, cleanUp, NotMeasured, "cannot be listed")
}

// In a bucket with versions all versions of what was made are deleted, and no others, whatever a list tells.
func TestCleanUpOfVersions(t *testing.T) {
	var mu sync.Mutex
	var deleted []string // guarded by mu
	gone := false        // guarded by mu
	f := newFront(t, testenv.Bucket(t), func(_ *front, e *exchange) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.is(http.MethodGet, "versions") && !gone:
			ours := e.q.Get("prefix") + "first"
			gone = true
			e.answer("<ListVersionsResult><Version><Key>" + ours + "</Key><VersionId>v1</VersionId></Version><Version><Key>a/foreign</Key><VersionId>v2</VersionId></Version>" +
				"<DeleteMarker><Key>" + ours + "</Key><VersionId>v3</VersionId></DeleteMarker></ListVersionsResult>")
		case e.is(http.MethodGet, "versions"):
			e.answer("<ListVersionsResult><Version><Key>a/foreign</Key><VersionId>v2</VersionId></Version></ListVersionsResult>")
		case e.is(http.MethodDelete, "versionId"):
			deleted = append(deleted, e.q.Get("versionId"))
			e.w.WriteHeader(204)
		default:
			e.pass()
		}
	})
	r, err := run(t.Context(), f.config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, r, cleanUp, Honours, "")
	slices.Sort(deleted)
	if !slices.Equal(deleted, []string{"v1", "v3"}) {
		t.Errorf("deleted versions %q", deleted)
	}
}
