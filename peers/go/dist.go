// SPDX-License-Identifier: Apache-2.0

package main

import "sort"

// Where probes/measure/dist.c looks: a quantile is a value that occurred, the first
// that at least a share p of all are not above.
var shares = []float64{
	0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6,
	0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1,
}

func at(sorted []int64, p float64) int64 {
	rank := p * float64(len(sorted))
	i := int(rank)
	if float64(i) == rank && i > 0 {
		i--
	}
	if i >= len(sorted) {
		i = len(sorted) - 1
	}
	return sorted[i]
}

func distribution(o map[string]any, name string, v []int64) {
	o[name+"_n"] = len(v)
	if len(v) == 0 {
		return
	}
	sort.Slice(v, func(i, j int) bool { return v[i] < v[j] })
	for suffix, p := range map[string]float64{
		"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1,
	} {
		o[name+"_"+suffix+"_ns"] = at(v, p)
	}
	list := make([][2]any, len(shares))
	for i, p := range shares {
		list[i] = [2]any{p, at(v, p)}
	}
	o[name+"_quantiles"] = list
}
