package dissect

// A spec describes a field to Wireshark and to people.
type spec struct {
	name string // behind that of the family
	kind string // of Wireshark's ProtoField
	text string
	// names is "hex" for a number that is better read in hexadecimal digits, a
	// list of names for the values, or "unix" for a time.
	names string
}

// A family is the fields of a protocol and its variants.
type family struct {
	name   string
	fields []spec
}

// families are the one table of fields. The last of netcode are sealed, hidden from Wireshark.
var families = []family{
	{"reliable", []spec{
		{"type", "string", "Type", ""},
		{"prefix", "uint8", "Prefix", "hex"},
		{"sequence", "uint16", "Sequence", ""},
		{"ack", "uint16", "Ack", ""},
		{"ack_bits", "uint32", "Ack bits", "hex"},
		{"payload", "bytes", "Payload", ""},
		{"fragment", "uint8", "Fragment", ""},
		{"fragments", "uint16", "Fragments", ""},
		{"header", "none", "Header of the packet", ""},
		{"header.prefix", "uint8", "Prefix", "hex"},
		{"header.sequence", "uint16", "Sequence", ""},
		{"data", "bytes", "Data", ""},
		{"token", "uint64", "Token", "hex"},
		{"echo", "uint64", "Token of the receiver", "hex"},
		{"protocol", "uint64", "Protocol", "hex"},
		{"reason", "bytes", "Reason", ""},
	}},
	{"netcode", []spec{
		{"type", "uint8", "Type", "netcode_types"},
		{"sequence_size", "uint8", "Size of the sequence", ""},
		{"sequence", "uint64", "Sequence", ""},
		{"version", "string", "Version", ""},
		{"protocol_id", "uint64", "Protocol id", "hex"},
		{"expires", "uint64", "Token expires (seconds since 1970)", "unix"},
		{"nonce", "bytes", "Nonce of the token", ""},
		{"private", "bytes", "Private part of the token, sealed", ""},
		{"sealed", "bytes", "Sealed body", ""},
		{"tag", "bytes", "Tag", ""},
		{"from", "string", "From", ""},
		{"challenge", "uint64", "Challenge", ""},
		{"challenge_token", "bytes", "Challenge token, sealed", ""},
		{"index", "uint32", "Index", ""},
		{"slots", "uint32", "Slots", ""},
		{"payload", "bytes", "Payload", ""},
	}},
	{"porous", []spec{
		{"type", "uint8", "Type", "porous_types"},
		{"version", "uint8", "Version", ""},
		{"channels", "uint16", "Channels", ""},
		{"bandwidth", "uint32", "Most to receive (bytes/s)", ""},
		{"id", "uint32", "Id of the request", ""},
		{"ping", "uint16", "Ping", ""},
		{"frame", "uint32", "Frame", ""},
		{"messages", "uint16", "Messages", ""},
		{"message", "none", "Message", ""},
		{"message.type", "uint8", "Type", "porous_messages"},
		{"message.channel", "uint8", "Channel", ""},
		{"message.packet", "uint24", "Packet", ""},
		{"message.lead", "uint16", "Lead", ""},
		{"message.fragment", "uint16", "Fragment", ""},
		{"message.last_fragment", "uint16", "Last fragment", ""},
		{"message.length", "uint16", "Length", ""},
		{"message.data", "bytes", "Data", ""},
		{"acks", "uint16", "Acknowledged frames", ""},
		{"acked", "uint32", "Frame", ""},
	}},
	{"riptide", []spec{
		{"length", "int32", "Length", ""},
		{"type", "uint8", "Type", "riptide_types"},
		{"from", "string", "From", ""},
		{"newest", "uint16", "Newest received", ""},
		{"ack_bits", "uint16", "Ack bits", "hex"},
		{"explicit", "bool", "Explicit id", ""},
		{"acked", "uint16", "Acknowledged id", ""},
		{"reject", "uint8", "Reason", ""},
		{"disconnect", "uint8", "Reason", "riptide_disconnects"},
		{"ping", "uint8", "Ping", ""},
		{"rtt", "int16", "Round trip (ms)", ""},
		{"sequence", "uint16", "Sequence", ""},
		{"client", "uint16", "Client", ""},
		{"message", "uint16", "Message id", ""},
		{"payload", "bytes", "Payload", ""},
		{"data", "bytes", "Data", ""},
	}},
	{"netplay", []spec{
		{"length", "uint16", "Length", ""},
		{"options", "uint8", "Options", "hex"},
		{"compressed", "bool", "Compressed", ""},
		{"encrypted", "bool", "Encrypted", ""},
		{"message", "uint16", "Type of the message", ""},
		{"payload", "bytes", "Payload", ""},
		{"body", "bytes", "Body, expanded", ""},
	}},
}

// lists are names of numbers, from 0 on.
var lists = map[string][]string{
	"netcode_types":   {"request", "denied", "challenge", "response", "keep_alive", "payload", "disconnect"},
	"porous_types":    {"connect", "connect_ack", "disconnect", "disconnect_ack", "ping", "ping_ack", "data", "data_ack"},
	"porous_messages": {"fragment", "sentinel", "window_ack"},
	"riptide_types": {"unreliable", "ack", "connect", "reject", "heartbeat", "disconnect", "notify", "reliable",
		"welcome", "client_connected", "client_disconnected"},
	"riptide_rejects":       {"no connection", "already connected", "server full", "rejected", "custom"},
	"riptide_notes_rejects": {"no connection", "already connected", "pending", "server full", "rejected", "custom"},
	"riptide_disconnects": {"never connected", "connection rejected", "transport error", "timed out", "kicked",
		"server stopped", "disconnected", "poor connection"},
}

// specs are the fields by their names, with that of the family.
var specs = func() map[string]spec {
	m := make(map[string]spec)
	for _, f := range families {
		for _, s := range f.fields {
			m[f.name+"."+s.name] = s
		}
	}
	return m
}()
