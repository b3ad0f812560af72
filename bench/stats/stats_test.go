package stats

import (
	"math"
	"testing"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := []struct {
		name    string
		samples []int
		p       float64
		want    int
	}{
		{"None", nil, 0.5, 0},
		{"One", []int{7}, 0.99, 7},
		{"Middle", hundred, 0.5, 50},
		{"High", hundred, 0.99, 99},
		{"Highest", hundred, 1, 100},
		{"Lowest", hundred, 0, 1},
		{"EvenNumber", []int{4, 1, 3, 2}, 0.5, 2},
		{"HighOfFew", []int{4, 1, 3, 2}, 0.99, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Percentile(tt.samples, tt.p); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name    string
		figures []float64
		want    float64
	}{
		{"None", nil, nan},
		{"OnlyMissing", []float64{nan}, nan},
		{"Odd", []float64{9, 1, 2}, 2},
		{"Even", []float64{9, 1, 2, 4}, 3},
		{"MissingLeftOut", []float64{9, nan, 1, 2}, 2},
		{"Infinite", []float64{inf, inf, 1, inf}, inf},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Median(tt.figures); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A round in which everything was ten times slower says the same as the others.
func TestRatioComparesWithinRounds(t *testing.T) {
	ours, theirs := []float64{1, 10, 2}, []float64{2, 20, 4}
	if got := Ratio(ours, theirs); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
	nan := math.NaN()
	if got := Ratio([]float64{nan, 1, 3, 5}, []float64{1, 2, 0}); got != 0.5 {
		t.Errorf("with rounds missing: got %v, want 0.5", got)
	}
}
