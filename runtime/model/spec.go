package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rate is how often a divergence happens: to a share of the requests, each decided by itself,
// or a number of times in each iteration.
type Rate struct {
	Percent      float64 // of the requests, 0…100
	PerIteration int     // times in each iteration; 0: Percent counts
}

// String returns the rate as ParseSpec reads it.
func (r Rate) String() string {
	if r.PerIteration != 0 {
		return strconv.Itoa(r.PerIteration) + "/iter"
	}
	return strconv.FormatFloat(r.Percent, 'f', -1, 64) + "%"
}

// Spec says how a program departs from its script.
type Spec struct {
	Late    Rate // frees come 1–200 events later
	Extra   Rate // a request nobody expects, freed 1–200 events later
	Missing Rate // a request is left out
	Swap    Rate // a request changes places with the next one
	Resize  Rate // a request asks for two thirds, or for one and a half, of its size
	Restart Rate // the iteration is abandoned at that request, all it holds is freed, and it begins again
}

// specKeys is the order in which keys are listed and printed.
var specKeys = []string{"late", "extra", "missing", "swap", "resize", "restart"}

func (s *Spec) rate(key string) *Rate {
	switch key {
	case "late":
		return &s.Late
	case "extra":
		return &s.Extra
	case "missing":
		return &s.Missing
	case "swap":
		return &s.Swap
	case "resize":
		return &s.Resize
	case "restart":
		return &s.Restart
	}
	return nil
}

// String returns the spec as ParseSpec reads it; nothing for the zero Spec.
func (s Spec) String() string {
	var parts []string
	for _, key := range specKeys {
		if r := *s.rate(key); r != (Rate{}) {
			parts = append(parts, key+"="+r.String())
		}
	}
	return strings.Join(parts, ",")
}

// ParseSpec reads a comma-separated list of KEY=RATE, where KEY is late, extra, missing, swap,
// resize or restart, and RATE a percentage of the requests ("5%") or a number of times in each
// iteration ("1/iter"). The empty text is no divergence.
func ParseSpec(text string) (Spec, error) {
	var spec Spec
	if strings.TrimSpace(text) == "" {
		return spec, nil
	}
	seen := make(map[string]bool)
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		rate := spec.rate(key)
		switch {
		case !ok:
			return Spec{}, fmt.Errorf("model: divergence: %q is not KEY=RATE, as in late=5%%", part)
		case rate == nil:
			return Spec{}, fmt.Errorf("model: divergence: unknown key %q; known are %s", key, strings.Join(specKeys, ", "))
		case seen[key]:
			return Spec{}, fmt.Errorf("model: divergence: %q is given twice", key)
		}
		seen[key] = true
		var err error
		if *rate, err = parseRate(strings.TrimSpace(value)); err != nil {
			return Spec{}, fmt.Errorf("model: divergence: %s: %w", key, err)
		}
	}
	return spec, nil
}

func parseRate(text string) (Rate, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(p) || p < 0 || p > 100 {
			return Rate{}, fmt.Errorf("%q is not a percentage of 0 to 100", text)
		}
		return Rate{Percent: p}, nil
	}
	if number, ok := strings.CutSuffix(text, "/iter"); ok {
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 0 || n > 1_000_000 {
			return Rate{}, fmt.Errorf("%q is not a whole number of times, 0 to 1000000, in an iteration", text)
		}
		return Rate{PerIteration: n}, nil
	}
	return Rate{}, fmt.Errorf("%q is neither a percentage (5%%) nor a number of times in an iteration (1/iter)", text)
}
