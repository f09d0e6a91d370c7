package iceberg

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/millpond/millpond/domain"
)

// maxPage is how many names a page has at most; a client that asks for more gets these.
const maxPage = 1000

// page is what a client asked of a list: everything, unless it sent a token, which is empty for the first page.
type page struct {
	list  string // what is listed, to which tokens belong
	after string
	limit int // 0 for everything
}

func (c *call) page(of ...string) (page, error) {
	query := c.URL.Query()
	p := page{list: strings.Join(of, "\x00")}
	size := maxPage
	if sent := query.Get("pageSize"); sent != "" {
		n, err := strconv.Atoi(sent)
		if err != nil || n < 1 {
			return page{}, domain.Invalid("pageSize", "The query parameter pageSize is %q; give a whole number from 1.", sent)
		}
		size = min(n, maxPage)
	}
	if !query.Has("pageToken") {
		return p, nil
	}
	p.limit = size
	if sent := query.Get("pageToken"); sent != "" {
		after, ok := p.read(sent)
		if !ok {
			return page{}, domain.Invalid("pageToken", "The query parameter pageToken is none of this list; begin again with an empty one.")
		}
		p.after = after
	}
	return p, nil
}

// token leads to the page after a name; nil where there is none.
func (p page) token(next string) *string {
	if next == "" {
		return nil
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(p.mark() + next))
	return &token
}

func (p page) read(token string) (after string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !saneText(string(b)) {
		return "", false
	}
	return strings.CutPrefix(string(b), p.mark())
}

// mark tells the tokens of one list from those of another.
func (p page) mark() string {
	sum := sha256.Sum256([]byte(p.list))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}
