package section

import "testing"

func TestReplace(t *testing.T) {
	const rest = "\n## Where others win\n\nhere\n"
	for _, c := range []struct{ before, want string }{
		{"# B\n\n## A\n\na\n" + rest, "# B\n\n## A\n\na\n\n## C\n\nnew\n" + rest},
		{"# B\n\n## C\n\nold\n" + rest, "# B\n\n## C\n\nnew\n" + rest},
		{"# B\n\n## C\n\nold\n\n## A\n\na\n" + rest, "# B\n\n## A\n\na\n\n## C\n\nnew\n" + rest},
		{"# B\n\n## Cc\n\nother\n", "# B\n\n## Cc\n\nother\n\n## C\n\nnew\n"},
	} {
		if got := replace(c.before, "C", "## C\n\nnew\n\n"); got != c.want {
			t.Errorf("replace(%q) = %q, want %q", c.before, got, c.want)
		}
	}
}
