package s3api

import "github.com/gofiber/fiber/v3"

// witness hears of every answer of versitygw's, as its metrics would, and notes what it refused by itself.
type witness struct{}

// Send notes a refusal.
func (witness) Send(ctx fiber.Ctx, err error, _ string, _ int64, _ int) {
	if c := callOf(ctx.RequestCtx()); err != nil && c.err == nil {
		_ = c.fail(err)
	}
}

// Close does nothing.
func (witness) Close() {}
