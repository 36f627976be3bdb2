package simnet

import (
	"math"
	"slices"
	"time"
)

// A Preset describes both directions of an access network by figures that were
// published of it, and by links that have them. Networks of one kind differ by
// more than the kinds do: a preset is a common case, not a model of any one.
type Preset struct {
	// Name is the short name that LookupPreset knows, such as "4g", and About
	// says in a few words what it stands for.
	Name, About string

	// RTT is the median round-trip time and RTT90 that which nine of ten round
	// trips don't exceed, for small datagrams far apart: those that follow each
	// other closely also wait for each other, since order is kept.
	RTT, RTT90 time.Duration
	// Loss is the share of datagrams lost in each direction, from 0 to 1, and
	// Burst how many of them are lost in a row on average.
	Loss, Burst float64
	// Down and Up are the rates in bits per second to and from the user.
	Down, Up int64

	// Source names what published the figures, with a full stop and those of
	// them that nobody did: they are our choice, as the queues are.
	Source string
}

// presetQueue is how much of its rate the queue of a preset's link holds, but at
// least DefaultQueueBytes.
const presetQueue = 250 * time.Millisecond

// The figures. Each Source says which were published.
var presets = []Preset{
	{
		Name: "cable", About: "cable at home",
		RTT: 32 * time.Millisecond, RTT90: 40 * time.Millisecond, Loss: 0.001, Burst: 2, Down: 5e6, Up: 1e6,
		Source: "RTT: FCC, Measuring Broadband America 2014, average of cable; rates: WebPageTest, profile Cable. RTT90 and loss are chosen.",
	},
	{
		Name: "dsl", About: "DSL at home",
		RTT: 49 * time.Millisecond, RTT90: 56 * time.Millisecond, Loss: 0.001, Burst: 2, Down: 1_500_000, Up: 384_000,
		Source: "RTT: FCC, Measuring Broadband America 2014, average of DSL; rates: WebPageTest, profile DSL. RTT90 and loss are chosen.",
	},
	{
		Name: "wifi", About: "a crowded 802.11 network, its hop alone",
		RTT: 3 * time.Millisecond, RTT90: 20 * time.Millisecond, Loss: 0.005, Burst: 3, Down: 50e6, Up: 50e6,
		Source: "RTT and RTT90: Sui et al., Characterizing and Improving WiFi Latency in Large-Scale Operational Networks, MobiSys 2016, 47,000 devices. Rates and loss are chosen.",
	},
	{
		Name: "3g", About: "a phone on UMTS and HSPA",
		RTT: 63500 * time.Microsecond, RTT90: 85 * time.Millisecond, Loss: 0.005, Burst: 4, Down: 5_900_000, Up: 1_600_000,
		Source: "RTT and rates: Ofcom, Measuring mobile broadband performance in the UK, fourth quarter of 2014, averages of 3G. RTT90 and loss are chosen.",
	},
	{
		Name: "4g", About: "a phone on LTE",
		RTT: 53100 * time.Microsecond, RTT90: 70 * time.Millisecond, Loss: 0.002, Burst: 3, Down: 14_700_000, Up: 13_600_000,
		Source: "RTT and rates: Ofcom, Measuring mobile broadband performance in the UK, fourth quarter of 2014, averages of 4G. RTT90 and loss are chosen.",
	},
	{
		Name: "5g", About: "a phone on 5G",
		RTT: 51 * time.Millisecond, RTT90: 65 * time.Millisecond, Loss: 0.001, Burst: 3, Down: 166_130_000, Up: 21_080_000,
		Source: "RTT: Ookla, T-Mobile US in the second quarter of 2023; rates: Ookla, worldwide medians of the third quarter of 2021. RTT90 and loss are chosen.",
	},
	{
		Name: "starlink", About: "satellites in low orbit",
		RTT: 50 * time.Millisecond, RTT90: 69 * time.Millisecond, Loss: 0.01, Burst: 5, Down: 87_250_000, Up: 13_540_000,
		Source: "RTT and RTT90: Michel et al., A First Look at Starlink Performance, IMC 2022, from median and quartiles; rates: Ookla, third quarter of 2021. Loss is chosen.",
	},
	{
		Name: "satellite", About: "a geostationary satellite",
		RTT: 629 * time.Millisecond, RTT90: 660 * time.Millisecond, Loss: 0.005, Burst: 4, Down: 18_750_000, Up: 2_960_000,
		Source: "RTT and rates: Ookla, Viasat in the third quarter of 2021. RTT90 and loss are chosen.",
	},
	{
		Name: "bad", About: "hardly usable",
		RTT: time.Second, RTT90: time.Second, Loss: 0.1, Burst: 1, Down: 1e6, Up: 1e6,
		Source: "Network Link Conditioner, profile Very Bad Network: 1 Mbit/s, 10 % loss, 500 ms each way.",
	},
}

// Presets returns all presets, in an order that stays.
func Presets() []Preset { return slices.Clone(presets) }

// LookupPreset returns the preset of a name.
func LookupPreset(name string) (Preset, bool) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return presets[i], true
}

// Links returns links that have the figures of a preset: up from the user, and
// down to the user. They keep the order of datagrams, as these networks do.
func (p Preset) Links() (up, down Link) {
	one := Link{Ordered: true}
	p.delay(&one)
	if p.Burst > 1 {
		one.Burst = Bursts(p.Loss, p.Burst)
	} else {
		one.Loss = p.Loss
	}
	up, down = one, one
	up.Bandwidth, down.Bandwidth = p.Up, p.Down
	up.QueueBytes, down.QueueBytes = queueFor(p.Up), queueFor(p.Down)
	return up, down
}

// Facts about distributions, to find the delay of each direction from
// percentiles of the round trip, which is the sum of two.
const (
	// normal90 is the 90th percentile of the standard normal distribution.
	normal90 = 1.2816
	// sum50 and sum90 are median and 90th percentile of the sum of two LongTails
	// with a Jitter of 1, by simulation.
	sum50, sum90 = 3.51, 24.8
)

// delay sets what makes a round trip of RTT and RTT90. A 90th percentile far
// from the median needs a long tail.
func (p Preset) delay(l *Link) {
	spread := float64(p.RTT90 - p.RTT)
	if p.RTT90 > 2*p.RTT {
		l.Distribution = LongTail
		l.Jitter = time.Duration(spread / (sum90 - sum50))
		l.Latency = max(0, (p.RTT-time.Duration(sum50*float64(l.Jitter)))/2)
		return
	}
	l.Distribution = Normal
	l.Jitter = time.Duration(spread / normal90 / math.Sqrt2)
	l.Latency = p.RTT / 2
}

func queueFor(rate int64) int {
	return max(DefaultQueueBytes, int(float64(rate)/8*presetQueue.Seconds()))
}
