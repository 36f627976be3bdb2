-- A dissector for Wireshark and tshark, from version 4.0 on: the wire formats of
-- reliable (and of volley), netcode 1.02, porous, riptide and netplay.
--
-- Put this file into the folder of personal Lua plugins (Help, About Wireshark,
-- Folders), or run "tshark -X lua_script:volley.lua". Nothing in these formats
-- names them, so say which ports are of which: in the preferences of each
-- protocol, or by "Decode As". Filters are such as
--
--   volley.reliable.sequence == 7
--   volley.netcode.type == "challenge"
--   volley.porous.malformed
--
-- What is found, its order, and the words for what is malformed are those of
-- "volley decode", with which this file is tested.

set_plugin_info({
	version = "1.0",
	description = "reliable, netcode, porous, riptide and netplay",
	repository = "volley",
})

local FORMAT = string.format
local TCP = 2 -- as pinfo.port_type

-- The names of numbers.

local NETCODE_TYPES = { [0] = "request", "denied", "challenge", "response", "keep_alive", "payload", "disconnect" }
local POROUS_TYPES =
	{ [0] = "connect", "connect_ack", "disconnect", "disconnect_ack", "ping", "ping_ack", "data", "data_ack" }
local POROUS_MESSAGES = { [0] = "fragment", "sentinel", "window_ack" }
local RIPTIDE_TYPES = {
	[0] = "unreliable", "ack", "connect", "reject", "heartbeat", "disconnect", "notify", "reliable", "welcome",
	"client_connected", "client_disconnected",
}
local RIPTIDE_REJECTS = { [0] = "no connection", "already connected", "server full", "rejected", "custom" }
local NOTES_REJECTS = { [0] = "no connection", "already connected", "pending", "server full", "rejected", "custom" }
local RIPTIDE_DISCONNECTS = {
	[0] = "never connected", "connection rejected", "transport error", "timed out", "kicked", "server stopped",
	"disconnected", "poor connection",
}

-- Protocols and their fields.

local reliable = Proto("volley.reliable", "Volley: reliable")
local netcode = Proto("volley.netcode", "Volley: netcode 1.02")
local porous = Proto("volley.porous", "Volley: porous")
local riptide = Proto("volley.riptide", "Volley: riptide")
local riptide_notes = Proto("volley.riptide_notes", "Volley: riptide, layout of the notes")
local netplay = Proto("volley.netplay", "Volley: netplay")
local netplay_v4 = Proto("volley.netplay_v4", "Volley: netplay, dialect V4")

-- F has the fields of a family by their names, X its two kinds of remarks.
local F, X = {}, {}

