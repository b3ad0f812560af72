package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// eventPage is how many events are read at once.
	eventPage = 256
	// defaultWindow is how many events are kept for the streams of a gateway. A stream that is further behind reads by itself.
	defaultWindow = 4096
	// eventTimeout bounds one question for events.
	eventTimeout = 5 * time.Second
	// catchingUp is how many streams may read by themselves at once.
	catchingUp = 4
)

// feed gives streams the window that they share: there is one while there are streams.
type feed struct {
	events Events
	log    *slog.Logger
	// poll is the time between two questions, and pause that after one without an answer.
	poll, pause time.Duration
	// size is how many events the window has at most.
	size int
	// readers admits the streams that read by themselves.
	readers chan struct{}

	mu      sync.Mutex // guards what follows
	streams int
	window  *window // nil without streams
}

func newFeed(events Events, log *slog.Logger) *feed {
	return &feed{events: events, log: log, poll: defaultPoll, pause: defaultPause, size: defaultWindow, readers: make(chan struct{}, catchingUp)}
}

// join returns the window; the last stream to leave closes it, and waits until nobody asks for events any more.
func (f *feed) join() (w *window, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams++; f.streams == 1 {
		f.window = openWindow(f)
	}
	w = f.window
	return w, func() {
		f.mu.Lock()
		f.streams--
		last := f.streams == 0
		if last {
			f.window = nil
		}
		f.mu.Unlock()
		if last {
			w.close()
		}
	}
}

// read is a stream's own question, for what the window does not have.
func (f *feed) read(ctx context.Context, after string) (found []fence.Event, gone bool, err error) {
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case f.readers <- struct{}{}:
	}
	defer func() { <-f.readers }()
	return f.ask(ctx, after)
}

func (f *feed) ask(ctx context.Context, after string) (found []fence.Event, gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return f.events.Events(ctx, after, eventPage)
}

func (f *feed) last(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return f.events.LastEvent(ctx)
}

// window is the newest events, without a gap. One goroutine asks the ledger for more, however many streams there are. Positions
// are compared only: a stream finds its place by the position of the last event that it has.
type window struct {
	feed  *feed
	grown bell
	stop  context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex // guards what follows
	events []fence.Event
	// number has for each position in the window, and for the one before its first event, the number of the event that follows,
	// counted from when the window was opened. first is that of the first event.
	number map[string]uint64
	first  uint64
	before string
}

func openWindow(f *feed) *window {
	ctx, stop := context.WithCancel(context.Background())
	w := &window{feed: f, stop: stop, done: make(chan struct{}), number: map[string]uint64{}}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

func (w *window) close() {
	w.stop()
	<-w.done
}

// after returns events behind a position, at most a page, and whether the position is known. If it is and there are none, or
// if it is not, grown is closed when there may be.
func (w *window) after(position string) (found []fence.Event, known bool, grown <-chan struct{}) {
	grown = w.grown.wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	next, known := w.number[position]
	if !known {
		return nil, false, grown
	}
	from := int(next - w.first)
	// Others append to the window and cut off its beginning, which leaves these where they are.
	return w.events[from:min(len(w.events), from+eventPage):len(w.events)], true, grown
}

// run asks for new events until the context ends.
func (w *window) run(ctx context.Context) {
	position, err := w.feed.last(ctx)
	for complained := false; err != nil; position, err = w.feed.last(ctx) {
		if !w.pause(ctx, err, &complained) {
			return
		}
	}
	w.restart(position)
	tick := time.NewTimer(w.feed.poll)
	defer tick.Stop()
	for complained := false; ; {
		more, err := w.more(ctx, &position)
		switch {
		case err != nil:
			if !w.pause(ctx, err, &complained) {
				return
			}
			continue
		case more:
			continue
		}
		complained = false
		tick.Reset(w.feed.poll)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pause waits a while after an error, and logs the first of several. It returns false when the context has ended.
func (w *window) pause(ctx context.Context, err error, complained *bool) bool {
	if ctx.Err() != nil {
		return false
	}
	if !*complained {
		w.feed.log.WarnContext(ctx, "events cannot be read", "cause", err)
		*complained = true
	}
	timer := time.NewTimer(w.feed.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// more asks once, and reports whether there are probably more. When events behind the position are gone, no stream finds
// itself in the window any more: each looks by itself, and learns it.
func (w *window) more(ctx context.Context, position *string) (bool, error) {
	found, gone, err := w.feed.ask(ctx, *position)
	if err != nil {
		return false, err
	}
	if gone {
		start := ""
		if len(found) > 0 {
			start, found = found[0].Position, found[1:]
		} else if start, err = w.feed.last(ctx); err != nil {
			return false, err
		}
		w.restart(start)
		*position = start
	}
	if len(found) > 0 {
		w.add(found)
		*position = found[len(found)-1].Position
	}
	return len(found) == eventPage, nil
}

// restart empties the window: it begins behind a position.
func (w *window) restart(position string) {
	w.mu.Lock()
	w.first += uint64(len(w.events))
	w.events, w.before = nil, position
	w.number = map[string]uint64{position: w.first}
	w.mu.Unlock()
	w.grown.ring()
}

func (w *window) add(found []fence.Event) {
	w.mu.Lock()
	for _, e := range found {
		w.events = append(w.events, e)
		w.number[e.Position] = w.first + uint64(len(w.events))
	}
	for len(w.events) > w.feed.size {
		delete(w.number, w.before)
		w.before = w.events[0].Position
		w.events = w.events[1:]
		w.first++
	}
	w.mu.Unlock()
	w.grown.ring()
}
