package world

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"volley/internal/testenv"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "`seed` of the first world; the others follow from it")
	forFlag     = flag.Duration("for", 10*time.Minute, "`time` of the worlds together, in their own time")
	wallFlag    = flag.Duration("wall", 5*time.Minute, "real `time` after which no other world begins")
	shortenFlag = flag.Duration("shorten", 40*time.Second, "real `time` in which to look for a shorter list of faults")
	faultsFlag  = flag.String("faults", "all", "`numbers` of the faults that happen, such as 3,17; or all, or none")
)

// variable says which world a process is for: the seed, and the faults as in the flag.
const variable = "VOLLEY_WORLD"

// patience is how much time of processors a world may take. The largest take three minutes.
func patience() time.Duration {
	return testenv.Raced(5*time.Minute, 20*time.Minute)
}

// realPatience is how long a world may take in real time. On a busy machine it may be long
// until a world has had its time of processors.
func realPatience() time.Duration { return 4 * patience() }

// limitTime ends the process, and shows all goroutines, once it has taken too much time of
// processors.
func limitTime() {
	for range time.Tick(time.Second) {
		if took := testenv.CPUTime(); took > patience() {
			panic(fmt.Sprintf("the world has not ended after %v of processors", took))
		}
	}
}

// TestWorld runs worlds until their time is over.
func TestWorld(t *testing.T) {
	if spec := os.Getenv(variable); spec != "" {
		runAlone(t, spec)
		return
	}
	left, wall, start := *forFlag, testenv.Raced(*wallFlag, min(*wallFlag, 15*time.Second)), time.Now()
	var sum tally
	if testing.Short() {
		left = min(left, time.Minute)
	}
	seed := *seedFlag
	for n := 1; left > 0 && time.Since(start) < wall; n++ {
		p := newPlan(seed)
		seed = follow(*seedFlag, n)
		if testenv.Race && n > 1 && p.span > 5*time.Minute {
			continue // it would take the race detector minutes
		}
		out, cpu, failed := runProcess(p.seed, *faultsFlag)
		if failed {
			report(t, p, out)
			sum.Failed++
			break
		}
		if testing.Verbose() {
			t.Logf("%v\n%s", p, out)
		}
		left -= p.span
		if err := sum.add(p, out, cpu); err != nil {
			t.Fatalf("%v: %v\n%s", p, err, out)
		}
	}
	t.Logf("%v, in %v", sum, time.Since(start).Round(time.Second))
	if left > 0 && sum.Failed == 0 {
		t.Logf("-wall has ended the run %v before -for", left.Round(time.Second))
	}
	if *tallyFlag != "" {
		all, err := sum.save(*tallyFlag)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("all runs: %v", all)
	}
}

// follow returns the seed of a later world.
func follow(seed uint64, n int) uint64 { return newLot(seed, "follow", n).Uint64() }

// runAlone runs one world in this process.
func runAlone(t *testing.T, spec string) {
	number, faults, _ := strings.Cut(spec, " ")
	seed, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlan(seed)
	if faults != "all" {
		p = p.keep(parseNumbers(t, faults))
	}
	cryptotest.SetGlobalRandom(t, seed) // so that a failure that depends on a first sequence comes again
	go limitTime()
	b, _ := runWorld(t, p)
	for _, f := range b.failures {
		t.Error(f)
	}
	figures, err := json.Marshal(b.counts)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s%s\n", countsPrefix, figures)
}

func parseNumbers(t *testing.T, s string) (numbers []int) {
	if s == "none" {
		return nil
	}
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func formatNumbers(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

// runProcess runs a world in a process of its own, and returns what that printed and took.
func runProcess(seed uint64, faults string) (out string, cpu time.Duration, failed bool) {
	exe, err := os.Executable()
	if err != nil {
		return err.Error(), 0, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), realPatience()+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestWorld$", "-test.timeout="+realPatience().String())
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all", fmt.Sprintf("%s=%d %s", variable, seed, faults))
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return string(b), cpu, err != nil
}

// report prints what a world has done, and the shortest list of faults with which it does it.
func report(t *testing.T, p *plan, out string) {
	numbers := make([]int, len(p.faults))
	for i := range numbers {
		numbers[i] = i
	}
	if *faultsFlag != "all" {
		numbers = parseNumbers(t, *faultsFlag)
	}
	runs := 0
	start := time.Now()
	shortest := shorten(numbers, func(some []int) bool {
		if time.Since(start) > *shortenFlag {
			return false
		}
		runs++
		_, _, failed := runProcess(p.seed, formatNumbers(some))
		return failed
	})
	t.Errorf("%v\n%s", p, tail(out, 8000))
	list := ""
	for _, n := range shortest {
		list += fmt.Sprintf("  %d: %s\n", n, p.faults[n].describe(p))
	}
	t.Errorf("After %d more runs, %d of %d faults are enough:\n%s\nAgain:\n\n  go test ./bench/world -run World -seed %d -for 1s -faults %s",
		runs, len(shortest), len(p.faults), list, p.seed, formatNumbers(shortest))
}

// tail returns the beginning and the end of a long text.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n/2] + "\n[...]\n" + s[len(s)-n/2:]
}

// shorten returns a short part of a list that still fails: without any further half, quarter
// and so on of it, it does not.
func shorten(list []int, fails func([]int) bool) []int {
	if len(list) == 0 || fails(nil) {
		return nil
	}
	for size := (len(list) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(list); {
			end := min(i+size, len(list))
			rest := append(append([]int(nil), list[:i]...), list[end:]...)
			if len(rest) > 0 && fails(rest) {
				list = rest
				continue
			}
			i = end
		}
	}
	return list
}
