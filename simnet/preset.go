package simnet

import (
	"math"
	"time"
)

// A Preset describes an access network by figures that were published of it, and
// by links that have these figures. Networks of a kind differ more than the kinds
// do: a preset is a common case.
type Preset struct {
	// Name is a short name, such as "4g". About is a description in a few words.
	Name, About string

	// RTT is the median round-trip time and RTT90 its 90th percentile, for small
	// datagrams far apart. Datagrams that follow each other closely also wait for
	// each other, because order is kept.
	RTT, RTT90 time.Duration
	// Loss is the share of datagrams lost in each direction, from 0 to 1, and
	// Burst how many of them are lost in a row on average.
	Loss, Burst float64
	// Up is the link from the user, Down the link to the user. Their Bandwidth is
	// a published figure, too; the queues are our choice.
	Up, Down Link

	// Source names the publications, and the figures that are our choice.
	Source string
}

// Presets returns all presets, in an order that stays.
func Presets() []Preset {
	return []Preset{
		preset("cable", "cable at home", 32*time.Millisecond, 40*time.Millisecond, 0.001, 2, 5e6, 1e6,
			"RTT: FCC, Measuring Broadband America 2014, average of cable; rates: WebPageTest, profile Cable. RTT90 and loss are chosen."),
		preset("dsl", "DSL at home", 49*time.Millisecond, 56*time.Millisecond, 0.001, 2, 1_500_000, 384_000,
			"RTT: FCC, Measuring Broadband America 2014, average of DSL; rates: WebPageTest, profile DSL. RTT90 and loss are chosen."),
		preset("wifi", "a crowded 802.11 network, its hop alone", 3*time.Millisecond, 20*time.Millisecond, 0.005, 3, 50e6, 50e6,
			"RTT and RTT90: Sui et al., Characterizing and Improving WiFi Latency in Large-Scale Operational Networks, MobiSys 2016, 47,000 devices. Rates and loss are chosen."),
		preset("3g", "a phone on UMTS and HSPA", 63500*time.Microsecond, 85*time.Millisecond, 0.005, 4, 5_900_000, 1_600_000,
			"RTT and rates: Ofcom, Measuring mobile broadband performance in the UK, fourth quarter of 2014, averages of 3G. RTT90 and loss are chosen."),
		preset("4g", "a phone on LTE", 53100*time.Microsecond, 70*time.Millisecond, 0.002, 3, 14_700_000, 13_600_000,
			"RTT and rates: Ofcom, Measuring mobile broadband performance in the UK, fourth quarter of 2014, averages of 4G. RTT90 and loss are chosen."),
		preset("5g", "a phone on 5G", 51*time.Millisecond, 65*time.Millisecond, 0.001, 3, 166_130_000, 21_080_000,
			"RTT: Ookla, T-Mobile US in the second quarter of 2023; rates: Ookla, worldwide medians of the third quarter of 2021. RTT90 and loss are chosen."),
		preset("starlink", "satellites in low orbit", 50*time.Millisecond, 69*time.Millisecond, 0.01, 5, 87_250_000, 13_540_000,
			"RTT and RTT90: Michel et al., A First Look at Starlink Performance, IMC 2022, from median and quartiles; rates: Ookla, third quarter of 2021. Loss is chosen."),
		preset("satellite", "a geostationary satellite", 629*time.Millisecond, 660*time.Millisecond, 0.005, 4, 18_750_000, 2_960_000,
			"RTT and rates: Ookla, Viasat in the third quarter of 2021. RTT90 and loss are chosen."),
		preset("bad", "hardly usable", time.Second, time.Second, 0.1, 1, 1e6, 1e6,
			"Network Link Conditioner, profile Very Bad Network: 1 Mbit/s, 10 % loss, 500 ms each way."),
	}
}

func preset(name, about string, rtt, rtt90 time.Duration, loss, burst float64, down, up int64, source string) Preset {
	p := Preset{Name: name, About: about, RTT: rtt, RTT90: rtt90, Loss: loss, Burst: burst, Source: source}
	l := Link{Ordered: true}
	p.delay(&l)
	if burst > 1 {
		l.Burst = Bursts(loss, burst)
	} else {
		l.Loss = loss
	}
	p.Up, p.Down = l, l
	p.Up.Bandwidth, p.Down.Bandwidth = up, down
	p.Up.QueueBytes, p.Down.QueueBytes = queueFor(up), queueFor(down)
	return p
}

// Facts about distributions, to split percentiles of a round trip into two directions.
const (
	// normal90 is the 90th percentile of the standard normal distribution.
	normal90 = 1.2816
	// sum50 and sum90 are median and 90th percentile of the sum of two long tails
	// with a Jitter of 1, by simulation.
	sum50, sum90 = 3.51, 24.8
)

// delay fits RTT and RTT90. A 90th percentile far from the median needs a long tail.
func (p Preset) delay(l *Link) {
	spread := float64(p.RTT90 - p.RTT)
	if p.RTT90 > 2*p.RTT {
		l.Distribution = "long-tail"
		l.Jitter = time.Duration(spread / (sum90 - sum50))
		l.Latency = max(0, (p.RTT-time.Duration(sum50*float64(l.Jitter)))/2)
		return
	}
	l.Distribution = "normal"
	l.Jitter = time.Duration(spread / normal90 / math.Sqrt2)
	l.Latency = p.RTT / 2
}

// queueFor returns the queue of a preset's link: 250 ms, and at least the default.
func queueFor(rate int64) int { return max(queueBytes, int(float64(rate)/8*0.25)) }
