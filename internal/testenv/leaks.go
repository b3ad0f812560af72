package testenv

import "go.uber.org/goleak"

// leftBehind are goroutines that are not ours to end: a link of toxiproxy one end of which failed while bytes were on
// their way waits for ever to pass them on.
func leftBehind() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	}
}
