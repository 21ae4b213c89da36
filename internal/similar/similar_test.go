package similar

import "testing"

func TestQuestion(t *testing.T) {
	known := []string{"ListDiskIDs", "ListDiskLocations", "Rescan", "IOCTL_DISK_GROW_PARTITION", "UseAdd", "UseDel", "UseEnum"}
	for word, want := range map[string]string{
		"ListDiskIds":          `did you mean "ListDiskIDs"?`,
		"rescan":               `did you mean "Rescan"?`,
		"Recsan":               `did you mean "Rescan"?`,
		"UseAll":               `did you mean "UseAdd" or "UseDel"?`,
		"IOCTL_GROW_PARTITION": `did you mean "IOCTL_DISK_GROW_PARTITION"?`,
		"Format":               "",
		"":                     "",
	} {
		if got := Question(word, known); got != want {
			t.Errorf("Question(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Question("x", nil); got != "" {
		t.Errorf("Question without known words = %q, want nothing", got)
	}
}

func TestAtMostThreeWords(t *testing.T) {
	if got := Words("disk", []string{"disk4", "disk33", "disk5", "disk6", "disk7"}); len(got) != 3 {
		t.Errorf("Words = %q, want three", got)
	}
	if got := Words("disk", []string{"disk4", "disk"}); len(got) != 1 || got[0] != "disk" {
		t.Errorf("Words = %q, want only the same word", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"disk", "disk", 0}, {"disk", "dsik", 2}, {"volume", "volumes", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
