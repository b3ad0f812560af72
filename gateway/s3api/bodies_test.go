package s3api_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// A body that comes in chunks is stored without their framing, and its encoding without aws-chunked.
func TestChunkedBodies(t *testing.T) {
	w := newWorld(t)
	body := strings.Repeat("0123456789", 20_000)
	crc := crc32.NewIEEE()
	io.WriteString(crc, body)
	right := base64.StdEncoding.EncodeToString(crc.Sum(nil))
	send := func(key, sum, encoding string) *http.Response {
		g := w.grant("report:" + key)
		framed := chunks(body, 65536) + "x-amz-checksum-crc32:" + sum + "\r\n\r\n"
		return w.send(w.signed(http.MethodPut, "/reports/"+key, framed, "X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
			"X-Amz-Decoded-Content-Length", fmt.Sprint(len(body)), "X-Amz-Trailer", "x-amz-checksum-crc32", "Content-Encoding", encoding, "X-Fence-Token", g.First().String()))
	}
	if answer := send("chunks", right, "gzip,aws-chunked"); answer.StatusCode != http.StatusOK || w.get("chunks") != body {
		t.Fatalf("%d, and the body that is stored differs", answer.StatusCode)
	}
	head, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("chunks")})
	if err != nil || aws.ToString(head.ContentEncoding) != "gzip" || *head.ETag != md5Of(body) || *head.ContentLength != int64(len(body)) {
		t.Errorf("%+v %v", head, err)
	}
	if answer := send("plain", right, "aws-chunked"); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	if head, err = w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("plain")}); err != nil || head.ContentEncoding != nil {
		t.Errorf("%+v %v", head, err)
	}
	t.Run("WrongTrailer", func(t *testing.T) {
		answer := send("wrong", "AAAAAA==", "aws-chunked")
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusBadRequest || !bytes.Contains(text, []byte("BadDigest")) {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
		w.absent(t, "wrong")
	})
	parts := []string{strings.Repeat("x", 8192), strings.Repeat("y", 9000), "end"}
	t.Run("Signed", func(t *testing.T) {
		g := w.grant("report:signed")
		answer := w.send(w.signedChunks("/reports/signed", parts, false, "X-Fence-Token", g.First().String()))
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", answer.Status, text)
		}
		if got := w.get("signed"); got != strings.Join(parts, "") {
			t.Errorf("%d bytes", len(got))
		}
	})
	t.Run("WronglySigned", func(t *testing.T) {
		g := w.grant("report:forged")
		answer := w.send(w.signedChunks("/reports/forged", parts, true, "X-Fence-Token", g.First().String()))
		if answer.StatusCode != http.StatusForbidden {
			t.Error(answer.Status)
		}
		w.absent(t, "forged")
	})
}

