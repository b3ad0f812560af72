package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The plot, in SVG's units.
const (
	plotWidth, plotHeight    = 720.0, 440.0
	plotLeft, plotRight      = 60.0, 690.0
	plotTop, plotBottom      = 118.0, 382.0
	plotTarget               = 95 // characters, so that they fit
	plotBars                 = 70
	plotInk, plotGrid        = "#1f2933", "#d9dee3"
	plotBarColour, plotCurve = "#9db8d6", "#b4530a"
)

// plot is a scale: latency in milliseconds to the right, logarithmic, and a share upwards.
type plot struct {
	strings.Builder
	from, to float64 // logarithms to the base of 10
}

// plotLatencies draws how many writes took how long, and which share took at most so long, as an SVG of its own.
func plotLatencies(r *benchReport) string {
	p := &plot{from: -1, to: 1}
	if n := len(r.Buckets); n > 0 {
		least := max(r.Buckets[0].From, 1e-3)
		p.from = math.Floor(math.Log10(least)*2) / 2
		p.to = math.Ceil(math.Log10(max(r.Latency.Max, least*1.001))*2) / 2
	}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight, plotInk)
	fmt.Fprintf(p, `<title>Latency of fenced writes</title>`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	p.text(plotLeft, 28, "start", 16, fmt.Sprintf("Latency of fenced writes: %.0f/s with %s", r.Throughput, counted(r.Clients, "client")))
	target := []rune(r.Target)
	if len(target) > plotTarget {
		target = append(target[:plotTarget-1], '…')
	}
	p.text(plotLeft, 48, "start", 12, string(target))
	p.text(plotLeft, 64, "start", 12, fmt.Sprintf("%.1f s: %d accepted, %d refused, %d failed", r.Seconds, r.Accepted, r.Refused, r.Failed))
	p.grid()
	p.bars(r.Buckets)
	p.curve(r)
	p.marks(r)
	p.text((plotLeft+plotRight)/2, plotBottom+40, "middle", 12, "latency (ms, logarithmic)")
	p.WriteString("</svg>\n")
	return p.String()
}

func (p *plot) x(ms float64) float64 {
	at := (math.Log10(max(ms, 1e-6)) - p.from) / (p.to - p.from)
	return plotLeft + (plotRight-plotLeft)*min(max(at, 0), 1)
}

func (p *plot) y(share float64) float64 { return plotBottom - (plotBottom-plotTop)*share }

func (p *plot) text(x, y float64, anchor string, size int, text string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">`, x, y, anchor, size)
	_ = xml.EscapeText(p, []byte(text)) // a Builder takes everything
	p.WriteString("</text>\n")
}

func (p *plot) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

// grid draws 1, 2 and 5 of each power of ten, and quarters.
func (p *plot) grid() {
	for decade := math.Floor(p.from); decade <= p.to; decade++ {
		for _, digit := range []float64{1, 2, 5} {
			ms := digit * math.Pow(10, decade)
			if at := math.Log10(ms); at < p.from-1e-9 || at > p.to+1e-9 {
				continue
			}
			p.line(p.x(ms), plotTop, p.x(ms), plotBottom, `stroke="`+plotGrid+`"`)
			p.text(p.x(ms), plotBottom+18, "middle", 12, strconv.FormatFloat(ms, 'g', 3, 64))
		}
	}
	for quarter := range 5 {
		share := float64(quarter) / 4
		p.line(plotLeft, p.y(share), plotRight, p.y(share), `stroke="`+plotGrid+`"`)
		p.text(plotLeft-8, p.y(share)+4, "end", 12, fmt.Sprintf("%.0f %%", 100*share))
	}
}

// bars join buckets, which are narrower than can be seen. The highest one has three quarters of the height.
func (p *plot) bars(buckets []benchBucket) {
	var counts [plotBars]int64
	width := (plotRight - plotLeft) / plotBars
	var most int64
	for _, b := range buckets {
		i := min(int((p.x((b.From+b.To)/2)-plotLeft)/width), plotBars-1)
		counts[i] += b.Count
		most = max(most, counts[i])
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		height := max((plotBottom-plotTop)*0.75*float64(n)/float64(most), 1)
		fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", plotLeft+width*float64(i)+0.5, plotBottom-height, width-1, height, plotBarColour)
	}
}

// curve is the share that took at most so long.
func (p *plot) curve(r *benchReport) {
	var all, sum int64
	for _, b := range r.Buckets {
		all += b.Count
	}
	if all == 0 {
		return
	}
	fmt.Fprintf(p, `<polyline fill="none" stroke="%s" stroke-width="2" points="%.1f,%.1f`, plotCurve, p.x(r.Buckets[0].From), p.y(0))
	for _, b := range r.Buckets {
		sum += b.Count
		fmt.Fprintf(p, " %.1f,%.1f", p.x(cmp.Or(min(b.To, r.Latency.Max), b.To)), p.y(float64(sum)/float64(all)))
	}
	p.WriteString("\"/>\n")
}

// marks are the percentiles, their names one below the other so that they do not meet.
func (p *plot) marks(r *benchReport) {
	if len(r.Buckets) == 0 {
		return
	}
	for i, q := range []struct {
		name string
		ms   float64
	}{{"p50", r.Latency.P50}, {"p99", r.Latency.P99}, {"p99.9", r.Latency.P999}} {
		x, y := p.x(q.ms), plotTop-36+float64(i)*14
		anchor, shift := "start", 5.0
		if x > plotRight-100 {
			anchor, shift = "end", -5.0
		}
		p.line(x, y-4, x, plotBottom, `stroke="`+plotInk+`" stroke-dasharray="4 3"`)
		p.text(x+shift, y, anchor, 12, q.name+" "+strconv.FormatFloat(q.ms, 'g', 3, 64)+" ms")
	}
}
