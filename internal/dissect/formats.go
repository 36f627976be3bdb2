package dissect

import "fmt"

// formats say what is in the datagrams, and when receivers refuse them, for both dissectors.
var formats = map[Protocol]steps{
	Reliable:     reliableFormat,
	Netcode:      netcodeFormat,
	Porous:       {within(porousFormat), check("len <= 1472", "%d bytes are more than the %d of a frame", "len", "1472")},
	Riptide:      packedFormat,
	RiptideNotes: notesFormat,
	Netplay:      frameFormat,
}

// le and be add a number of n bytes, little-endian and big-endian.
func le(name string, at, n int) step {
	return add(name, fmt.Sprint(at), fmt.Sprint(n), fmt.Sprintf("le(%d, %d)", at, n))
}

func be(name string, at, n int) step {
	return add(name, fmt.Sprint(at), fmt.Sprint(n), fmt.Sprintf("be(%d, %d)", at, n))
}

func rest(name, at string) step {
	return steps{raw(name, at, "len-"+at), when("len > "+at, also(", %s", "size(len-"+at+")"))}
}

// docs/reliable.md, section 1.
var reliableFormat = steps{
	let("prefix", "u8(0)"),
	when("prefix == 3", reliableKind("notice"), reliableSize("3"),
		le("sequence", 1, 2), also(": packet %d belongs to no connection", "sequence")).
		or("prefix == 5", reliableKind("hello"), reliableSalute).
		or("prefix == 7", reliableKind("question"), reliableSalute).
		or("prefix == 9", reliableKind("answer"), reliableSalute).
		or("prefix == 11", reliableKind("confirmation"), reliableSalute).
		or("prefix == 13", reliableKind("refusal"), reliableToken(25)).
		or("prefix == 15", reliableKind("goodbye"), reliableToken(73)).
		or("prefix == 17", reliableKind("heard"), reliableToken(9)).
		or("prefix%2 == 1", reliableKind("fragment"), reliableFragment).
		otherwise(reliableKind("packet"), reliablePacket),
}

func reliableKind(kind string) step {
	return steps{say(kind), add("type", "0", "1", `"`+kind+`"`), add("prefix", "0", "1", "prefix")}
}

func reliableSize(n string) step {
	return need("len == "+n, "a datagram of this type has %d bytes, not %d", n, "len")
}

var reliableSalute = steps{
	reliableSize("25"), add("token", "1", "8", "le64(1, 8)"), add("echo", "9", "8", "le64(9, 8)"), add("protocol", "17", "8", "le64(17, 8)"),
	also(" with token %#x", "token"),
}

// reliableToken is a token and perhaps a reason, in a datagram of at most so many bytes.
func reliableToken(most int) step {
	return steps{
		need(fmt.Sprintf("len >= 9 && len <= %d", most), "a datagram of this type has 9 to %d bytes, not %d", fmt.Sprint(most), "len"),
		add("token", "1", "8", "le64(1, 8)"), also(" with token %#x", "token"),
		when("len > 9", raw("reason", "9", "len-9"), also(", %d bytes of reason", "len-9")),
	}
}

var reliablePacket = steps{
	when("len >= 3", le("sequence", 1, 2), also(" %d", "sequence")),
	reliableHeader("0"),
	reliableAcks("0"),
	raw("payload", "size", "len-size"),
	also(", %s", "acks(ack, ack_bits)"),
	when("len == size", also(", no payload")).
		otherwise(also(", %s", "size(len-size)")),
	usual("h == expected", "header in an encoding no sender uses"),
}

// reliableHeader reads a header without adding it: h is its prefix, expected the sender's.
func reliableHeader(at string) steps {
	s := steps{
		need("len-"+at+" >= 3", "header is shorter than 3 bytes"),
		let("h", "u8("+at+")"),
		need("h%2 == 0", "prefix is that of a fragment"),
		let("number", "le("+at+"+1, 2)"),
		let("wide", "2-h/32%2"), // bytes of the ack
		let("size", "3+wide"),
		need("len-"+at+" >= size", "header ends before the ack is complete"),
		let("acked", "le("+at+"+3, wide)"),
		when("wide == 1", let("acked", "(number+65536-acked)%65536")),
		let("set", "0"),
		let("expected", "0"),
	}
	for i := range 4 { // bytes of the ack bits, of which those that are 255 are left out
		bit, scale := 2<<i, 1<<(8*i)
		s = append(s, let("eight", "255"),
			when(fmt.Sprintf("h/%d%%2 == 1", bit),
				need("len-"+at+" > size", "header ends before the ack bits are complete"),
				let("eight", "u8("+at+"+size)"), let("size", "size+1")),
			let("set", fmt.Sprintf("set+eight*%d", scale)),
			when("eight != 255", let("expected", fmt.Sprintf("expected+%d", bit))))
	}
	return append(s, when("(number+65536-acked)%65536 <= 255", let("expected", "expected+32")))
}