// Every checksum that a client sends is checked before anything is visible.
func TestChecksums(t *testing.T) {
	w := newWorld(t)
	const body, other = "one", "two"
	sum := func(name, text string) string {
		switch name {
		case "Content-Md5":
			s := md5.Sum([]byte(text))
			return base64.StdEncoding.EncodeToString(s[:])
		case "X-Amz-Checksum-Sha256":
			return sha256Of(text)
		case "X-Amz-Checksum-Crc32c":
			h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
			io.WriteString(h, text)
			return base64.StdEncoding.EncodeToString(h.Sum(nil))
		}
		h := crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5))
		io.WriteString(h, text)
		return base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	for _, name := range []string{"Content-Md5", "X-Amz-Checksum-Sha256", "X-Amz-Checksum-Crc32c", "X-Amz-Checksum-Crc64nvme"} {
		t.Run(name, func(t *testing.T) {
			key := strings.ToLower(name)
			g := w.grant("report:" + key)
			answer := w.send(w.signed(http.MethodPut, "/reports/"+key, body, "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", name, sum(name, other), "X-Fence-Token", g.First().String()))
			if answer.StatusCode != http.StatusBadRequest {
				text, _ := io.ReadAll(answer.Body)
				t.Errorf("a wrong one: %s %s", answer.Status, text)
			}
			w.absent(t, key)
			answer = w.send(w.signed(http.MethodPut, "/reports/"+key, body, "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", name, sum(name, body), "X-Fence-Token", g.First().String()))
			if answer.StatusCode != http.StatusOK || w.get(key) != body {
				t.Errorf("a right one: %s", answer.Status)
			}
		})
	}
	t.Run("SignedHash", func(t *testing.T) {
		g := w.grant("report:hash")
		sum := sha256HexOf(other)
		answer := w.send(w.signed(http.MethodPut, "/reports/hash", body, "X-Amz-Content-Sha256", sum, "X-Fence-Token", g.First().String()))
		if answer.StatusCode != http.StatusBadRequest {
			t.Error(answer.Status)
		}
		w.absent(t, "hash")
	})
	t.Run("OfTheSDK", func(t *testing.T) {
		g := w.grant("report:sdk")
		for i, a := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256, types.ChecksumAlgorithmCrc64nvme} {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("reports"), Key: aws.String("sdk"), Body: strings.NewReader(body), ChecksumAlgorithm: a, Metadata: token(g.First() + 1 + tokenOf(i)),
			})
			if err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
	})
}

// A disconnect at any byte leaves nothing published.
func TestBrokenBody(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	r := w.signed(http.MethodPut, "/reports/a", strings.Repeat("x", 100_000), "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Fence-Token", g.First().String())
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 50_000)), failing{}))
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
		t.Fatal(answer.Status)
	}
	w.mustPut("a", "whole", g.First())
	if got := w.get("a"); got != "whole" {
		t.Errorf("%d bytes", len(got))
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// absent wants that there is no object under a key.
func (w *world) absent(t *testing.T, key string) {
	t.Helper()
	_, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: &key})
	if status(err) != http.StatusNotFound {
		t.Errorf("%s is there: %v", key, err)
	}
}

// chunks frames a body as aws-chunked does without signatures, up to the trailers.
func chunks(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n"
}

// signedChunks makes a request whose body has chunks with signatures, the last of them wrong where it is forged.
func (w *world) signedChunks(path string, parts []string, forged bool, headers ...string) *http.Request {
	w.t.Helper()
	const hash = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	at, length, size := time.Now().UTC(), 0, 0
	for _, p := range append(parts, "") {
		length += len(p)
		size += len(fmt.Sprintf("%x;chunk-signature=%064d\r\n%s\r\n", len(p), 0, p))
	}
	r := w.request(http.MethodPut, path, strings.Repeat(" ", size), append(headers, "X-Amz-Content-Sha256", hash, "X-Amz-Decoded-Content-Length", fmt.Sprint(length), "Content-Encoding", "aws-chunked")...)
	signer := v4.NewSigner()
	if err := signer.SignHTTP(context.Background(), credentialsOf(accessKey), r, hash, "s3", "us-east-1", at); err != nil {
		w.t.Fatal(err)
	}
	_, seed, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
	previous := seed
	var body strings.Builder
	for i, p := range append(parts, "") {
		toSign := strings.Join([]string{"AWS4-HMAC-SHA256-PAYLOAD", at.Format("20060102T150405Z"), at.Format("20060102") + "/us-east-1/s3/aws4_request", previous, sha256HexOf(""), sha256HexOf(p)}, "\n")
		previous = hex.EncodeToString(hmacOf(signingKey(at), toSign))
		told := previous
		if forged && i == len(parts)-1 {
			told = strings.Repeat("0", 64)
		}
		fmt.Fprintf(&body, "%x;chunk-signature=%s\r\n%s\r\n", len(p), told, p)
	}
	r.Body = io.NopCloser(strings.NewReader(body.String()))
	return r
}
