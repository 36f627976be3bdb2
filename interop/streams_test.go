package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/rpc"
	"net/url"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/hashicorp/yamux"
	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/stretchr/testify/require"
	"github.com/xtaci/smux"

	"volley/porous"
)

// A streamListener accepts connections as streams of bytes.
type streamListener struct{ *porous.Listener }

func (l streamListener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn(context.Background())
	if err != nil {
		return nil, err
	}
	return c.Stream(), nil
}

// listenStreams returns a Listener, and a function that dials it.
func listenStreams(t *testing.T) (l streamListener, dial func() (net.Conn, error)) {
	pl, err := porous.Listen("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { pl.Close() })
	return streamListener{pl}, func() (net.Conn, error) {
		c, err := porous.Dial("udp4", pl.Addr().String())
		if err != nil {
			return nil, err
		}
		return c.Stream(), nil
	}
}

// Requests and answers larger than any message pass, by HTTP/1.1 and by HTTP/2.
func TestHTTPOverStream(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		l, dial := listenStreams(t)
		var protocols http.Protocols
		protocols.SetHTTP1(version == "HTTP/1.1")
		protocols.SetUnencryptedHTTP2(version != "HTTP/1.1")
		s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, r.Body)
		})}
		go s.Serve(l)
		transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		for range 3 {
			r, err := client.Post("http://server/", "text/plain", bytes.NewReader(body))
			require.NoError(t, err)
			got, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got))
			require.Equal(t, version, r.Proto)
			r.Body.Close()
		}
		transport.CloseIdleConnections()
		require.NoError(t, s.Shutdown(t.Context()))
	}
}

// Many calls at once over one connection of net/rpc.
func TestRPCOverStream(t *testing.T) {
	l, dial := listenStreams(t)
	s := rpc.NewServer()
	require.NoError(t, s.Register(new(Echo)))
	go s.Accept(l)
	conn, err := dial()
	require.NoError(t, err)
	client := rpc.NewClient(conn)
	var calls []*rpc.Call
	for i := range 100 {
		calls = append(calls, client.Go("Echo.Twice", bytes.Repeat([]byte{byte(i)}, 100*i), new([]byte), nil))
	}
	for i, call := range calls {
		<-call.Done
		require.NoError(t, call.Error)
		require.Len(t, *call.Reply.(*[]byte), 200*i)
	}
	require.NoError(t, client.Close())
}

type Echo struct{}

func (*Echo) Twice(b []byte, reply *[]byte) error {
	*reply = append(b, b...)
	return nil
}

// Streams of yamux and smux over one stream.
func TestMultiplexersOverStream(t *testing.T) {
	type session struct {
		accept, open func() (net.Conn, error)
		end          func() error
	}
	yamuxOf := func(s *yamux.Session, err error) session {
		require.NoError(t, err)
		return session{s.Accept, s.Open, s.Close}
	}
	smuxOf := func(s *smux.Session, err error) session {
		require.NoError(t, err)
		return session{
			func() (net.Conn, error) { return s.AcceptStream() },
			func() (net.Conn, error) { return s.OpenStream() },
			s.Close,
		}
	}
	for name, sides := range map[string]func(a, b net.Conn) (client, server session){
		"yamux": func(a, b net.Conn) (client, server session) {
			return yamuxOf(yamux.Client(a, nil)), yamuxOf(yamux.Server(b, nil))
		},
		"smux": func(a, b net.Conn) (client, server session) {
			return smuxOf(smux.Client(a, nil)), smuxOf(smux.Server(b, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, dial := listenStreams(t)
			a, err := dial()
			require.NoError(t, err)
			b, err := l.Accept()
			require.NoError(t, err)
			client, server := sides(a, b)
			go func() {
				for {
					s, err := server.accept()
					if err != nil {
						return
					}
					go func() {
						io.Copy(s, s)
						s.Close()
					}()
				}
			}()
			body := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
			done := make(chan error)
			for range 10 {
				go func() {
					s, err := client.open()
					if err != nil {
						done <- err
						return
					}
					defer s.Close()
					go s.Write(body)
					got := make([]byte, len(body))
					if _, err = io.ReadFull(s, got); err == nil && !bytes.Equal(body, got) {
						err = fmt.Errorf("other bytes came back")
					}
					done <- err
				}()
			}
			for range 10 {
				require.NoError(t, <-done)
			}
			client.end()
			server.end()
		})
	}
}

// A broker of MQTT, and two clients of it.
func TestMQTTOverStream(t *testing.T) {
	l, dial := listenStreams(t)
	s := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, s.AddHook(new(auth.AllowHook), nil))
	require.NoError(t, s.AddListener(listeners.NewNet("porous", l)))
	require.NoError(t, s.Serve())
	join := func(id string) mqtt.Client {
		o := mqtt.NewClientOptions().AddBroker("tcp://server:1883").SetClientID(id).SetAutoReconnect(false)
		o.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return dial() })
		c := mqtt.NewClient(o)
		token := c.Connect()
		require.True(t, token.WaitTimeout(time.Minute))
		require.NoError(t, token.Error())
		return c
	}
	a, b := join("a"), join("b")
	got := make(chan []byte, 10)
	token := a.Subscribe("news", 1, func(_ mqtt.Client, m mqtt.Message) { got <- m.Payload() })
	require.True(t, token.WaitTimeout(time.Minute))
	require.NoError(t, token.Error())
	for _, size := range []int{1, 1000, 200_000} {
		require.True(t, b.Publish("news", 1, false, make([]byte, size)).WaitTimeout(time.Minute))
		require.Len(t, <-got, size)
	}
	a.Disconnect(100)
	b.Disconnect(100)
	require.NoError(t, s.Close())
}
