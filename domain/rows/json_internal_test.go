package rows

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"
)

// TestQuickTexts compares our fast formatting to that of the libraries.
func TestQuickTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		at := time.Unix(random.Int64N(1<<39)-1<<38, random.Int64N(1e9)/int64(math.Pow10(random.IntN(10)))*int64(math.Pow10(random.IntN(4)))).UTC()
		require.Equal(t, at.Format(time.DateOnly), string(appendDate(nil, at)))
		require.Equal(t, at.Format("15:04:05.999999999"), string(appendClock(nil, at)))
		v, scale := int64(random.Uint64())>>random.IntN(64), int32(random.IntN(39))
		require.Equal(t, decimal128.FromI64(v).ToString(scale), string(appendScaled(nil, v, scale)))
	}
	for _, v := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		for scale := int32(-2); scale < 39; scale++ {
			require.Equal(t, decimal128.FromI64(v).ToString(scale), string(appendScaled(nil, v, scale)))
		}
	}
}
