package s3api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/controllers"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3err"
)

// route is one operation of S3's: what a method means where all of the parameters are given and the header, if it names one.
type route struct {
	method string
	params []string
	header string
	serve  controllers.Controller
	// body is how the request's body is checked.
	body bodyCheck
}

// bodyCheck tells what a body is: none that matters, an object's, or XML, of which it may be a duty to come with a checksum.
type bodyCheck int

const (
	bodyNone bodyCheck = iota
	bodyObject
	bodyXML
)

const copySource = "X-Amz-Copy-Source"

// objectRoutes and bucketRoutes stand in the order in which they are tried.
func objectRoutes(ctrl controllers.S3ApiController) []route {
	return []route{
		{method: http.MethodHead, serve: ctrl.HeadObject},
		{method: http.MethodGet, params: []string{"uploadId"}, serve: ctrl.ListParts},
		{method: http.MethodGet, serve: ctrl.GetObject},
		{method: http.MethodDelete, params: []string{"uploadId"}, serve: ctrl.AbortMultipartUpload},
		{method: http.MethodDelete, serve: ctrl.DeleteObject},
		{method: http.MethodPost, params: []string{"uploadId"}, serve: ctrl.CompleteMultipartUpload},
		{method: http.MethodPost, params: []string{"uploads"}, serve: ctrl.CreateMultipartUpload},
		{method: http.MethodPut, params: []string{"uploadId", "partNumber"}, header: copySource, serve: ctrl.UploadPartCopy},
		{method: http.MethodPut, params: []string{"uploadId", "partNumber"}, serve: ctrl.UploadPart, body: bodyObject},
		{method: http.MethodPut, header: copySource, serve: ctrl.CopyObject},
		{method: http.MethodPut, serve: ctrl.PutObject, body: bodyObject},
	}
}

func bucketRoutes(ctrl controllers.S3ApiController) []route {
	return []route{
		{method: http.MethodHead, serve: ctrl.HeadBucket},
		{method: http.MethodGet, params: []string{"location"}, serve: ctrl.GetBucketLocation},
		{method: http.MethodGet, params: []string{"uploads"}, serve: ctrl.ListMultipartUploads},
		{method: http.MethodGet, params: []string{"list-type"}, serve: ctrl.ListObjectsV2},
		{method: http.MethodGet, serve: ctrl.ListObjects},
		{method: http.MethodPost, params: []string{"delete"}, serve: ctrl.DeleteObjects, body: bodyXML},
		{method: http.MethodPut, serve: createBucket},
	}
}

// subresources are parameters that make another thing of a request, and which are of none of the routes.
func subresources() []string {
	return []string{
		"accelerate", "acl", "analytics", "attributes", "cors", "encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "logging", "metrics",
		"notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment", "restore",
		"retention", "select", "tagging", "torrent", "versioning", "versions", "website", "renameObject", "session",
	}
}

// routes makes the handlers. Paths are matched as they are: keys that end with a slash, or begin with one, are keys.
func (f *Front) routes() *fiber.App {
	app := fiber.New(fiber.Config{StrictRouting: true, CaseSensitive: true, Immutable: true, StreamRequestBody: true, ErrorHandler: f.failed})
	ctrl := controllers.New(&store{}, f.iam(), nil, nil, nil, false, true, "", 0)
	services := &controllers.Services{MetricsManager: witness{}}
	of := func(routes []route) fiber.Handler {
		return func(ctx fiber.Ctx) error {
			r := pick(ctx, routes)
			return controllers.ProcessHandlers(r.serve, "", services, f.authenticate(r.body))(ctx)
		}
	}
	service, bucket, object := of([]route{{method: http.MethodGet, serve: ctrl.ListBuckets}}), of(bucketRoutes(ctrl)), of(objectRoutes(ctrl))
	app.Use(middlewares.SetDefaultValues(middlewares.RootUserConfig{Access: f.nobody}, region))
	app.Use(func(ctx fiber.Ctx) error {
		path, err := url.PathUnescape(string(ctx.Request().URI().PathOriginal()))
		if err != nil {
			return controllers.ProcessController(ctx, refuseWith(s3err.GetAPIError(s3err.ErrCannotParseHTTPRequest)), "", services)
		}
		ctx.Path(path)
		return ctx.Next()
	})
	app.All("/", service)
	app.All("/:bucket", bucket)
	app.All("/:bucket/*", func(ctx fiber.Ctx) error {
		if ctx.Path() == "/"+ctx.Params("bucket")+"/" {
			return bucket(ctx)
		}
		return object(ctx)
	})
	app.Use(func(ctx fiber.Ctx) error {
		return controllers.ProcessController(ctx, refuseWith(s3err.GetMethodNotAllowedErr(ctx.Method(), s3err.ResourceTypeService, nil)), "", services)
	})
	return app
}

// failed answers what versitygw has no answer for.
func (f *Front) failed(ctx fiber.Ctx, err error) error {
	e := callOf(ctx.RequestCtx()).fail(err).(s3err.S3Error)
	ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
	return ctx.Status(e.StatusCode()).Send(e.XMLBody("", ""))
}

func refuseWith(err error) controllers.Controller {
	return func(fiber.Ctx) (*controllers.Response, error) { return &controllers.Response{}, err }
}

// createBucket refuses: buckets are made where blobs are kept, and protected by whoever runs the gateway.
func createBucket(ctx fiber.Ctx) (*controllers.Response, error) {
	c := callOf(ctx.RequestCtx())
	return &controllers.Response{}, c.fail(c.createBucket(ctx.Params("bucket")))
}

// pick finds the operation of a request.
func pick(ctx fiber.Ctx, routes []route) route {
	args := ctx.Request().URI().QueryArgs()
	for _, name := range subresources() {
		if args.Has(name) {
			return route{serve: refuseWith(notImplemented("?" + name))}
		}
	}
	var methods []string
	for _, r := range routes {
		if r.method != ctx.Method() {
			methods = append(methods, r.method)
			continue
		}
		fits := r.header == "" || ctx.Get(r.header) != ""
		for _, name := range r.params {
			fits = fits && args.Has(name)
		}
		if fits {
			return r
		}
	}
	return route{serve: refuseWith(s3err.GetMethodNotAllowedErr(ctx.Method(), s3err.ResourceTypeObject, methods))}
}

func notImplemented(what string) error {
	return s3err.APIError{Code: "NotImplemented", Description: strings.TrimSpace(what) + " is not implemented: see what of S3 this gateway has", HTTPStatusCode: http.StatusNotImplemented}
}
