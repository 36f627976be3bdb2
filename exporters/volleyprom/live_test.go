package volleyprom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

// TestPrometheus has Prometheus scrape this process: every expression of the
// dashboard returns data, and a link that begins to lose fires an alert.
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
	require.False(t, p.answers(`ALERTS{alertname="VolleyLoss",alertstate="firing"}`), "nothing is lost yet")
	bad := simnet.Link{Loss: 0.3}
	proxy.SetLinks(bad, bad)
	p.until(t, "the alert", func() bool { return p.answers(`ALERTS{alertname="VolleyLoss",alertstate="firing"}`) })
}

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
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: live
    static_configs: [{targets: [%q]}]
`

// startPrometheus starts one with the rules of this folder.
func startPrometheus(t *testing.T, path, target string) *server {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, liveConfig, rules, target), 0o600))
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

// answers reports whether an expression has a result.
func (s *server) answers(expr string) bool {
	resp, err := http.Get("http://" + s.addr + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct {
		Status string
		Data   struct{ Result []any }
	}
	return json.NewDecoder(resp.Body).Decode(&answer) == nil && answer.Status == "success" && len(answer.Data.Result) > 0
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
			all = append(all, strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*", "$listener", ".*").Replace(target.Expr))
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
