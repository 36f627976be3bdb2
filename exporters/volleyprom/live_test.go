package volleyprom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/exporters/volleyprom"
	"volley/simnet"
)

const (
	// interval is that of scrapes and of evaluations in TestPrometheus, the longest
	// for which docs/observability.md promises the delay of alertDelay.
	interval   = 5 * time.Second
	alertDelay = 30 * time.Second
)

// TestPrometheus has Prometheus scrape this process: every expression of the
// dashboard returns data, and a link that begins to lose fires an alert, soon by
// Prometheus's own clock. That is a limit in real time, which a machine that is
// very busy may miss; so the test runs by request only.
func TestPrometheus(t *testing.T) {
	if os.Getenv("VOLLEY_PROMETHEUS") == "" {
		t.Skip("SKIPPED: VOLLEY_PROMETHEUS=1 has it start prometheus, which Debian's package of that name has")
	}
	path, err := exec.LookPath("prometheus")
	require.NoError(t, err)
	proxy := traffic(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(volleyprom.NewCollector())
	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()
	p := startPrometheus(t, path, metrics.Listener.Addr().String())

	for _, expr := range dashboardExpressions(t) {
		p.until(t, "data for "+expr, func() bool { return p.answers(expr) })
	}
	const pending, firing = `ALERTS{alertname="VolleyLoss",alertstate="pending"}`, `ALERTS{alertname="VolleyLoss",alertstate="firing"}`
	require.Empty(t, p.query(pending), "nothing is lost yet")
	require.Empty(t, p.query(firing), "nothing is lost yet")
	bad, began := simnet.Link{Loss: 0.3}, time.Now()
	proxy.SetLinks(bad, bad)
	p.until(t, "the alert", func() bool { return p.answers(firing) })
	seen := p.first(t, `volley_loss_ratio{percentile="50"}`, began, func(v float64) bool { return v > 0.05 })
	waits := p.first(t, pending, began, isOne)
	fires := p.first(t, firing, began, isOne)
	t.Logf("after the loss began: in a scrape %v, pending %v, firing %v", seen, waits, fires)
	require.LessOrEqual(t, seen, waits)
	require.GreaterOrEqual(t, fires-waits, 10*time.Second, "the rule says for: 10s")
	require.LessOrEqual(t, fires, alertDelay)
}

func isOne(v float64) bool { return v == 1 }

// traffic runs a listener, and clients that reach it through a proxy, until the test
// ends.
func traffic(t *testing.T) *simnet.Proxy {
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	proxy, err := simnet.NewProxy(simnet.ProxyConfig{Target: l.Addr().String(), Seed: 1})
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		proxy.Close()
		wg.Wait()
	})
	stop := t.Context().Done()
	talk := func(c net.Conn) {
		wg.Go(func() {
			buf := make([]byte, 2000)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			defer c.Close()
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					if _, err := c.Write(make([]byte, 100)); err != nil {
						return
					}
				}
			}
		})
	}
	for range 4 {
		a, err := volley.Dial("udp", proxy.Addr().String())
		require.NoError(t, err)
		require.NoError(t, l.SetDeadline(time.Now().Add(30*time.Second)))
		b, err := l.Accept()
		require.NoError(t, err)
		talk(a)
		talk(b)
	}
	return proxy
}

// A server is a Prometheus that runs.
type server struct {
	addr string
	out  string // a file
}

const liveConfig = `
global: {scrape_interval: %[1]s, evaluation_interval: %[1]s}
rule_files: [%[2]q]
scrape_configs:
  - job_name: live
    static_configs: [{targets: [%[3]q]}]
`

// startPrometheus starts one with the rules of this folder.
func startPrometheus(t *testing.T, path, target string) *server {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, liveConfig, interval, rules, target), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{addr: free.Addr().String(), out: filepath.Join(dir, "log")}
	require.NoError(t, free.Close())
	out, err := os.Create(s.out)
	require.NoError(t, err)
	cmd := exec.Command(path, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", s.addr)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		out.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// until waits for something to become so.
func (s *server) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(s.out)
			t.Fatalf("Prometheus has no %s\n%s", what, log)
		}
	}
}

// A series is one of an answer of Prometheus.
type series struct {
	Value  [2]any   // of an instant: the time in seconds, and the value as a string
	Values [][2]any // of a range
}

// answers reports whether an expression has a result.
func (s *server) answers(expr string) bool { return len(s.query(expr)) > 0 }

// query returns the result of an expression, nothing if there is none yet.
func (s *server) query(expr string) []series {
	resp, err := http.Get("http://" + s.addr + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var answer struct {
		Status string
		Data   struct{ Result []series }
	}
	if json.NewDecoder(resp.Body).Decode(&answer) != nil || answer.Status != "success" {
		return nil
	}
	return answer.Data.Result
}

// first returns how long after a time Prometheus has had a value first that is as
// wanted, by the time of the sample.
func (s *server) first(t *testing.T, selector string, after time.Time, wanted func(float64) bool) time.Duration {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for _, one := range s.query(selector + "[5m]") {
		for _, sample := range one.Values {
			seconds, text := sample[0].(float64), sample[1].(string)
			v, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			if at := time.UnixMilli(int64(math.Round(seconds * 1000))).Sub(after); at > 0 && wanted(v) {
				least = min(least, at)
			}
		}
	}
	require.Less(t, least, time.Duration(math.MaxInt64), "no sample of %s", selector)
	return least
}

// dashboardExpressions returns those of all panels, with the variables as Grafana
// sets them at first.
func dashboardExpressions(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.NewDecoder(bytes.NewReader(data)).Decode(&d))
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "20s", "$job", ".*", "$instance", ".*", "$listener", ".*").Replace(target.Expr))
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

// TestAlertRules has promtool look at the rules.
func TestAlertRules(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: there is no promtool; Debian's package prometheus has it")
	}
	out, err := exec.Command(path, "check", "rules", "alerts.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