local function family(name, proto, fields)
	local list = {}
	F[name] = {}
	for field, make in pairs(fields) do
		local f = make("volley." .. name .. "." .. field)
		F[name][field] = f
		list[#list + 1] = f
	end
	proto.fields = list
	X[name] = {
		malformed = ProtoExpert.new("volley." .. name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
		note = ProtoExpert.new("volley." .. name .. ".note", "Unusual", expert.group.PROTOCOL, expert.severity.NOTE),
	}
	proto.experts = { X[name].malformed, X[name].note }
end

-- These make functions that make a field of a name.
local function number(kind, label, base_of, names)
	return function(name) return ProtoField[kind](name, label, base_of or base.DEC, names) end
end
local function plain(kind, label)
	return function(name) return ProtoField[kind](name, label) end
end

family("reliable", reliable, {
	["type"] = plain("string", "Type"),
	["prefix"] = number("uint8", "Prefix", base.HEX),
	["sequence"] = number("uint16", "Sequence"),
	["ack"] = number("uint16", "Ack"),
	["ack_bits"] = number("uint32", "Ack bits", base.HEX),
	["payload"] = plain("bytes", "Payload"),
	["fragment"] = number("uint8", "Fragment"),
	["fragments"] = number("uint16", "Fragments"),
	["header"] = plain("none", "Header of the packet"),
	["header.prefix"] = number("uint8", "Prefix", base.HEX),
	["header.sequence"] = number("uint16", "Sequence"),
	["data"] = plain("bytes", "Data"),
	["token"] = number("uint64", "Token", base.HEX),
})

family("netcode", netcode, {
	["type"] = number("uint8", "Type", base.DEC, NETCODE_TYPES),
	["sequence_size"] = number("uint8", "Size of the sequence"),
	["sequence"] = number("uint64", "Sequence"),
	["version"] = plain("string", "Version"),
	["protocol_id"] = number("uint64", "Protocol id", base.HEX),
	["expires"] = number("uint64", "Token expires (seconds since 1970)"),
	["nonce"] = plain("bytes", "Nonce of the token"),
	["private"] = plain("bytes", "Private part of the token, sealed"),
	["sealed"] = plain("bytes", "Sealed body"),
	["tag"] = plain("bytes", "Tag"),
})

family("porous", porous, {
	["type"] = number("uint8", "Type", base.DEC, POROUS_TYPES),
	["version"] = number("uint8", "Version"),
	["channels"] = number("uint16", "Channels"),
	["bandwidth"] = number("uint32", "Most to receive (bytes/s)"),
	["id"] = number("uint32", "Id of the request"),
	["ping"] = number("uint16", "Ping"),
	["frame"] = number("uint32", "Frame"),
	["messages"] = number("uint16", "Messages"),
	["message"] = plain("none", "Message"),
	["message.type"] = number("uint8", "Type", base.DEC, POROUS_MESSAGES),
	["message.channel"] = number("uint8", "Channel"),
	["message.packet"] = number("uint24", "Packet"),
	["message.lead"] = number("uint16", "Lead"),
	["message.fragment"] = number("uint16", "Fragment"),
	["message.last_fragment"] = number("uint16", "Last fragment"),
	["message.length"] = number("uint16", "Length"),
	["message.data"] = plain("bytes", "Data"),
	["acks"] = number("uint16", "Acknowledged frames"),
	["acked"] = number("uint32", "Frame"),
})

family("riptide", riptide, {
	["length"] = number("int32", "Length"),
	["type"] = number("uint8", "Type", base.DEC, RIPTIDE_TYPES),
	["from"] = plain("string", "From"),
	["newest"] = number("uint16", "Newest received"),
	["ack_bits"] = number("uint16", "Ack bits", base.HEX),
	["explicit"] = plain("bool", "Explicit id"),
	["acked"] = number("uint16", "Acknowledged id"),
	["reject"] = number("uint8", "Reason"),
	["disconnect"] = number("uint8", "Reason", base.DEC, RIPTIDE_DISCONNECTS),
	["ping"] = number("uint8", "Ping"),
	["rtt"] = number("int16", "Round trip (ms)"),
	["sequence"] = number("uint16", "Sequence"),
	["client"] = number("uint16", "Client"),
	["message"] = number("uint16", "Message id"),
	["payload"] = plain("bytes", "Payload"),
	["data"] = plain("bytes", "Data"),
})

family("netplay", netplay, {
	["chunk"] = number("uint8", "Header of the chunk", base.HEX),
	["length"] = number("uint16", "Length"),
	["options"] = number("uint8", "Options", base.HEX),
	["compressed"] = plain("bool", "Compressed"),
	["encrypted"] = plain("bool", "Encrypted"),
	["message"] = number("uint16", "Type of the message"),
	["payload"] = plain("bytes", "Payload"),
	["body"] = plain("bytes", "Body, expanded"),
})

-- A decoder collects what is found in a datagram. Its place is the bytes that
-- the numbers of add count in.

local Decoder = {}
Decoder.__index = Decoder

local function decoder(name, title, proto, tvb, pinfo, root)
	pinfo.cols.protocol = title
	local d = setmetatable({ family = name, fields = F[name], tvb = tvb, place = tvb, len = tvb:len(), pinfo = pinfo }, Decoder)
	d.tree = root:add(proto, tvb())
	return d
end

-- add adds a field of n bytes at off. Without a value it is the bytes.
function Decoder:add(name, off, n, value, tree)
	tree = tree or self.tree
	if value == nil then
		return tree:add(self.fields[name], self.place(off, n))
	end
	return tree:add(self.fields[name], self.place(off, n), value)
end

function Decoder:bytes(name, off, n)
	if n > 0 then self:add(name, off, n) end
end

function Decoder:byte(off) return self.place(off, 1):uint() end
function Decoder:le16(off) return self.place(off, 2):le_uint() end
function Decoder:be16(off) return self.place(off, 2):uint() end
function Decoder:be32(off) return self.place(off, 4):uint() end

function Decoder:problem(format, ...)
	self.bad = self.bad or FORMAT(format, ...)
end

function Decoder:say(format, ...) self.summary = FORMAT(format, ...) end
function Decoder:also(format, ...) self.summary = (self.summary or "") .. FORMAT(format, ...) end

-- finish writes the summary and the remarks.
function Decoder:finish()
	local text = self.summary or ""
	if self.bad then
		self.tree:add_proto_expert_info(X[self.family].malformed, self.bad)
		text = text .. (self.summary and ", " or "") .. "malformed: " .. self.bad
	elseif self.note then
		self.tree:add_proto_expert_info(X[self.family].note, self.note)
		text = text .. ", " .. self.note
	end
	self.tree:append_text(": " .. text)
	if self.pinfo.number == Decoder.streaming then -- not the first one in a segment of TCP
		self.pinfo.cols.info:append("; " .. text)
	else
		self.pinfo.cols.info = text
	end
	if self.pinfo.port_type == TCP then Decoder.streaming = self.pinfo.number end
	return self.tvb:len()
end

local function count(n, one, many)
	if n == 1 then return "1 " .. one end
	return FORMAT("%d %s", n, many)
end

local function size(n) return count(n, "byte", "bytes") end

-- hex formats a number of 64 bits.
local function hex(n) return "0x" .. n:tohex():gsub("^0+(%x)", "%1") end

-- made returns bytes that are in no place of the packet, of a string of
-- hexadecimal digits, as a page of their own.
local function made(digits, name) return ByteArray.new(digits):tvb(name) end

-- reliable: docs/reliable.md, section 1.

local RELIABLE_KINDS = { [3] = "notice", [5] = "question", [7] = "answer" }

-- header reads the header of a regular packet at off, and returns it, or why it
-- cannot be read.
local function header(d, off)
	local left = d.len - off
	if left < 3 then return nil, "header is shorter than 3 bytes" end
	local prefix = d:byte(off)
	if prefix % 2 == 1 then return nil, "prefix is that of a fragment" end
	local h = { prefix = prefix, sequence = d:le16(off + 1), short = math.floor(prefix / 32) % 2 == 1 }
	h.ack_size = h.short and 1 or 2
	h.size = 3 + h.ack_size
	if left < h.size then return nil, "header ends before the ack is complete" end
	if h.short then
		h.ack = (h.sequence - d:byte(off + 3)) % 65536
	else
		h.ack = d:le16(off + 3)
	end
	h.bits, h.expected = 0, 0 -- the prefix that a sender would have written
	for i = 0, 3 do
		local bits = 255
		if math.floor(prefix / 2 ^ (i + 1)) % 2 == 1 then
			if left <= h.size then return nil, "header ends before the ack bits are complete" end
			bits = d:byte(off + h.size)
			h.size = h.size + 1
		end
		h.bits = h.bits + bits * 256 ^ i
		if bits ~= 255 then h.expected = h.expected + 2 ^ (i + 1) end
	end
	if (h.sequence - h.ack) % 65536 <= 255 then h.expected = h.expected + 32 end
	return h
end

local function acks(d, h, off, tree)
	d:add("ack", off + 3, h.ack_size, h.ack, tree)
	local from, n = off + 3 + h.ack_size, h.size - 3 - h.ack_size
	if n == 0 then -- all of them are set, which the prefix says
		from, n = off, 1
	end
	d:add("ack_bits", from, n, h.bits, tree)
end

local function ack_text(h)
	if h.ack == 65535 and h.bits == 0 then return "has heard nothing" end
	local n, bits = 0, h.bits
	while bits > 0 do
		n = n + bits % 2
		bits = math.floor(bits / 2)
	end
	return FORMAT("ack %d, %d of 32 received", h.ack, n)
end

local function reliable_packet(d)
	local h, why = header(d, 0)
	if not h then
		if d.len >= 3 then
			d:add("sequence", 1, 2, d:le16(1))
			d:also(" %d", d:le16(1))
		end
		d:problem("%s", why)
		return
	end
	d:add("sequence", 1, 2, h.sequence)
	acks(d, h, 0)
	d:bytes("payload", h.size, d.len - h.size)
	d:also(" %d, %s, %s", h.sequence, ack_text(h), d.len == h.size and "no payload" or size(d.len - h.size))
	if h.prefix ~= h.expected then d.note = "header in an encoding no sender uses" end
end

local function reliable_fragment(d)
	if d.len < 5 then
		d:problem("fragment is shorter than 5 bytes")
		return
	end
	if d:byte(0) ~= 1 then
		d:problem("fragment prefix is not 1")
		return
	end
	local sequence, id, n = d:le16(1), d:byte(3), d:byte(4) + 1
	d:add("sequence", 1, 2, sequence)
	d:add("fragment", 3, 1, id)
	d:add("fragments", 4, 1, n)
	d:say("fragment %d of %d of packet %d", id + 1, n, sequence)
	local most = reliable.prefs.max_fragments
	if most < 1 or most > 256 then most = 256 end
	if n > most then
		d:problem("fragment count exceeds the maximum")
		return
	end
	if id >= n then
		d:problem("fragment id is not below the count")
		return
	end
	local start = 5
	if id == 0 then
		local h, why = header(d, 5)
		if not h then
			d:problem("%s", why)
			return
		end
		local tree = d:add("header", 5, h.size)
		d:add("header.prefix", 5, 1, h.prefix, tree)
		d:add("header.sequence", 6, 2, h.sequence, tree)
		acks(d, h, 5, tree)
		d:also(", %s", ack_text(h))
		if h.sequence ~= sequence then
			d:problem("fragment 0 has a header with another sequence")
			return
		end
		if h.prefix ~= h.expected then
			d:problem("fragment 0 has a header in an encoding no sender uses")
			return
		end
		start = 5 + h.size
	end
	local left = d.len - start
	d:bytes("data", start, left)
	d:also(", %s", size(left))
	local full = reliable.prefs.fragment_size
	if full > 0 and left > full then
		d:problem("fragment exceeds the fragment size")
	elseif full > 0 and id + 1 < n and left ~= full then
		d:problem("fragment is not the last and not full")
	end
end

local function reliable_notice(d, kind)
	local want = kind == "notice" and 3 or 9
	if d.len ~= want then
		d:problem("a datagram of this type has %d bytes, not %d", want, d.len)
		return
	end
	if kind == "notice" then
		d:add("sequence", 1, 2, d:le16(1))
		d:also(": packet %d belongs to no connection", d:le16(1))
		return
	end
	local token = d.place(1, 8):le_uint64()
	d:add("token", 1, 8, token)
	d:also(" with token %s", hex(token))
end

function reliable.dissector(tvb, pinfo, root)
	if tvb:len() == 0 then return 0 end
	local d = decoder("reliable", "reliable", reliable, tvb, pinfo, root)
	local prefix = d:byte(0)
	local kind = RELIABLE_KINDS[prefix] or (prefix % 2 == 1 and "fragment" or "packet")
	d:say("%s", kind)
	d:add("type", 0, 1, kind)
	d:add("prefix", 0, 1, prefix)
	if kind == "packet" then
		reliable_packet(d)
	elseif kind == "fragment" then
		reliable_fragment(d)
	else
		reliable_notice(d, kind)
	end
	return d:finish()
end

-- netcode: docs/netcode.md. What is sealed stays so; "volley decode --token" opens
-- it.

local NETCODE_VERSION = "4e4554434f444520312e303200"
local NETCODE_BODIES = { [1] = 0, [2] = 308, [3] = 308, [4] = 8, [6] = 0 }

local function netcode_request(d)
	d:say("request")
	if d.len ~= 1078 then
		d:problem("a request has %d bytes, not %d", 1078, d.len)
		return
	end
	local version = d.place(1, 13):bytes():tohex(true)
	if version ~= NETCODE_VERSION then
		d:add("version", 1, 13, version)
		d:problem("the version is not NETCODE 1.02")
		return
	end
	d:add("version", 1, 13, "NETCODE 1.02")
	local id = d.place(14, 8):le_uint64()
	d:add("protocol_id", 14, 8, id)
	d:add("expires", 22, 8, d.place(22, 8):le_uint64())
	d:bytes("nonce", 30, 24)
	d:bytes("private", 54, 1024)
	d:say("request for protocol %s", hex(id))
end

function netcode.dissector(tvb, pinfo, root)
	if tvb:len() == 0 then return 0 end
	local d = decoder("netcode", "netcode", netcode, tvb, pinfo, root)
	local prefix = d:byte(0)
	local kind, n = prefix % 16, math.floor(prefix / 16)
	d:add("type", 0, 1, kind)
	if prefix == 0 then
		netcode_request(d)
		return d:finish()
	end
	d:add("sequence_size", 0, 1, n)
	if d.len < 18 then
		d:problem("%s are less than the %d of a packet", size(d.len), 18)
	elseif kind == 0 or not NETCODE_TYPES[kind] then
		d:problem("%d is no type of sealed packets", kind)
	elseif n < 1 or n > 8 then
		d:problem("a sequence of %s, not 1 to 8", size(n))
	elseif d.len < 1 + n + 16 then
		d:problem("%s are less than sequence and tag", size(d.len))
	end
	if d.bad then return d:finish() end
	local sequence = d.place(1, n):le_uint64()
	local body = d.len - 1 - n - 16
	d:add("sequence", 1, n, sequence)
	d:bytes("sealed", 1 + n, body)
	d:bytes("tag", 1 + n + body, 16)
	d:say("%s %s", NETCODE_TYPES[kind], tostring(sequence))
	if kind == 5 then
		d:also(", %s", size(body))
		if body < 1 or body > 1200 then d:problem("a payload of %s, not 1 to %d", size(body), 1200) end
	elseif body ~= NETCODE_BODIES[kind] then
		d:problem("a body of %s, not %d", size(body), NETCODE_BODIES[kind])
	end
	return d:finish()
end

-- porous: docs/porous.md.

local POROUS_SIZES = { [0] = 11, 5, 1, 1, 3, 3 }

-- porous_message adds message i at off and returns where it ends, or nil if it
-- is none.
local function porous_message(d, off, i)
	local left, need = d.len - off, 5
	if left < need then return nil end
	local kind, data = d:byte(off), 0
	if kind == 0 then
		need = 13
	elseif kind == 1 then
		need = 7
	end
	if kind > 2 or left < need then return nil end
	if kind == 0 then
		data = d:be16(off + 11)
		if left < need + data then return nil end
	end
	local tree = d:add("message", off, need + data)
	local packet, channel = d.place(off + 2, 3):uint(), d:byte(off + 1)
	d:add("message.type", off, 1, kind, tree)
	d:add("message.channel", off + 1, 1, channel, tree)
	d:add("message.packet", off + 2, 3, packet, tree)
	if kind ~= 2 then d:add("message.lead", off + 5, 2, d:be16(off + 5), tree) end
	if kind == 0 then
		d:add("message.fragment", off + 7, 2, d:be16(off + 7), tree)
		d:add("message.last_fragment", off + 9, 2, d:be16(off + 9), tree)
		d:add("message.length", off + 11, 2, data, tree)
		if data > 0 then d:add("message.data", off + need, data, nil, tree) end
	end
	local text = FORMAT("%s of packet %d on channel %d", POROUS_MESSAGES[kind], packet, channel)
	tree:append_text(": " .. text)
	if i < 3 then
		d:also("; %s", text)
	elseif i == 3 then
		d:also("; ...")
	end
	return off + need + data
end

local function porous_data(d)
	if d.len < 7 then
		d:problem("ends within the header")
		return
	end
	local id, n = d:be32(1), d:be16(5)
	d:add("frame", 1, 4, id)
	d:add("messages", 5, 2, n)
	d:also(" frame %d with %s", id, count(n, "message", "messages"))
	local off = 7
	for i = 0, n - 1 do
		off = porous_message(d, off, i)
		if not off then
			d:problem("message %d of %d is not whole", i + 1, n)
			return
		end
	end
	if off < d.len then d:problem("%s left over", size(d.len - off)) end
end

local function porous_data_ack(d)
	if d.len < 3 then
		d:problem("ends within the number of ids")
		return
	end
	local n = d:be16(1)
	d:add("acks", 1, 2, n)
	d:also(" of %s", count(n, "frame", "frames"))
	if d.len ~= 3 + 4 * n then
		d:problem("%s have %s, not %d", count(n, "id", "ids"), size(3 + 4 * n), d.len)
		return
	end
	for i = 0, n - 1 do
		d:add("acked", 3 + 4 * i, 4, d:be32(3 + 4 * i))
	end
end

local function porous_control(d, kind)
	if d.len ~= POROUS_SIZES[kind] then
		d:problem("a %s has %s, not %d", POROUS_TYPES[kind], size(POROUS_SIZES[kind]), d.len)
		return
	end
	if kind == 0 then
		d:add("version", 1, 1, d:byte(1))
		d:add("channels", 2, 1, d:byte(2) + 1)
		d:add("bandwidth", 3, 4, d:be32(3))
		d:add("id", 7, 4, d:be32(7))
		d:also(" version %d, %s, id %d", d:byte(1), count(d:byte(2) + 1, "channel", "channels"), d:be32(7))
	elseif kind == 1 then
		d:add("id", 1, 4, d:be32(1))
		d:also(" of id %d", d:be32(1))
	elseif kind >= 4 then
		d:add("ping", 1, 2, d:be16(1))
		d:also(" %d", d:be16(1))
	end
end

function porous.dissector(tvb, pinfo, root)
	if tvb:len() == 0 then return 0 end
	local d = decoder("porous", "porous", porous, tvb, pinfo, root)
	local kind = d:byte(0)
	d:add("type", 0, 1, kind)
	if not POROUS_TYPES[kind] then
		d:problem("%d is no type of frame", kind)
		return d:finish()
	end
	d:say("%s", POROUS_TYPES[kind])
	if kind == 6 then
		porous_data(d)
	elseif kind == 7 then
		porous_data_ack(d)
	else
		porous_control(d, kind)
	end
	if d.len > 1472 then d:problem("%d bytes are more than the %d of a frame", d.len, 1472) end
	return d:finish()
end

-- riptide: docs/riptide.md.

-- riptide_length adds the length in front of a datagram on a stream, in n bytes,
-- and leaves the datagram. It returns false for a wrong one.
local function riptide_length(d, n)
	if d.pinfo.port_type ~= TCP then return true end
	if d.len < n then
		d:problem("ends within the length")
		return false
	end
	local length = n == 2 and d:le16(0) or d.place(0, 4):le_int()
	d:add("length", 0, n, length)
	if length <= 0 or length ~= d.len - n then
		d:problem("a length of %d in front of %s", length, size(d.len - n))
		return false
	end
	d.place, d.len = d.place(n, length):tvb(), length
	return true
end

-- bits returns n bits, at most 16, from bit at on, lowest first. What lies behind
-- the end is 0.
local function bits(d, at, n)
	local first, v = math.floor(at / 8), 0
	for i = 2, 0, -1 do
		v = v * 256
		if first + i < d.len then v = v + d:byte(first + i) end
	end
	return math.floor(v / 2 ^ (at % 8)) % 2 ^ n
end

-- packed adds a number of n bits from bit at on.
local function packed(d, name, at, n, value)
	local first = math.floor(at / 8)
	value = value or bits(d, at, n)
	d:add(name, first, math.floor((at + n - 1) / 8) - first + 1, value)
	return value
end

-- packed_payload adds what begins at bit at, in the middle of a byte, as bytes of
-- their own. The last half of a byte is among them if it holds anything.
local function packed_payload(d, name, at)
	local n = math.floor((8 * d.len - at) / 8)
	if bits(d, at + 8 * n, 4) ~= 0 then n = n + 1 end
	if n <= 0 then return end
	local digits = {}
	for i = 0, n - 1 do
		digits[i + 1] = FORMAT("%02x", bits(d, at + 8 * i, 8))
	end
	local payload = made(table.concat(digits), "Riptide " .. name)
	d.tree:add(d.fields[name], payload())
	d:also(", %s", size(n))
end

local function packed_message(d, at)
	local start, id, shift = at, 0, 0
	while true do
		if at + 8 > 8 * d.len then
			d:problem("ends within the message id")
			return
		end
		local group = bits(d, at, 8)
		at = at + 8
		-- Shifts begin again after 64 bits, as those of C# do.
		local value = group % 128 * 2 ^ (shift % 64)
		if shift % 64 < 16 then
			for i = 0, 15 do -- id | value
				local b = 2 ^ i
				if math.floor(value / b) % 2 == 1 and math.floor(id / b) % 2 == 0 then id = id + b end
			end
		end
		shift = shift + 7
		if group < 128 then break end
	end
	local first = math.floor(start / 8)
	d:add("message", first, math.floor((at - 1) / 8) - first + 1, id)
	d:also(", message %d", id)
	packed_payload(d, "payload", at)
end

local function packed_ack(d)
	d:also(" %d", packed(d, "newest", 4, 16))
	packed(d, "ack_bits", 20, 16)
	local explicit = bits(d, 36, 1) == 1
	d:add("explicit", 4, 1, explicit)
	if not explicit then return end
	if d.len < 7 then
		d:problem("%s are less than the 7 of an ack with an explicit id", size(d.len))
		return
	end
	d:also(", and of %d", packed(d, "acked", 37, 16))
end

local function packed_heartbeat(d)
	local from = d.len >= 4 and "client" or "server"
	d:add("from", 0, 1, from)
	d:also(" %d of the %s", packed(d, "ping", 4, 8), from)
	if from == "client" then
		local rtt = bits(d, 12, 16)
		if rtt >= 32768 then rtt = rtt - 65536 end
		d:add("rtt", 1, 3, rtt)
		if rtt ~= -1 then d:also(", round trip %d ms", rtt) end
	end
end

-- reason adds a reason, and says it.
local function reason(d, name, at, value, names)
	value = packed(d, name, at, 8, value)
	d:also(": %s", names[value] or FORMAT("%d", value))
end

local function packed_disconnect(d)
	if d.len == 1 then
		d:add("from", 0, 1, "client")
		d:also(" by the client")
		return
	end
	d:add("from", 0, 1, "server")
	local value = bits(d, 4, 8)
	if d.len == 2 and value == 0x50 then value = 5 end -- written past the packer of bits by 2.1.0 to 2.2.0
	reason(d, "disconnect", 4, value, RIPTIDE_DISCONNECTS)
	packed_payload(d, "data", 12)
end

local RIPTIDE_MINIMUM = { [0] = 2, 5, 1, 2, 2, 1, 6, 4, 5, 5, 5 }

local RIPTIDE_READERS = {
	[0] = function(d) packed_message(d, 4) end,
	packed_ack,
	function(d) packed_payload(d, "data", 4) end,
	function(d)
		reason(d, "reject", 4, nil, RIPTIDE_REJECTS)
		packed_payload(d, "data", 12)
	end,
	packed_heartbeat,
	packed_disconnect,
	function(d)
		packed(d, "newest", 4, 16)
		packed(d, "ack_bits", 20, 8)
		d:also(" %d", packed(d, "sequence", 28, 16))
		packed_payload(d, "payload", 44)
	end,
	function(d)
		d:also(" %d", packed(d, "sequence", 4, 16))
		packed_message(d, 20)
	end,
}

-- riptide_type adds the type and returns it, nil if the datagram is too short.
local function riptide_type(d, kind, minimum)
	d:add("type", 0, 1, kind)
	if not RIPTIDE_TYPES[kind] then
		d:problem("%d is no type of datagram", kind)
		return nil
	end
	d:say("%s", RIPTIDE_TYPES[kind])
	if d.len < minimum[kind] then
		d:problem("%s are less than the %d of its type", size(d.len), minimum[kind])
		return nil
	end
	return kind
end

local function riptide_datagram(tvb, pinfo, root)
	local d = decoder("riptide", "riptide", riptide, tvb, pinfo, root)
	if riptide_length(d, 4) then
		local kind = riptide_type(d, d:byte(0) % 16, RIPTIDE_MINIMUM)
		if kind and RIPTIDE_READERS[kind] then
			RIPTIDE_READERS[kind](d)
		elseif kind then
			d:also(" %d", packed(d, "sequence", 4, 16))
			d:also(", client %d", packed(d, "client", 20, 16))
		end
	end
	return d:finish()
end

-- The layout of the notes, of whole bytes.

local function notes_rest(d, name, off)
	d:bytes(name, off, d.len - off)
	if off < d.len then d:also(", %s", size(d.len - off)) end
end

local function notes_message(d, off)
	d:add("message", off, 2, d:le16(off))
	d:also(", message %d", d:le16(off))
	notes_rest(d, "payload", off + 2)
end

local NOTES_MINIMUM = { [0] = 3, 5, 1, 2, 2, 2, 3, 5, 5, 5, 5 }

local NOTES_READERS = {
	[0] = function(d) notes_message(d, 1) end,
	function(d)
		d:add("newest", 1, 2, d:le16(1))
		d:also(" %d", d:le16(1))
		d:add("ack_bits", 3, 2, d:le16(3))
	end,
	function(d) notes_rest(d, "data", 1) end,
	function(d)
		reason(d, "reject", 8, nil, NOTES_REJECTS)
		notes_rest(d, "data", 2)
	end,
	function(d)
		d:add("ping", 1, 1, d:byte(1))
		d:also(" %d", d:byte(1))
		if d.len >= 4 then d:add("rtt", 2, 2, d.place(2, 2):le_int()) end
	end,
	function(d)
		reason(d, "disconnect", 8, nil, RIPTIDE_DISCONNECTS)
		notes_rest(d, "data", 2)
	end,
	function(d) notes_message(d, 1) end,
	function(d) notes_message(d, 3) end,
}

local function notes_datagram(tvb, pinfo, root)
	local d = decoder("riptide", "riptide-notes", riptide_notes, tvb, pinfo, root)
	if riptide_length(d, 2) then
		local kind = riptide_type(d, d:byte(0), NOTES_MINIMUM)
		if kind and kind >= 7 then
			d:add("sequence", 1, 2, d:le16(1))
			d:also(" %d", d:le16(1))
		end
		if kind and NOTES_READERS[kind] then
			NOTES_READERS[kind](d)
		elseif kind then
			d:add("client", 3, 2, d:le16(3))
			d:also(", client %d", d:le16(3))
		end
	end
	return d:finish()
end

-- netplay: docs/netplay.md.

-- adler32 returns the checksum of a string that zlib writes behind its stream.
local function adler32(s)
	local a, b = 1, 0
	for i = 1, #s do
		a = (a + s:byte(i)) % 65521
		b = (b + a) % 65521
	end
	return string.char(math.floor(b / 256), b % 256, math.floor(a / 256), a % 256)
end

-- MOST is what "volley decode" expands a payload to.
local MOST = 1048576

-- expand returns the body in a compressed payload, nil if there is none.
-- Wireshark takes what it can get, so it shows by the checksum whether that is
-- all. For gzip only the size behind the stream is looked at.
local function expand(payload)
	local done, body = pcall(function() return payload:uncompress("Netplay body") end)
	if not done then -- its name from Wireshark 4.4 on
		done, body = pcall(function() return payload:uncompress_zlib("Netplay body") end)
	end
	if not done or not body or body:len() > MOST then return nil end
	local raw, text = payload:raw(), body:len() > 0 and body:raw() or ""
	if raw:sub(1, 2) == "\31\139" then
		local n, tail = #text, ""
		for _ = 1, 4 do
			tail = tail .. string.char(n % 256)
			n = math.floor(n / 256)
		end
		return raw:find(tail, 3, true) and body or nil
	end
	return raw:find(adler32(text), 3, true) and body or nil
end

local function netplay_frame(d)
	local n = d.len >= 2 and 2 + d:be16(0) or 0
	if d.len >= 2 then d:add("length", 0, 2, n - 2) end
	if d.len < 2 then
		d:problem("ends within the length")
		return
	elseif n < 5 then
		d:problem("a length of %d, less than 3", n - 2)
		return
	elseif n > d.len then
		d:problem("the frame has %s, of which %d are here", size(n), d.len)
		return
	end
	local options, kind = d:byte(2), d:be16(3)
	local compressed, encrypted = options % 2 == 1, math.floor(options / 2) % 2 == 1
	d:add("options", 2, 1, options)
	d:add("compressed", 2, 1, compressed)
	d:add("encrypted", 2, 1, encrypted)
	d:add("message", 3, 2, kind)
	d:bytes("payload", 5, n - 5)
	d:say("message of type %d, %s", kind, size(n - 5))
	if n < d.len then
		d:problem("%s behind the frame", size(d.len - n))
	elseif encrypted then
		d.note = "with the flag that says encrypted, which has no meaning"
	elseif options >= 4 then
		d.note = "with reserved options"
	end
	if compressed and n > 5 then
		local body = expand(d.place(5, n - 5))
		if not body then
			d:problem("the payload is no compressed stream")
		else
			d:also(", compressed from %s", size(body:len()))
			if body:len() > 0 then d.tree:add(d.fields.body, body) end
		end
	end
end

local function netplay_datagram(tvb, pinfo, root)
	local d = decoder("netplay", "netplay", netplay, tvb, pinfo, root)
	netplay_frame(d)
	return d:finish()
end

-- chunks returns of how many chunks a frame of n bytes is.
local function chunks(n) return math.floor((n + 1022) / 1023) end

local function chunk_header(i, n)
	if n == 1 then return 0x00 end
	if i == 0 then return 0x40 end
	if i == n - 1 then return 0x80 end
	return 0xc0
end

local function v4_datagram(tvb, pinfo, root)
	local d = decoder("netplay", "netplay-v4", netplay_v4, tvb, pinfo, root)
	if d.len < 3 then
		d:add("chunk", 0, 1, d:byte(0))
		d:problem("ends within the length")
		return d:finish()
	end
	local n, parts = chunks(2 + d:be16(1)), {}
	for i = 0, n == 1 and 0 or math.floor((d.len - 1) / 1024) do
		local first = d:byte(1024 * i)
		d:add("chunk", 1024 * i, 1, first)
		if first - first % 64 ~= chunk_header(i, n) then
			d:problem("chunk %d of %d begins with 0x%02x, not 0x%02x", i + 1, n, first, chunk_header(i, n))
			return d:finish()
		end
		local rest = math.min(1023, d.len - 1024 * i - 1)
		if n > 1 and rest > 0 then parts[#parts + 1] = d.place(1024 * i + 1, rest):bytes():tohex() end
	end
	if n == 1 then
		d.place = d.place(1):tvb()
	else
		d.place = made(table.concat(parts), "Netplay frame")
	end
	d.len = d.place:len()
	netplay_frame(d)
	if n > 1 then d:also(", in %d chunks", n) end
	return d:finish()
end

-- Streams are cut into datagrams. Where none can begin, all the rest is one.

local function stream(least, length_of, datagram)
	return function(tvb, pinfo, root)
		local function length(buffer, _, off)
			local n = length_of(buffer, off)
			if n < least then return buffer:len() - off end
			return n
		end
		Decoder.streaming = nil
		dissect_tcp_pdus(tvb, root, least, length, datagram)
		return tvb:len()
	end
end

local riptide_stream = stream(4, function(b, off)
	local n = b(off, 4):le_int()
	return n > 0 and n <= 65006 and 4 + n or 0
end, riptide_datagram)

local notes_stream = stream(2, function(b, off)
	local n = b(off, 2):le_uint()
	return n > 0 and n <= 65006 and 2 + n or 0
end, notes_datagram)

local netplay_stream = stream(2, function(b, off)
	local n = b(off, 2):uint()
	return n >= 3 and 2 + n or 0
end, netplay_datagram)

local v4_stream = stream(3, function(b, off)
	local first, n = b(off, 1):uint(), b(off + 1, 2):uint()
	if n < 3 or first >= 128 then return 0 end
	return 2 + n + chunks(2 + n)
end, v4_datagram)

-- either makes a dissector for UDP and TCP.
local function either(datagram, of_stream)
	return function(tvb, pinfo, root)
		if tvb:len() == 0 then return 0 end
		if pinfo.port_type == TCP then return of_stream(tvb, pinfo, root) end
		return datagram(tvb, pinfo, root)
	end
end

riptide.dissector = either(riptide_datagram, riptide_stream)
riptide_notes.dissector = either(notes_datagram, notes_stream)
netplay.dissector = netplay_stream
netplay_v4.dissector = v4_stream

-- Preferences: the ports of each protocol, and what a receiver is set to.

local function ports(proto, transports)
	local used = {}
	for _, transport in ipairs(transports) do
		local name = transport .. "_ports"
		local title = string.upper(transport) .. " ports"
		proto.prefs[name] = Pref.range(title, "", "Ports of this protocol, such as 7777,7800-7810", 65535)
		used[transport] = ""
		DissectorTable.get(transport .. ".port"):add_for_decode_as(proto)
	end
	function proto.prefs_changed()
		for _, transport in ipairs(transports) do
			local ports_of, now = DissectorTable.get(transport .. ".port"), proto.prefs[transport .. "_ports"]
			if now ~= used[transport] then
				if used[transport] ~= "" then ports_of:remove(used[transport], proto) end
				if now ~= "" then ports_of:add(now, proto) end
				used[transport] = now
			end
		end
	end
end

ports(reliable, { "udp" })
ports(netcode, { "udp" })
ports(porous, { "udp" })
ports(riptide, { "udp", "tcp" })
ports(riptide_notes, { "udp", "tcp" })
ports(netplay, { "tcp" })
ports(netplay_v4, { "tcp" })

reliable.prefs.fragment_size =
	Pref.uint("Fragment size", 0, "Config.FragmentSize, to check fragments by. 0: any size will do")
reliable.prefs.max_fragments =
	Pref.uint("Most fragments", 0, "Config.MaxFragments, to check fragments by. 0: 256, which is all that there can be")

-- Heuristics go by how connections begin, and then take all that follows between
-- the two ports. They are off until a preference turns them on.

local function begins(proto, looks_like)
	proto.prefs.heuristic = Pref.bool("Find connections on any port", false, "Take what begins like a connection of this protocol for one")
	proto:register_heuristic("udp", function(tvb, pinfo, root)
		if not proto.prefs.heuristic or tvb:len() == 0 or not looks_like(tvb) then return false end
		pinfo.conversation = proto
		proto.dissector(tvb, pinfo, root)
		return true
	end)
end

begins(reliable, function(tvb)
	return tvb:len() >= 8 and tvb(0, 8):bytes():tohex(true) == "3e00000100000000"
end)
begins(netcode, function(tvb)
	return tvb:len() == 1078 and tvb(0, 14):bytes():tohex(true) == "00" .. NETCODE_VERSION
end)
begins(porous, function(tvb)
	return tvb:len() == 11 and tvb(0, 1):uint() == 0 and tvb(1, 1):uint() <= 1
end)
