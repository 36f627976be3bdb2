package repotest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An apiRule is a rule for lines of the API lists.
type apiRule struct {
	says   string
	lines  string // a pattern of the lines that it is for
	keeps  string // a pattern that each of them has
	except map[string]string
}

// apiRules are what all public packages have in common.
var apiRules = []apiRule{
	{
		says:  "a call that dials or listens returns a concrete type and an error",
		lines: `^(func|method \([^)]*\)) (Dial|Listen)\w*\(`,
		keeps: `\) \(\*\w+, error\)$`,
		except: map[string]string{
			"riptide: method (*Server) ListenAndServe(network, address string) error": "it serves, as in net/http",
		},
	},
	{
		says:  "Dialer and ListenConfig take a context first, or a socket that exists",
		lines: `^method \(\*(Dialer|ListenConfig)\) `,
		keeps: `\) (Dial|DialOn|DialWithKey|Redial|Listen|ListenPacket)\(ctx context\.Context, |\) ListenOn\(pc net\.PacketConn[,)]`,
	},
	{
		says:  "a constructor that can fail returns an error",
		lines: `^func New(Conn|Listener|PacketConn|Codec|Recorder|Reader|Proxy)\(`,
		keeps: `, error\)$`,
	},
	{
		says:  "a call that waits takes a context",
		lines: `^method \(\*\w+\) (ReadMessage|ReadMessageID|ReadFrame|AcceptConn|WaitReceipts|Flush|Shutdown|Connect|ConnectOn|Run)\(`,
		keeps: `\(ctx context\.Context[,)]`,
	},
	{
		says:  "a kind of finding is a word, and a new kind is no new name",
		lines: `^field Finding\.Kind `,
		keeps: ` string$`,
	},
	{
		says:  "reasons of drops are no fields",
		lines: `^field \w*Stats\.Drops `,
		keeps: ` map\[string\]uint64$`,
		except: map[string]string{
			"volley: field TransportStats.Drops uint64": "it is one counter",
		},
	},
	{
		says:  "a duration is a time.Duration",
		lines: `^field \w+\.\w*(RTT|RTO|Timeout|Interval|Lifetime|Elapsed|KeepAlive|Delay)(Min|Max|Var)? `,
		keeps: ` time\.Duration$`,
		except: map[string]string{
			"reliable: field Stats.RTT float32":    "the reference counts in milliseconds",
			"reliable: field Stats.RTTMin float32": "so does it here",
			"reliable: field Stats.RTTMax float32": "and here",
		},
	},
	{
		says:  "a loss is a fraction from 0 to 1, and a rate is bytes a second",
		lines: `^field \w*Stats\.\w*(Loss|Rate|Bandwidth)\b`,
		keeps: ` Stats\.\w*(Loss|Rate) float64$`,
		except: map[string]string{
			"porous: field Stats.SendBandwidth int64":         "bytes a second, as agreed upon with the peer",
			"reliable: field Stats.PacketLoss float32":        "the reference counts in percent",
			"reliable: field Stats.SentBandwidth float32":     "and in kilobits a second",
			"reliable: field Stats.ReceivedBandwidth float32": "so here",
			"reliable: field Stats.AckedBandwidth float32":    "and here",
		},
	},
}

// unit finds names with a unit of their own.
var unit = regexp.MustCompile(`^(field|imethod) \w+\.\w*(Percent|Millis|Seconds|Kbps|Mbps|Ms)\b`)

// oldName finds names that one way to dial and to listen has replaced.
var oldName = regexp.MustCompile(`^(func|method \([^)]*\)) \w*(DialContext|DialPacket|DialShared|ListenPacketConn|MessageContext|FrameContext)\(`)

// TestAPIRules checks that all packages do the same thing in the same way.
func TestAPIRules(t *testing.T) {
	atRoot(t)
	all := make(map[string][]string)
	for _, pkg := range publicPackages {
		all[strings.TrimPrefix(pkg, module+"/")] = apiOf(t, pkg)
	}
	for name, lines := range all {
		for _, line := range lines {
			require.NotRegexp(t, unit, line, name)
			require.NotRegexp(t, oldName, line, name)
		}
	}
	for _, rule := range apiRules {
		applies, keeps, found, exceptions := regexp.MustCompile(rule.lines), regexp.MustCompile(rule.keeps), 0, 0
		for name, lines := range all {
			for _, line := range lines {
				if !applies.MatchString(line) {
					continue
				}
				found++
				_, excepted := rule.except[name+": "+line]
				if excepted {
					exceptions++
				}
				if excepted == keeps.MatchString(line) {
					t.Errorf("%s: %s: %s (an exception: %v)", name, line, rule.says, excepted)
				}
			}
		}
		require.NotZero(t, found, rule.says)
		require.Len(t, rule.except, exceptions, rule.says)
	}
}
