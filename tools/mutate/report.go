package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints who has survived, and a table. It returns the percentage that is
// killed or explained.
func report(w io.Writer, sample []*mutant) float64 {
	type row struct {
		dir    string
		counts map[verdict]int
	}
	var rows []*row
	total := &row{"all", make(map[verdict]int)}
	for _, m := range sample {
		if len(rows) == 0 || rows[len(rows)-1].dir != m.pkg.dir {
			rows = append(rows, &row{m.pkg.dir, make(map[verdict]int)})
		}
		rows[len(rows)-1].counts[m.verdict]++
		total.counts[m.verdict]++
		if m.verdict == survived {
			fmt.Fprintf(w, "SURVIVED %s\n", m)
		}
	}
	percent := func(c map[verdict]int) float64 {
		good := c[killed] + c[stuck] + c[explain]
		if good+c[survived] == 0 {
			return 100
		}
		return 100 * float64(good) / float64(good+c[survived])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "package\tkilled\tstuck\texplained\tsurvived\tnot run\tdoes not build\tkilled or explained\t")
	for _, r := range append(rows, total) {
		c := r.counts
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f %%\t\n", r.dir, c[killed], c[stuck], c[explain], c[survived], c[pending], c[unbuilt], percent(c))
	}
	t.Flush()
	return percent(total.counts)
}
