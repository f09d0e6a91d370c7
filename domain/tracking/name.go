package tracking

import (
	"fmt"
	"math/rand/v2"
)

var (
	adjectives = []string{
		"amber", "autumn", "bold", "brave", "bright", "calm", "clear", "copper", "coral", "crisp", "early", "fair", "fleet", "gentle", "golden", "grand",
		"green", "happy", "hidden", "keen", "late", "light", "lively", "lucky", "mellow", "misty", "noble", "patient", "proud", "quick", "quiet", "rapid",
		"ready", "rustic", "silent", "silver", "smooth", "steady", "still", "sunny", "swift", "tidy", "vivid", "warm", "wild", "windy", "wise", "young",
	}
	nouns = []string{
		"alder", "badger", "beaver", "birch", "bream", "brook", "carp", "cedar", "crane", "creek", "delta", "dove", "duck", "eel", "elm", "ferry",
		"finch", "frog", "gander", "grebe", "harbor", "heron", "ibis", "lake", "lark", "lily", "loon", "marsh", "minnow", "newt", "otter", "perch",
		"pike", "pond", "reed", "river", "robin", "rush", "sedge", "snipe", "stork", "swan", "teal", "tern", "trout", "wader", "weir", "willow",
	}
)

// inventName returns a name for a run without one.
func inventName() string {
	return fmt.Sprintf("%s-%s-%d", adjectives[rand.IntN(len(adjectives))], nouns[rand.IntN(len(nouns))], rand.IntN(1000))
}
