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
-- Fields, their order, and the words for what is malformed are those of "volley
-- decode", with which this file is tested.

set_plugin_info({
	version = "1.0",
	description = "reliable, netcode, porous, riptide and netplay",
	repository = "volley",
})

local FORMAT = string.format
local TCP = 2 -- as pinfo.port_type

local reliable = Proto("volley.reliable", "Volley: reliable")
local netcode = Proto("volley.netcode", "Volley: netcode 1.02")
local porous = Proto("volley.porous", "Volley: porous")
local riptide = Proto("volley.riptide", "Volley: riptide")
local riptide_notes = Proto("volley.riptide_notes", "Volley: riptide, layout of the notes")
local netplay = Proto("volley.netplay", "Volley: netplay")
local PROTOS = { reliable = reliable, netcode = netcode, porous = porous, riptide = riptide, netplay = netplay }

-- F has the fields of a family by their names, KINDS their kinds, X the two kinds of
-- remarks.
local F, KINDS, X = {}, {}, {}

local function family(name, fields)
	local list = {}
	F[name], KINDS[name] = {}, {}
	for i, spec in ipairs(fields) do
		local field, kind, label, hex, names = spec[1], spec[2], spec[3], spec[4], spec[5]
		local full = "volley." .. name .. "." .. field
		if kind == "string" or kind == "bytes" or kind == "none" or kind == "bool" then
			list[i] = ProtoField[kind](full, label)
		else
			list[i] = ProtoField[kind](full, label, hex and base.HEX or base.DEC, names)
		end
		F[name][field], KINDS[name][field] = list[i], kind
	end
	PROTOS[name].fields = list
	X[name] = {
		malformed = ProtoExpert.new("volley." .. name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
		note = ProtoExpert.new("volley." .. name .. ".note", "Unusual", expert.group.PROTOCOL, expert.severity.NOTE),
	}
	PROTOS[name].experts = { X[name].malformed, X[name].note }
end

-- FIELDS
-- A decoder collects what is found in a datagram. Its place is the bytes that
-- the numbers of add count in.

local Decoder = {}
Decoder.__index = Decoder

local function hex(n)
	if type(n) == "number" then return FORMAT("0x%x", n) end
	return "0x" .. n:tohex():gsub("^0+(%x)", "%1") -- of 64 bits
end

-- text formats like string.format, and takes numbers of 64 bits.
local function text(format, ...)
	local args, i = { ... }, 0
	return (format:gsub("%%(#?0?2?)([dsx])", function(how, verb)
		i = i + 1
		if how == "#" then return hex(args[i]) end
		if type(args[i]) ~= "number" then return tostring(args[i]) end
		return FORMAT("%" .. how .. verb, args[i])
	end))
end

function Decoder:field(name, off, n, ...) return self.tree:add(F[self.family][name], self.place(off, n), ...) end

function Decoder:raw(name, off, n)
	if n > 0 then self:field(name, off, n) end
end

-- add adds a field of n bytes at off, and keeps its value in v.
function Decoder:add(v, name, off, n, value)
	local kind = KINDS[self.family][name]
	if kind == "int16" and value >= 2 ^ 15 then value = value - 2 ^ 16 end
	if kind == "int32" and value >= 2 ^ 31 then value = value - 2 ^ 32 end
	v[name == "type" and "typ" or name:gsub("%.", "_")] = value
	if kind == "bool" then value = value ~= 0 end
	self:field(name, off, n, value)
end

-- made adds bytes that are in no place of the packet, of a string of hexadecimal
-- digits, as a page of their own.
local function made(digits, name) return ByteArray.new(digits):tvb(name) end

-- group puts what f adds into a field, if there is a name.
function Decoder:group(f, name, off, n)
	local outer = self.tree
	if name then self.tree = self:field(name, off, n) end
	f()
	self.tree = outer
end

function Decoder:problem(format, ...) self.bad = self.bad or text(format, ...) end
function Decoder:unusual(note) self.note = self.note or not self.bad and note or nil end
function Decoder:say(format, ...) self.summary = text(format, ...) end
function Decoder:also(format, ...) self.summary = (self.summary or "") .. text(format, ...) end
function Decoder:title(format, ...) self.tree:append_text(": " .. text(format, ...)) end

-- finish writes the summary and the remarks.
function Decoder:finish(pinfo)
	local line = self.summary or ""
	if self.bad then
		self.tree:add_proto_expert_info(X[self.family].malformed, self.bad)
		line = line .. (self.summary and ", " or "") .. "malformed: " .. self.bad
	elseif self.note then
		self.tree:add_proto_expert_info(X[self.family].note, self.note)
		line = line .. ", " .. self.note
	end
	self.tree:append_text(": " .. line)
	if pinfo.number == Decoder.streaming then -- not the first one in a segment of TCP
		pinfo.cols.info:append("; " .. line)
	else
		pinfo.cols.info = line
	end
	if pinfo.port_type == TCP then Decoder.streaming = pinfo.number end
end

-- E has the functions that the formats call.
local E = {}

function E.u8(d, off) return d.place(off, 1):uint() end
function E.le(d, off, n) return d.place(off, n):le_uint() end
function E.le64(d, off, n) return d.place(off, n):le_uint64() end
function E.be(d, off, n) return d.place(off, n):uint() end
function E.hex(d, off, n) return d.place(off, n):bytes():tohex(true) end

-- bits returns n bits, at most 16, from bit at on, lowest first. What lies behind
-- the end is 0.
function E.bits(d, at, n)
	local first, v = math.floor(at / 8), 0
	for i = 2, 0, -1 do
		v = v * 256
		if first + i < d.len then v = v + E.u8(d, first + i) end
	end
	return math.floor(v / 2 ^ (at % 8)) % 2 ^ n
end

function E.count(_, n, one, many) return n == 1 and "1 " .. one or FORMAT("%d %s", n, many) end
function E.size(d, n) return E.count(d, n, "byte", "bytes") end
function E.item(_, i, ...) return ({ ... })[i + 1] end
function E.word(_, list, i) return LISTS[list][i] or FORMAT("%d", i) end

function E.unix(_, seconds)
	local n = tonumber(tostring(seconds))
	if n >= 2 ^ 63 then return "never" end
	return os.date("!%Y-%m-%d %H:%M:%S UTC", math.min(n, 2147483647 * 256))
end

function E.acks(_, ack, set)
	if ack == 65535 and set == 0 then return "has heard nothing" end
	local n = 0
	while set > 0 do
		n = n + set % 2
		set = math.floor(set / 2)
	end
	return FORMAT("ack %d, %d of 32 received", ack, n)
end

-- H has the steps that are written in both languages. They return whether the
-- datagram can be read on.
local H = {}

function H.unseal() return true end -- "volley decode --token" does

function H.skip(d, _, n)
	d.place, d.len = d.place(n):tvb(), d.len - n
	return true
end

-- bits adds all from a bit on, in the middle of a byte, as bytes of their own. The
-- last half of a byte is among them if it holds anything.
function H.bits(d, _, name, at)
	local n = math.floor((8 * d.len - at) / 8)
	if E.bits(d, at + 8 * n, 4) ~= 0 then n = n + 1 end
	if n <= 0 then return true end
	local digits = {}
	for i = 0, n - 1 do
		digits[i + 1] = FORMAT("%02x", E.bits(d, at + 8 * i, 8))
	end
	d.tree:add(F.riptide[name], made(table.concat(digits), "Riptide " .. name)())
	d:also(", %s", E.size(d, n))
	return true
end

-- varint adds a message id that begins at a bit. The next one is v.at.
function H.varint(d, v, start)
	local at, id, shift, group = start, 0, 0, 128
	while group >= 128 do
		if at + 8 > 8 * d.len then
			d:problem("ends within the message id")
			return false
		end
		group = E.bits(d, at, 8)
		at = at + 8
		local value = group % 128 * 2 ^ (shift % 64) -- which begins again, as in C#
		for i = 0, shift % 64 < 16 and 15 or -1 do -- id | value
			local b = 2 ^ i
			if math.floor(value / b) % 2 == 1 and math.floor(id / b) % 2 == 0 then id = id + b end
		end
		shift = shift + 7
	end
	local first = math.floor(start / 8)
	d:add(v, "message", first, math.floor((at - 1) / 8) - first + 1, id)
	d:also(", message %d", id)
	v.at = at
	return true
end

-- adler32 returns the checksum of a string that zlib writes behind its stream.
local function adler32(s)
	local a, b = 1, 0
	for i = 1, #s do
		a = (a + s:byte(i)) % 65521
		b = (b + a) % 65521
	end
	return string.char(math.floor(b / 256), b % 256, math.floor(a / 256), a % 256)
end

-- inflate returns the body in a compressed payload, nil if there is none.
-- Wireshark takes what it can get, so it shows by the checksum whether that is
-- all. For gzip only the size behind the stream is looked at.
local function inflate(payload)
	local done, body = pcall(function() return payload:uncompress("Netplay body") end)
	if not done then -- its name from Wireshark 4.4 on
		done, body = pcall(function() return payload:uncompress_zlib("Netplay body") end)
	end
	if not done or not body or body:len() > 1048576 then return nil end
	local raw, whole = payload:raw(), body:len() > 0 and body:raw() or ""
	local tail = adler32(whole)
	if raw:sub(1, 2) == "\31\139" then
		local n = #whole
		tail = ""
		for _ = 1, 4 do
			tail = tail .. string.char(n % 256)
			n = math.floor(n / 256)
		end
	end
	return raw:find(tail, 3, true) and body or nil
end

function H.expand(d, _, off, n)
	local body = inflate(d.place(off, n))
	if not body then
		d:problem("the payload is no compressed stream")
		return true
	end
	d:also(", compressed from %s", E.size(d, body:len()))
	if body:len() > 0 then d.tree:add(F.netplay.body, body) end
	return true
end

local FORMATS = {}

-- FORMATS
-- datagram makes the dissector of a datagram of a protocol.
local function datagram(name, proto)
	local of = name:gsub("%-.*", "")
	return function(tvb, pinfo, root)
		if tvb:len() == 0 then return 0 end
		pinfo.cols.protocol = name
		local d = setmetatable({ family = of, place = tvb, len = tvb:len(), tree = root:add(proto, tvb()) }, Decoder)
		FORMATS[name](d, {
			stream = pinfo.port_type == TCP and 1 or 0,
			max_fragments = reliable.prefs.max_fragments,
			fragment_size = reliable.prefs.fragment_size,
		})
		d:finish(pinfo)
		return tvb:len()
	end
end

-- Streams are cut into datagrams. Where none can begin, all the rest is one.

local function stream(least, length_of, of_datagram)
	return function(tvb, pinfo, root)
		local function length(buffer, _, off)
			local n = length_of(buffer, off)
			return n < least and buffer:len() - off or n
		end
		Decoder.streaming = nil
		dissect_tcp_pdus(tvb, root, least, length, of_datagram)
		return tvb:len()
	end
end

-- either makes a dissector for UDP and TCP.
local function either(of_datagram, of_stream)
	return function(tvb, pinfo, root)
		if tvb:len() > 0 and pinfo.port_type == TCP then return of_stream(tvb, pinfo, root) end
		return of_datagram(tvb, pinfo, root)
	end
end

reliable.dissector = datagram("reliable", reliable)
netcode.dissector = datagram("netcode", netcode)
porous.dissector = datagram("porous", porous)

local packed = datagram("riptide", riptide)
riptide.dissector = either(packed, stream(4, function(b, off)
	local n = b(off, 4):le_int()
	return n > 0 and n <= 65006 and 4 + n or 0
end, packed))

local notes = datagram("riptide-notes", riptide_notes)
riptide_notes.dissector = either(notes, stream(2, function(b, off)
	local n = b(off, 2):le_uint()
	return n > 0 and n <= 65006 and 2 + n or 0
end, notes))

netplay.dissector = stream(2, function(b, off)
	local n = b(off, 2):uint()
	return n >= 3 and 2 + n or 0
end, datagram("netplay", netplay))

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
	return tvb:len() == 1078 and tvb(0, 14):bytes():tohex(true) == "004e4554434f444520312e303200"
end)
begins(porous, function(tvb)
	return tvb:len() == 11 and tvb(0, 1):uint() == 0 and tvb(1, 1):uint() <= 1
end)
