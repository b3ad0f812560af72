package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Requests that are too large, too deep or malformed are refused by name or cut off, and change nothing.
func TestAbuseRequests(t *testing.T) {
	t.Parallel()
	v := abused(t)
	execSQL(t, v.servers.database, "ALTER TABLE wallets ADD visits bigint NOT NULL DEFAULT 0")
	g := v.acquire("wallet:1", `"ttl":"10m"`)
	patch := func(body string, headers ...string) string {
		return httpRequest("PATCH", "/v1/rows/wallets/1", body, append(headers, "Content-Type: application/json", g.token(0))...)
	}
	get := func(headers ...string) string { return httpRequest("GET", "/v1/rows/wallets/1", "", headers...) }
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const mib = 1 << 20
	v.each(t, []abuse{
		{"HeaderOf1MiB", get("X-A: " + strings.Repeat("x", mib)), []int{431, 0}},
		{"HeaderNameOf1MiB", get(strings.Repeat("x", mib) + ": a"), []int{431, 0}},
		{"TenThousandHeaders", get(strings.TrimSuffix(many(10_000, "X-%d: a\r\n"), "\r\n")), []int{431, 0}},
		{"TokenOf60000Digits", strings.Replace(patch("{}"), g.token(0), "X-Fence-Token: "+strings.Repeat("1", 60_000), 1), []int{400}},
		{"TokenOf1MiB", strings.Replace(patch("{}"), g.token(0), "X-Fence-Token: "+strings.Repeat("1", mib), 1), []int{431, 0}},
		{"TwoTokens", patch(`{"balance":1}`, g.token(1)), []int{400}},
		{"FoldedToken", strings.Replace(patch(`{"balance":1}`), g.token(0), g.token(0)[:16]+"\r\n "+g.token(0)[16:], 1), []int{400}},
		{"SpaceBeforeColon", strings.Replace(patch(`{"balance":1}`), "X-Fence-Token:", "X-Fence-Token :", 1), []int{400}},
		{"PathOf20KiB", httpRequest("GET", "/v1/objects/reports/"+strings.Repeat("a", 20<<10), ""), []int{400}},
		{"PathOf1MiB", httpRequest("GET", "/v1/objects/reports/"+strings.Repeat("a", mib), ""), []int{431, 0}},
		{"QueryOf20KiB", httpRequest("GET", "/v1/rows/wallets/1?a="+strings.Repeat("a", 20<<10), ""), []int{400}},
		{"TenThousandKeyParts", httpRequest("GET", "/v1/rows/wallets/1"+strings.Repeat(",1", 8000), ""), []int{400}},
		{"Percent00", httpRequest("GET", "/v1/rows/wallets/1%00", ""), []int{400}},
		{"PercentZZ", httpRequest("GET", "/v1/rows/wallets/%zz", ""), []int{400}},
		{"Overlong", httpRequest("GET", "/v1/objects/reports/%c0%af", ""), []int{400}},
		{"HalfASurrogate", httpRequest("GET", "/v1/objects/reports/%ed%a0%80", ""), []int{400}},

		{"DeepArray", patch(`{"balance":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"), []int{400}},
		{"DeepObject", patch(strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)), []int{400}},
		{"DeepAndNeverClosed", patch(strings.Repeat("[", 1_000_000)), []int{400}},
		{"DepthOverTheLimit", patch(`{"balance":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}"), []int{400}},
		{"WideObject", patch("{" + many(100_000, `"%x":1,`) + `"balance":1}`), []int{400}},
		{"BodyOver1MiB", patch(`{"owner":"` + strings.Repeat("x", mib) + `"}`), []int{413}},
		{"BodyOf1MiBOfSpaces", patch(strings.Repeat(" ", mib)), []int{400}},
		{"DuplicateName", patch(`{"balance":1,"balance":2}`), []int{400}},
		{"DuplicateNameEscaped", patch(`{"balance":1,"b\u0061lance":2}`), []int{400}},
		{"DuplicateNameBelow", patch(`{"owner":{"a":1,"a":2}}`), []int{400}},
		{"HugeExponent", patch(`{"balance":1e999999999}`), []int{400}},
		{"HugeNegativeExponent", patch(`{"balance":1e-999999999}`), []int{400}},
		{"BigintOf10000Digits", patch(`{"visits":` + strings.Repeat("9", 10_000) + "}"), []int{400}},
		{"ColumnOf1MBNamed", patch(`{"` + strings.Repeat("x", 1_000_000) + `":1}`), []int{400}},
		{"NaN", patch(`{"balance":NaN}`), []int{400}},
		{"InvalidUTF8", patch("{\"owner\":\"\xff\xfe\"}"), []int{400}},
		{"InvalidUTF8Name", patch("{\"\xff\":1}"), []int{400}},
		{"NUL", patch(`{"owner":"a\u0000b"}`), []int{400}},
		{"LoneSurrogate", patch(`{"owner":"\ud800"}`), []int{400}},
		{"TwoDocuments", patch(`{"balance":1}{"balance":2}`), []int{400}},
		{"UTF16", patch("\xff\xfe{\x00}\x00"), []int{400}},
		{"ByteOrderMark", patch("\xef\xbb\xbf{\"balance\":1}"), []int{400}},
		{"Compressed", patch("\x1f\x8b\x08", "Content-Encoding: gzip"), []int{415}},
		{"AForm", strings.Replace(patch("balance=1"), "application/json", "text/plain", 1), []int{415}},
		{"HugeTTL", httpRequest("POST", "/v1/leases/x", `{"ttl":"999999999999h"}`, "Content-Type: application/json"), []int{400}},
		{"NegativeTTL", httpRequest("POST", "/v1/leases/x", `{"ttl":"-1s"}`, "Content-Type: application/json"), []int{400}},
		{"ZeroTTL", httpRequest("POST", "/v1/leases/x", `{"ttl":"0s"}`, "Content-Type: application/json"), []int{400}},
		{"MetaOver8KiB", httpRequest("PUT", "/v1/objects/reports/m", "x", g.token(0), "X-Meta-A: "+strings.Repeat("x", 9<<10)), []int{400}},
		{"NegativeRange", httpRequest("GET", "/v1/objects/reports/m", "", "Range: bytes=--1"), []int{404}},
	})
}

// What proxies and servers have understood differently is refused, or read in the one way that net/http has.
func TestAbuseFraming(t *testing.T) {
	t.Parallel()
	v := abused(t)
	g := v.acquire("wallet:1", `"ttl":"10m"`)
	head := "PATCH /v1/rows/wallets/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + g.token(0) + "\r\n"
	const body = `{"balance":1}`
	start := func(line string) string { return line + "\r\nHost: localhost\r\n\r\n" }
	v.each(t, []abuse{
		{"TwoLengths", head + "Content-Length: 13\r\nContent-Length: 5\r\n\r\n" + body, []int{400}},
		{"LengthList", head + "Content-Length: 13, 5\r\n\r\n" + body, []int{400}},
		{"NegativeLength", head + "Content-Length: -1\r\n\r\n" + body, []int{400}},
		{"PlusLength", head + "Content-Length: +13\r\n\r\n" + body, []int{400}},
		{"HexLength", head + "Content-Length: 0xd\r\n\r\n" + body, []int{400}},
		{"HugeLength", head + "Content-Length: 99999999999999999999\r\n\r\n" + body, []int{400}},
		{"UnknownCoding", head + "Transfer-Encoding: xchunked\r\n\r\nd\r\n" + body + "\r\n0\r\n\r\n", []int{501}},
		{"TwoCodings", head + "Transfer-Encoding: gzip, chunked\r\n\r\nd\r\n" + body + "\r\n0\r\n\r\n", []int{501}},
		{"ChunkedTwice", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + body + "\r\n0\r\n\r\n", []int{400, 501}},
		{"ChunkTooLong", head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + body, []int{400}},
		{"ChunkNegative", head + "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + body, []int{400}},
		{"ChunkWithoutEnd", head + "Transfer-Encoding: chunked\r\n\r\nd\r\n" + body + "XX0\r\n\r\n", []int{400}},
		{"ChunkExtensionOf1MiB", head + "Transfer-Encoding: chunked\r\n\r\nd;a=" + strings.Repeat("x", 1<<20) + "\r\n" + body + "\r\n0\r\n\r\n", []int{400}},
		{"ObsoleteFold", strings.Replace(head, "Content-Type:", "Content-Type:\r\n\t", 1) + "Content-Length: 2\r\n\r\n[]", []int{400}},
		{"FoldFirst", "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", []int{400}},
		{"NoHost", "GET /livez HTTP/1.1\r\n\r\n", []int{400}},
		{"TwoHosts", "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", []int{400}},
		{"OtherHost", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", []int{403}},
		{"AbsoluteOtherHost", start("GET http://evil.example/v1/rows/wallets/1 HTTP/1.1"), []int{403}},
		{"Connect", start("CONNECT evil.example:443 HTTP/1.1"), []int{403, 404, 405, 400}},
		{"Trace", start("TRACE /v1/rows/wallets/1 HTTP/1.1"), []int{405}},
		{"UnknownMethod", start("FROB /v1/rows/wallets/1 HTTP/1.1"), []int{405}},
		{"MethodOverridden", httpRequest("POST", "/v1/rows/wallets/1", body, "X-HTTP-Method-Override: PATCH", "Content-Type: application/json", g.token(0)), []int{405}},
		{"MethodWithNUL", start("GE\x00T /livez HTTP/1.1"), []int{400}},
		{"HTTP2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{403}},
		{"HTTP3", start("GET /livez HTTP/3.0"), []int{505, 400}},
		{"HTTP09", "GET /livez\r\n\r\n", []int{400}},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 600), []int{400, 0}},
		{"Noise", strings.Repeat("\x00\xff\n", 1000), []int{400, 0}},
		{"OddExpectation", head + "Expect: the-unexpected\r\nContent-Length: 13\r\n\r\n" + body, []int{417}},
		{"BareCRInValue", head + "X-A: a\rX-Fence-Token: 5\r\nContent-Length: 13\r\n\r\n" + body, []int{400}},
		{"NULInValue", head + "X-A: a\x00b\r\nContent-Length: 13\r\n\r\n" + body, []int{400}},
		{"EmptyHeaderName", head + ": a\r\nContent-Length: 13\r\n\r\n" + body, []int{400}},
		{"BodyOfAGet", httpRequest("GET", "/v1/rows/wallets/1", body, "Content-Type: application/json"), []int{200}},
	})

	// A proxy that goes by the length would see one request, and the second one as part of its body or the reverse.
	t.Run("LengthAndChunks", func(t *testing.T) {
		v := v.in(t)
		v.unchanged(func() {
			smuggled := httpRequest("PATCH", "/v1/rows/wallets/1", `{"balance":666}`, "Content-Type: application/json", g.token(5))
			c := v.dial(patience)
			c.say("GET /v1/rows/wallets/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" +
				fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled))
			c.hear("GET").among(t, 200, 400)
			_ = c.CloseWrite()
			if rest := c.hear("PATCH"); rest.status != 0 {
				t.Errorf("the body was read as a request: %v", rest)
			}
		})
	})
	t.Run("ChunksWithExtensionsAndTrailers", func(t *testing.T) {
		v := v.in(t)
		c := v.dial(patience)
		c.say(head + "Transfer-Encoding: chunked\r\nTrailer: X-Fence-Token\r\n\r\n1;a=b\r\n{\r\nc\r\n" + body[1:] + "\r\n0\r\nX-Fence-Token: 999999999999999\r\n\r\n")
		c.hear("PATCH").among(t, 200)
		if mark := v.mark("/v1/rows/wallets/1"); mark != g.Token {
			t.Errorf("the mark is %d, want %d: a trailer is no header", mark, g.Token)
		}
	})
}

// abuse is a request as it stands, and the statuses one of which must answer it; 0 is a closed connection.
type abuse struct {
	name, request string
	statuses      []int
}

// each plays abuses that must change nothing.
func (v *victim) each(t *testing.T, abuses []abuse) {
	for _, a := range abuses {
		t.Run(a.name, func(t *testing.T) {
			v := v.in(t)
			v.unchanged(func() { v.ask(a.request).among(t, a.statuses...) })
		})
	}
}