// reliableAcks adds what a header acknowledges. The prefix tells if all bits are set.
func reliableAcks(at string) step {
	return steps{
		add("ack", at+"+3", "wide", "acked"),
		when("size == 3+wide", add("ack_bits", at, "1", "set")).
			otherwise(add("ack_bits", at+"+3+wide", "size-3-wide", "set")),
	}
}

var reliableFragment = steps{
	need("len >= 5", "fragment is shorter than 5 bytes"),
	need("prefix == 1", "fragment prefix is not 1"),
	le("sequence", 1, 2),
	le("fragment", 3, 1),
	add("fragments", "4", "1", "u8(4)+1"),
	say("fragment %d of %d of packet %d", "fragment+1", "fragments", "sequence"),
	when("max_fragments < 1 || max_fragments > 256", let("max_fragments", "256")),
	need("fragments <= max_fragments", "fragment count exceeds the maximum"),
	need("fragment < fragments", "fragment id is not below the count"),
	let("size", "0"),
	when("fragment == 0",
		reliableHeader("5"),
		group("header", "5", "size",
			add("header.prefix", "5", "1", "h"), add("header.sequence", "6", "2", "number"), reliableAcks("5")),
		also(", %s", "acks(ack, ack_bits)"),
		need("number == sequence", "fragment 0 has a header with another sequence"),
		need("h == expected", "fragment 0 has a header in an encoding no sender uses"),
	),
	let("left", "len-5-size"),
	raw("data", "5+size", "left"),
	also(", %s", "size(left)"),
	when("fragment_size > 0", // else any is right
		need("left <= fragment_size", "fragment exceeds the fragment size"),
		need("fragment+1 == fragments || left == fragment_size", "fragment is not the last and not full")),
}

// docs/netcode.md. Keys open what is sealed, in this dissector only.
var netcodeFormat = steps{
	let("prefix", "u8(0)"),
	add("type", "0", "1", "prefix%16"),
	when("prefix == 0", netcodeRequest).
		otherwise(
			add("sequence_size", "0", "1", "prefix/16"),
			need("len >= 18", "%s are less than the %d of a packet", "size(len)", "18"),
			need("typ > 0 && typ < 7", "%d is no type of sealed packets", "typ"),
			need("sequence_size >= 1 && sequence_size <= 8", "a sequence of %s, not 1 to 8", "size(sequence_size)"),
			need("len >= 17+sequence_size", "%s are less than sequence and tag", "size(len)"),
			add("sequence", "1", "sequence_size", "le64(1, sequence_size)"),
			let("body", "len-17-sequence_size"),
			raw("sealed", "1+sequence_size", "body"),
			raw("tag", "len-16", "16"),
			say("%s %d", `word("netcode_types", typ)`, "sequence"),
			let("want", "item(typ, 0, 0, 308, 308, 8, 0, 0)"),
			when("typ == 5", also(", %s", "size(body)"),
				need("body >= 1 && body <= 1200", "a payload of %s, not 1 to %d", "size(body)", "1200")).
				otherwise(need("body == want", "a body of %s, not %d", "size(body)", "want")),
			hook("unseal", "typ", "sequence", "1+sequence_size"),
		),
}

var netcodeRequest = steps{
	say("request"),
	need("len == 1078", "a request has %d bytes, not %d", "1078", "len"),
	let("right", `"4e4554434f444520312e303200"`),
	when("hex(1, 13) != right", add("version", "1", "13", "hex(1, 13)")).
		otherwise(add("version", "1", "13", `"NETCODE 1.02"`)),
	need("hex(1, 13) == right", "the version is not NETCODE 1.02"),
	add("protocol_id", "14", "8", "le64(14, 8)"),
	add("expires", "22", "8", "le64(22, 8)"),
	say("request for protocol %#x, token expires %s", "protocol_id", "unix(expires)"),
	raw("nonce", "30", "24"),
	raw("private", "54", "1024"),
}

