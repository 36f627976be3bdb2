package socketpair

import "testing"

func TestUnixgram(t *testing.T) {
	a, b := Unixgram(t)
	defer a.Close()
	defer b.Close()
	for _, m := range []string{"one", "two"} {
		if _, err := a.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 100)
	for _, want := range []string{"one", "two"} {
		if n, err := b.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("Read = %q, %v, want %q", buf[:n], err, want)
		}
	}
}
