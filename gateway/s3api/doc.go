// Package s3api serves the objects of a gateway to clients that speak S3: signatures, presigned URLs, chunked bodies, trailing checksums and
// XML come from versitygw's controllers, over a backend of ours on the same store as the HTTP API's. A write carries its token as the header
// X-Fence-Token or as the metadata x-amz-meta-fence-token, which any client can set.
//
// Those controllers are written for fasthttp. They run here on requests of net/http, through a bridge that streams bodies both ways, so that the
// server, its limits, its TLS and how it lets clients go are those of the HTTP API. Nothing of versitygw or fiber listens or starts a
// goroutine.
//
// versitygw keeps some settings in package variables: whether it logs for debugging, which is off, and whether bucket names in
// x-amz-copy-source are checked, which New turns off. A process therefore has one way of serving S3, though it may have several Fronts.
package s3api