// docs/porous.md.
var porousFormat = steps{
	le("type", 0, 1),
	need("typ < 8", "%d is no type of frame", "typ"),
	say("%s", `word("porous_types", typ)`),
	when("typ == 6", porousData).
		or("typ == 7", porousAcks).
		otherwise(
			let("want", "item(typ, 11, 5, 1, 1, 3, 3)"),
			need("len == want", "a %s has %s, not %d", `word("porous_types", typ)`, "size(want)", "len"),
			when("typ == 0",
				be("version", 1, 1), add("channels", "2", "1", "u8(2)+1"), be("bandwidth", 3, 4), be("id", 7, 4),
				also(" version %d, %s, id %d", "version", `count(channels, "channel", "channels")`, "id")).
				or("typ == 1", be("id", 1, 4), also(" of id %d", "id")).
				or("typ >= 4", be("ping", 1, 2), also(" %d", "ping")),
		),
}

var porousAcks = steps{
	need("len >= 3", "ends within the number of ids"),
	be("acks", 1, 2),
	also(" of %s", `count(acks, "frame", "frames")`),
	need("len == 3+4*acks", "%s have %s, not %d", `count(acks, "id", "ids")`, "size(3+4*acks)", "len"),
	loop("acks", add("acked", "3+4*i", "4", "be(3+4*i, 4)")),
}

var porousData = steps{
	need("len >= 7", "ends within the header"),
	be("frame", 1, 4),
	be("messages", 5, 2),
	also(" frame %d with %s", "frame", `count(messages, "message", "messages")`),
	let("at", "7"),
	loop("messages", porousMessage),
	check("at == len", "%s left over", "size(len-at)"),
}

var porousMessage = steps{
	porousWhole("len-at >= 5"),
	let("kind", "u8(at)"),
	porousWhole("kind < 3"),
	let("full", "item(kind, 13, 7, 5)"),
	porousWhole("len-at >= full"),
	let("data", "0"),
	when("kind == 0", let("data", "be(at+11, 2)"), porousWhole("len-at >= full+data")),
	group("message", "at", "full+data",
		add("message.type", "at", "1", "kind"),
		add("message.channel", "at+1", "1", "u8(at+1)"),
		add("message.packet", "at+2", "3", "be(at+2, 3)"),
		when("kind < 2", add("message.lead", "at+5", "2", "be(at+5, 2)")),
		when("kind == 0",
			add("message.fragment", "at+7", "2", "be(at+7, 2)"),
			add("message.last_fragment", "at+9", "2", "be(at+9, 2)"),
			add("message.length", "at+11", "2", "data"),
			raw("message.data", "at+full", "data")),
		porousTitle(title, "")),
	when("i < 3", porousTitle(also, "; ")).
		or("i == 3", also("; ...")), // the summary names three
	let("at", "at+full+data"),
}

func porousWhole(cond string) step {
	return need(cond, "message %d of %d is not whole", "i+1", "messages")
}

func porousTitle(say func(string, ...string) step, front string) step {
	return say(front+"%s of packet %d on channel %d", `word("porous_messages", kind)`, "message_packet", "message_channel")
}

// docs/riptide.md. riptideHead adds the length in front of a datagram on a stream,
// in n bytes, and the type, of which the datagrams have a least size.
func riptideHead(n int, typ, least string) step {
	return steps{
		when("stream == 1",
			need(fmt.Sprintf("len >= %d", n), "ends within the length"),
			le("length", 0, n),
			need(fmt.Sprintf("length > 0 && length == len-%d", n), "a length of %d in front of %s", "length", fmt.Sprintf("size(len-%d)", n)),
			hook("skip", fmt.Sprint(n))),
		add("type", "0", "1", typ),
		need("typ < 11", "%d is no type of datagram", "typ"),
		say("%s", `word("riptide_types", typ)`),
		let("least", "item(typ, "+least+")"),
		need("len >= least", "%s are less than the %d of its type", "size(len)", "least"),
	}
}

