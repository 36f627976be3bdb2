package netcode

// referenceWindow is the size of the replay window that the standard describes.
const referenceWindow = 256

// serverTakes are the types that servers take, except for requests, which are in the clear.
var serverTakes = setOf(packetResponse, packetKeepAlive, packetPayload, packetDisconnect)
