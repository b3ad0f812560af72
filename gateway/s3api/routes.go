package s3api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/controllers"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// route is one operation of S3's: what a method means where all of the parameters are given and the header, if it names one.
type route struct {
	// name is S3's own, for traces; op and verb are what it is in metrics, and for the rules of access.
	name, op string
	verb     gateway.Verb
	method   string
	params   []string
	header   string
	// also are parameters that it takes besides, of those that make another thing of a request.
	also  []string
	serve controllers.Controller
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
	const read, write = gateway.VerbRead, gateway.VerbWrite
	upload, part, piece := []string{"uploadId"}, []string{"uploadId", "partNumber"}, []string{"partNumber", "versionId"}
	return []route{
		{name: "HeadObject", op: "get", verb: read, method: http.MethodHead, also: piece, serve: ctrl.HeadObject},
		{name: "ListParts", op: "list", verb: write, method: http.MethodGet, params: upload, serve: ctrl.ListParts},
		{name: "GetObject", op: "get", verb: read, method: http.MethodGet, also: piece, serve: ctrl.GetObject},
		{name: "AbortMultipartUpload", op: "upload", verb: write, method: http.MethodDelete, params: upload, serve: ctrl.AbortMultipartUpload},
		{name: "DeleteObject", op: "delete", verb: write, method: http.MethodDelete, also: []string{"versionId"}, serve: ctrl.DeleteObject},
		{name: "CompleteMultipartUpload", op: "put", verb: write, method: http.MethodPost, params: upload, serve: ctrl.CompleteMultipartUpload},
		{name: "CreateMultipartUpload", op: "upload", verb: write, method: http.MethodPost, params: []string{"uploads"}, serve: ctrl.CreateMultipartUpload},
		{name: "UploadPartCopy", op: "upload", verb: write, method: http.MethodPut, params: part, header: copySource, serve: ctrl.UploadPartCopy},
		{name: "UploadPart", op: "upload", verb: write, method: http.MethodPut, params: part, serve: ctrl.UploadPart, body: bodyObject},
		{name: "CopyObject", op: "copy", verb: write, method: http.MethodPut, header: copySource, serve: ctrl.CopyObject},
		{name: "PutObject", op: "put", verb: write, method: http.MethodPut, serve: ctrl.PutObject, body: bodyObject},
	}
}

func bucketRoutes(ctrl controllers.S3ApiController) []route {
	const read, write = gateway.VerbRead, gateway.VerbWrite
	return []route{
		{name: "HeadBucket", op: "list", verb: read, method: http.MethodHead, serve: ctrl.HeadBucket},
		{name: "GetBucketLocation", op: "list", verb: read, method: http.MethodGet, params: []string{"location"}, serve: ctrl.GetBucketLocation},
		{name: "ListMultipartUploads", op: "list", verb: write, method: http.MethodGet, params: []string{"uploads"}, serve: ctrl.ListMultipartUploads},
		{name: "ListObjectsV2", op: "list", verb: read, method: http.MethodGet, params: []string{"list-type"}, serve: ctrl.ListObjectsV2},
		{name: "ListObjects", op: "list", verb: read, method: http.MethodGet, serve: ctrl.ListObjects},
		{name: "DeleteObjects", op: "delete", verb: write, method: http.MethodPost, params: []string{"delete"}, serve: notNothing(ctrl.DeleteObjects), body: bodyXML},
		{name: "CreateBucket", op: "list", verb: read, method: http.MethodPut, serve: createBucket},
	}
}

func serviceRoutes(ctrl controllers.S3ApiController) []route {
	return []route{{name: "ListBuckets", op: "list", verb: gateway.VerbRead, method: http.MethodGet, serve: ctrl.ListBuckets}}
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
			if r.name != "" {
				callOf(ctx.RequestCtx()).arrived.Pattern = "S3 " + r.name
			}
			return controllers.ProcessHandlers(r.serve, "", services, f.authenticate(r))(ctx)
		}
	}
	service, bucket, object := of(serviceRoutes(ctrl)), of(bucketRoutes(ctrl)), of(objectRoutes(ctrl))
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

// notNothing refuses a delete of no objects, as S3 does, which versitygw answers without asking its backend.
func notNothing(serve controllers.Controller) controllers.Controller {
	return func(ctx fiber.Ctx) (*controllers.Response, error) {
		answer, err := serve(ctx)
		if err == nil && callOf(ctx.RequestCtx()).name.Bucket == "" {
			return &controllers.Response{}, s3err.GetAPIError(s3err.ErrMalformedXML)
		}
		return answer, err
	}
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
			return r.unlessOther(args)
		}
	}
	return route{serve: refuseWith(s3err.GetMethodNotAllowedErr(ctx.Method(), s3err.ResourceTypeObject, methods))}
}

// unlessOther is the route, or a refusal where a parameter asks for another operation than this: a part that lacks its upload is no object.
func (r route) unlessOther(args *fasthttp.Args) route {
	for _, name := range []string{"uploads", "uploadId", "partNumber", "versionId", "delete", "list-type", "location"} {
		if args.Has(name) && !slices.Contains(r.params, name) && !slices.Contains(r.also, name) {
			err := fence.Errorf(fence.CodeInvalidRequest, "%s takes no parameter %s", r.name, name).In(name)
			return route{serve: func(ctx fiber.Ctx) (*controllers.Response, error) {
				return &controllers.Response{}, callOf(ctx.RequestCtx()).fail(err)
			}}
		}
	}
	return r
}

func notImplemented(what string) error {
	return s3err.APIError{Code: "NotImplemented", Description: strings.TrimSpace(what) + " is not implemented: see what of S3 this gateway has", HTTPStatusCode: http.StatusNotImplemented}
}
