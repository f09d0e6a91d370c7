package iceberg

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// maxPage bounds the names of a page; larger requests get this many.
const maxPage = 1000

// page is the requested page of a list. Without a token it is the whole list; an empty token is the
// first page.
type page struct {
	list  string // the list that its tokens belong to
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
			return page{}, domain.Invalid("pageToken", "The query parameter pageToken does not belong to this list; begin again with an empty one.")
		}
		p.after = after
	}
	return p, nil
}

// token returns the token of the page after a name; nil if there is no such page.
func (p page) token(next string) *string {
	if next == "" {
		return nil
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(p.mark() + next))
	return &token
}

func (p page) read(token string) (after string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !httpx.SaneText(string(b)) {
		return "", false
	}
	return strings.CutPrefix(string(b), p.mark())
}

// mark distinguishes the tokens of different lists.
func (p page) mark() string {
	sum := sha256.Sum256([]byte(p.list))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}