// packedFormat is that of bits, from the lowest of each byte on.
var packedFormat = steps{
	riptideHead(4, "u8(0)%16", "2, 5, 1, 2, 2, 1, 6, 4, 5, 5, 5"),
	when("typ == 0", hook("varint", "4"), hook("bits", `"payload"`, "at")).
		or("typ == 1", packed("newest", 4, 16, ""), also(" %d", "newest"), packed("ack_bits", 20, 16, ""),
			add("explicit", "4", "1", "bits(36, 1)"),
			when("explicit == 1",
				need("len >= 7", "%s are less than the 7 of an ack with an explicit id", "size(len)"),
				packed("acked", 37, 16, ""), also(", and of %d", "acked"))).
		or("typ == 2", hook("bits", `"data"`, "4")).
		or("typ == 3", packed("reject", 4, 8, "riptide_rejects"),
			also(": %s", `word("riptide_rejects", reject)`), hook("bits", `"data"`, "12")).
		or("typ == 4", packedHeartbeat).
		or("typ == 5", packedDisconnect).
		or("typ == 6", packed("newest", 4, 16, ""), packed("ack_bits", 20, 8, ""),
			packed("sequence", 28, 16, ""), also(" %d", "sequence"), hook("bits", `"payload"`, "44")).
		or("typ == 7", packed("sequence", 4, 16, ""), also(" %d", "sequence"),
			hook("varint", "20"), hook("bits", `"payload"`, "at")).
		otherwise(packed("sequence", 4, 16, ""), packed("client", 20, 16, ""), also(" %d, client %d", "sequence", "client")),
}

// packedHeartbeat tells the sender by the size.
var packedHeartbeat = steps{
	when("len >= 4",
		add("from", "0", "1", `"client"`), packed("ping", 4, 8, ""), also(" %d of the client", "ping"),
		add("rtt", "1", "3", "bits(12, 16)"),
		when("rtt+1 != 0", also(", round trip %d ms", "rtt"))).
		otherwise(add("from", "0", "1", `"server"`), packed("ping", 4, 8, ""), also(" %d of the server", "ping")),
}

var packedDisconnect = steps{
	when("len == 1", add("from", "0", "1", `"client"`), also(" by the client")).
		otherwise(
			add("from", "0", "1", `"server"`),
			let("reason", "bits(4, 8)"),
			when("len == 2 && reason == 80", let("reason", "5")), // written past the packer of bits by 2.1.0 to 2.2.0
			add("disconnect", "0", "2", "reason"),
			also(": %s", `word("riptide_disconnects", disconnect)`),
			hook("bits", `"data"`, "12")),
}

// notesFormat is that of whole bytes.
var notesFormat = steps{
	riptideHead(2, "u8(0)", "3, 5, 1, 2, 2, 2, 3, 5, 5, 5, 5"),
	when("typ >= 7", le("sequence", 1, 2), also(" %d", "sequence")),
	when("typ == 0 || typ == 6", notesMessage(1)).
		or("typ == 1", le("newest", 1, 2), also(" %d", "newest"), le("ack_bits", 3, 2)).
		or("typ == 2", rest("data", "1")).
		or("typ == 3", packed("reject", 8, 8, "riptide_notes_rejects"),
			also(": %s", `word("riptide_notes_rejects", reject)`), rest("data", "2")).
		or("typ == 4", le("ping", 1, 1), also(" %d", "ping"), when("len >= 4", le("rtt", 2, 2))).
		or("typ == 5", le("disconnect", 1, 1), also(": %s", `word("riptide_disconnects", disconnect)`), rest("data", "2")).
		or("typ == 7", notesMessage(3)).
		otherwise(le("client", 3, 2), also(", client %d", "client")),
}

func notesMessage(at int) step {
	return steps{le("message", at, 2), also(", message %d", "message"), rest("payload", fmt.Sprint(at+2))}
}

// docs/netplay.md. frameFormat is one frame.
var frameFormat = steps{
	when("len >= 2", be("length", 0, 2)),
	need("len >= 2", "ends within the length"),
	let("n", "2+length"),
	need("n >= 5", "a length of %d, less than 3", "length"),
	need("n <= len", "the frame has %s, of which %d are here", "size(n)", "len"),
	be("options", 2, 1),
	add("compressed", "2", "1", "options%2"),
	add("encrypted", "2", "1", "options/2%2"),
	be("message", 3, 2),
	raw("payload", "5", "n-5"),
	say("message of type %d, %s", "message", "size(n-5)"),
	check("n == len", "%s behind the frame", "size(len-n)"),
	usual("encrypted == 0", "with the flag that says encrypted, which has no meaning"),
	usual("options < 4", "with reserved options"),
	when("compressed == 1 && n > 5", hook("expand", "5", "n-5")),
}
