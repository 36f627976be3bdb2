package interop

import (
	"context"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"
	"github.com/stretchr/testify/require"

	"volley"
)

const sysDescr = ".1.3.6.1.2.1.1.1.0"

// An SNMP manager asks an agent over a volley connection. Without a table of
// more than one datagram it would show nothing that UDP could not carry.
func TestSNMP(t *testing.T) {
	a, b := pair(t, nil)
	result := make(chan error, 1)
	go func() { result <- agent(b, 2) }()

	m := &gosnmp.GoSNMP{
		Target: "127.0.0.1", Port: 161, Community: "public", Version: gosnmp.Version2c,
		Timeout: patience, MaxOids: gosnmp.MaxOids,
	}
	require.NoError(t, m.Connect()) // it insists on a socket of its own
	require.NoError(t, m.Conn.Close())
	m.Conn = a
	got, err := m.Get([]string{sysDescr})
	require.NoError(t, err)
	require.Len(t, got.Variables, 1)
	require.Equal(t, []byte("a router"), got.Variables[0].Value)

	table, err := m.GetBulk([]string{sysDescr}, 0, 50)
	require.NoError(t, err)
	require.Len(t, table.Variables, 50)
	for i, v := range table.Variables {
		require.Equal(t, message(100+i), v.Value)
	}
	done(t, result)
}

// agent answers some requests.
func agent(c *volley.Conn, requests int) error {
	coder := &gosnmp.GoSNMP{Community: "public", Version: gosnmp.Version2c, Timeout: time.Second}
	for range requests {
		b, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return err
		}
		p, err := coder.SnmpDecodePacket(b)
		if err != nil {
			return err
		}
		var vars []gosnmp.SnmpPDU
		if p.PDUType == gosnmp.GetRequest {
			vars = []gosnmp.SnmpPDU{{Name: sysDescr, Type: gosnmp.OctetString, Value: []byte("a router")}}
		} else {
			for i := range int(p.MaxRepetitions) {
				vars = append(vars, gosnmp.SnmpPDU{Name: sysDescr, Type: gosnmp.OctetString, Value: message(100 + i)})
			}
		}
		p.PDUType, p.Variables = gosnmp.GetResponse, vars
		p.Error, p.ErrorIndex = 0, 0
		if b, err = p.MarshalMsg(); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}
