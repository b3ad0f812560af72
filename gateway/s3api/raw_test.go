package s3api_test

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/fencegate/fencegate/fence"
)

func credentialsOf(access string) aws.Credentials {
	return aws.Credentials{AccessKeyID: access, SecretAccessKey: secretKey}
}

// request makes a request, with pairs of headers, that is not signed yet.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// signed makes a signed request, the hash of whose body is that of the body, unless a header says otherwise.
func (w *world) signed(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	r := w.request(method, path, body, headers...)
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if hash == "" {
		sum := sha256.Sum256([]byte(body))
		hash = hex.EncodeToString(sum[:])
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(context.Background(), credentialsOf(accessKey), r, hash, "s3", "us-east-1", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) send(r *http.Request) *http.Response {
	w.t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func sha256HexOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func hmacOf(key []byte, s string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s))
	return h.Sum(nil)
}

// signingKey is that of a day, for S3 in us-east-1.
func signingKey(at time.Time) []byte {
	key := hmacOf([]byte("AWS4"+secretKey), at.Format("20060102"))
	for _, s := range []string{"us-east-1", "s3", "aws4_request"} {
		key = hmacOf(key, s)
	}
	return key
}

func tokenOf(n int) fence.Token { return fence.Token(n) }

func md5Base64(s string) string {
	sum := md5.Sum([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}
