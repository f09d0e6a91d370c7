package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// A replica's own notifications wake nobody a second time, unless the answer of a commit was lost.
func TestOwnNotificationsAreHeededAfterALostCommit(t *testing.T) {
	topics := &Topics{origin: "here"}
	own, n := topics.payload([]domain.Topic{"a", "b"})
	require.Equal(t, 2, n)
	require.Empty(t, topics.parse(own))
	require.Equal(t, []domain.Topic{"a", "b"}, topics.parse("=there\na\nb"))
	require.Equal(t, []domain.Topic{"a"}, topics.parse("a"), "of a session that ended")
	topics.doubt()
	require.Equal(t, []domain.Topic{"a", "b"}, topics.parse(own))
}
