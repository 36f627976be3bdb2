package dissect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every field, list and function that a format names is there.
func TestFormatsAreWhole(t *testing.T) {
	named := make(map[string]bool)
	for p, s := range formats {
		checkSteps(t, p.family(), s, named)
	}
	for _, f := range families {
		for _, s := range f.fields {
			if f.name == "netcode" && strings.Contains("from challenge challenge_token index slots payload", s.name) {
				continue // sealed
			}
			if s.name != "payload" && s.name != "data" && s.name != "body" && s.kind != "none" {
				require.True(t, named[f.name+"."+s.name], "%s.%s is in no format", f.name, s.name)
			}
			require.True(t, s.names == "" || s.names == "hex" || s.names == "unix" || lists[s.names] != nil, s.names)
		}
	}
}

func checkSteps(t *testing.T, family string, all steps, named map[string]bool) {
	for _, one := range all {
		switch s := one.(type) {
		case steps:
			checkSteps(t, family, s, named)
		case addStep:
			require.Contains(t, specs, family+"."+s.name)
			named[family+"."+s.name] = true
		case caseStep:
			for _, b := range s {
				checkSteps(t, family, b.do, named)
			}
		case loopStep:
			checkSteps(t, family, s.do, named)
		case groupStep:
			checkSteps(t, family, s.do, named)
		case hookStep:
			require.Contains(t, hooks, s.name)
			named[family+".message"] = named[family+".message"] || s.name == "varint"
		}
	}
}
