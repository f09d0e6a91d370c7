package tracking

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// Bounds of a search. A list of maxListed run ids fits into a filter.
const (
	maxFilter     = 512 << 10 // bytes
	maxConditions = 100
	maxListed     = 10_000
	maxSearchKey  = 250 // characters
)

// Entity is the kind of thing that a condition or an order reads.
type Entity string

// The entities. Experiments have attributes and tags only.
const (
	Attribute     Entity = "attribute"
	MetricEntity  Entity = "metric"
	ParamEntity   Entity = "param"
	TagEntity     Entity = "tag"
	DatasetEntity Entity = "dataset"
)

// Op is the operator of a condition, in upper case.
type Op string

// The operators.
const (
	OpEqual          Op = "="
	OpNotEqual       Op = "!="
	OpLess           Op = "<"
	OpLessOrEqual    Op = "<="
	OpGreater        Op = ">"
	OpGreaterOrEqual Op = ">="
	OpLike           Op = "LIKE"
	OpILike          Op = "ILIKE"
	OpIn             Op = "IN"
	OpNotIn          Op = "NOT IN"
	OpIsNull         Op = "IS NULL"
	OpIsNotNull      Op = "IS NOT NULL"
)

// Condition is one comparison of a filter; a filter is true where all of its conditions are. The
// entity, key and operator say which one of the values is set:
//
//   - Number for metrics; it may be an infinity, never NaN.
//   - Int for attributes that are times, in whole milliseconds. A fraction in the filter is rounded
//     so that the comparison keeps its result.
//   - List, never empty, for IN and NOT IN.
//   - None for IS NULL and IS NOT NULL, which test the key for existence.
//   - Text otherwise, and as written: MLflow removes no escapes. A pattern of LIKE or ILIKE never
//     ends in a lone backslash, so PostgreSQL takes it with its default escape character.
type Condition struct {
	Entity Entity
	Key    string // the key, or the canonical name of the attribute
	Op     Op
	Text   string
	Number float64
	Int    int64
	List   []string
}

// ParseRunFilter parses an MLflow filter over runs: up to 100 conditions, joined by AND. Attributes
// are run_id, run_name, user_id, status, start_time, end_time and artifact_uri. Only run_id and the
// keys of datasets take a list, of up to 10,000 texts. An empty filter has no conditions. Errors
// are domain.CodeInvalid in the field filter, in MLflow's words where MLflow has such an error.
func ParseRunFilter(filter string) ([]Condition, error) { return runGrammar.parseFilter(filter) }

// ParseExperimentFilter is ParseRunFilter over experiments, which have tags and the attributes
// experiment_id (a decimal number as text, also in a list), name, creation_time and
// last_update_time.
func ParseExperimentFilter(filter string) ([]Condition, error) {
	return experimentGrammar.parseFilter(filter)
}

func (g *searchGrammar) parseFilter(filter string) ([]Condition, error) {
	if err := domain.ValidText("filter", filter, maxFilter); err != nil || filter == "" {
		return nil, err
	}
	p := &filterParser{searchGrammar: g, lexer: lexer{input: filter}}
	return p.conditions()
}

// filterParser reads the conditions of a filter from left to right.
type filterParser struct {
	*searchGrammar
	lexer lexer
	seen  []string // the tokens of the current condition, for errors
}

func (p *filterParser) next() token {
	t := p.lexer.next()
	if t.kind != endToken {
		p.seen = append(p.seen, "'"+t.text+"'")
	}
	return t
}

// conditions allows one AND at either end: programs that build a filter in a loop leave them there.
func (p *filterParser) conditions() ([]Condition, error) {
	var found []Condition
	t := p.next()
	if t.is("AND") {
		t = p.next()
	}
	for len(found) == 0 || t.kind != endToken {
		condition, err := p.condition(t)
		if err != nil {
			return nil, err
		}
		if found = append(found, condition); len(found) > maxConditions {
			return nil, invalidFilter("filter has more than %d conditions; use fewer.", maxConditions)
		}
		p.seen = nil
		t = p.next()
		if t.is("AND") {
			p.seen = nil
			t = p.next()
		} else if t.kind != endToken {
			return nil, p.invalidClause(t)
		}
	}
	return found, nil
}

func (p *filterParser) condition(left token) (Condition, error) {
	if left.kind == endToken {
		return Condition{}, invalidFilter("Invalid filter '%s'. Could not be parsed.", p.lexer.input)
	}
	if left.kind == otherToken {
		return Condition{}, p.invalidClause(left)
	}
	op, last := p.operator()
	if op == "" {
		return Condition{}, p.invalidClause(last)
	}
	right, ok := p.operand(op)
	if !ok {
		return Condition{}, p.invalidClause(right.token)
	}
	if !left.isKey() {
		return Condition{}, invalidFilter("Invalid comparison clause. Expected 'Identifier' found '%s'", left.text)
	}
	c := Condition{Op: op}
	var err error
	if c.Entity, c.Key, err = p.identifier("filter", left.text); err != nil {
		return Condition{}, err
	}
	if err = p.setValue(&c, right); err == nil {
		err = p.check(&c)
	}
	return c, err
}

// operator reads an operator and its last token. The operator is empty if there is none, and may be
// one that no key has.
func (p *filterParser) operator() (Op, token) {
	t := p.next()
	if t.kind == operatorToken {
		return Op(t.text), t
	}
	op := strings.ToUpper(t.text)
	for t.kind == wordToken && (op == "IS" || op == "NOT" || op == "IS NOT") {
		t = p.next()
		op += " " + strings.ToUpper(t.text)
	}
	if t.kind != wordToken || !slices.Contains(wordOps, Op(op)) {
		return "", t
	}
	return Op(op), t
}

// operand is the right side of a comparison. A list has the text from one parenthesis to the other.
type operand struct {
	token
	items []token
}

// operand reads what stands behind the operator. It reports false if that does not fit, whatever
// the key is.
func (p *filterParser) operand(op Op) (operand, bool) {
	if op == OpIsNull || op == OpIsNotNull {
		return operand{}, true
	}
	t := p.next()
	if t.isPunctuation("(") {
		return p.list(t)
	}
	value := t.kind == wordToken || t.kind == textToken || t.kind == numberToken
	return operand{token: t}, value && op != OpIn && op != OpNotIn
}

// list reads up to the closing parenthesis, or one token more than a list may have.
func (p *filterParser) list(open token) (operand, bool) {
	list := operand{token: token{kind: listToken}}
	for len(list.items) <= 2*maxListed {
		t := p.lexer.next()
		if t.kind == endToken || t.isPunctuation("(") {
			return operand{token: t}, false
		}
		list.text = p.lexer.input[open.start:p.lexer.at]
		if t.isPunctuation(")") {
			break
		}
		list.items = append(list.items, t)
	}
	return list, true
}

func invalidFilter(format string, args ...any) error {
	return domain.Invalid("filter", format, args...)
}

// invalidClause names the tokens of the condition up to its last, which does not fit.
func (p *filterParser) invalidClause(last token) error {
	if last.isPunctuation(";") && p.lexer.next().kind != endToken {
		return invalidFilter("Search filter contained multiple expression '%s'. Provide AND-ed expression list.",
			p.lexer.input)
	}
	return invalidFilter("Invalid clause(s) in filter string: %s", strings.Join(p.seen, ", "))
}

func (g *searchGrammar) setValue(c *Condition, right operand) (err error) {
	kind := g.kindOf(c)
	switch {
	case c.Op == OpIsNull || c.Op == OpIsNotNull:
		if kind != optionalText {
			err = invalidFilter(g.notNullable, c.Entity, c.Key)
		}
	case kind == numberValue:
		c.Number, err = metricNumber(right)
	case kind == timeValue:
		c.Int, err = g.milliseconds(c, right)
	case right.kind == listToken && kind == plainText:
		err = invalidFilter("Only ['%s'] attributes support comparison with a list of quoted string values.", g.listKey)
	case right.kind == listToken && kind != optionalText:
		c.List, err = listedTexts(right)
	default:
		c.Text, err = plainValue(c.Entity, right)
	}
	return err
}

func metricNumber(right operand) (float64, error) {
	if right.kind != numberToken {
		return 0, invalidFilter("Expected numeric value type for metric. Found %s", right.text)
	}
	number, _ := strconv.ParseFloat(right.text, 64) // the only error is the range, beside an infinity
	return number, nil
}

// milliseconds rounds fractions so that a comparison with whole numbers keeps its result.
func (g *searchGrammar) milliseconds(c *Condition, right operand) (int64, error) {
	if right.kind != numberToken {
		return 0, invalidFilter("Expected numeric value type for numeric attribute: %s. Found %s", c.Key, right.text)
	}
	if whole, err := strconv.ParseInt(right.text, 10, 64); err == nil {
		return whole, nil
	}
	number, _ := strconv.ParseFloat(right.text, 64)
	rounded := math.Floor(number)
	if c.Op == OpLess || c.Op == OpGreaterOrEqual {
		rounded = math.Ceil(number)
	}
	inexact := rounded != number && (c.Op == OpEqual || c.Op == OpNotEqual)
	if !g.fractions || inexact || math.Abs(rounded) >= 1<<63 {
		return 0, invalidFilter("Invalid value for numeric attribute '%s': '%s'", c.Key, right.text)
	}
	return int64(rounded), nil
}

func plainValue(entity Entity, right operand) (string, error) {
	switch {
	case right.kind == textToken:
		return right.text[1 : len(right.text)-1], nil
	case right.kind == wordToken:
		return "", invalidFilter("Parameter value is either not quoted or unidentified quote types used for "+
			"string value %s. Use either single or double quotes.", right.text)
	}
	expected := map[Entity]string{
		Attribute: "attributes", DatasetEntity: "dataset attributes",
		ParamEntity: "parameter (e.g. 'my-value')", TagEntity: "tag (e.g. 'my-value')",
	}
	return "", invalidFilter("Expected a quoted string value for %s. Got value %s", expected[entity], right.text)
}

// listedTexts reads texts separated by commas; a comma may follow the last.
func listedTexts(list operand) ([]string, error) {
	const failed = "While parsing a list in the query, expected "
	if len(list.items) == 0 {
		return nil, invalidFilter(failed + "a non-empty list of string values, but got empty list")
	}
	if len(list.items) > 2*maxListed {
		return nil, invalidFilter("filter has a list of more than %d values; use fewer.", maxListed)
	}
	var texts []string
	for i, t := range list.items {
		if i%2 == 0 && t.kind == numberToken {
			return nil, invalidFilter(failed+"string value, punctuation, or whitespace, but got different type in list: %s", list.text)
		}
		item, ok := "", t.isPunctuation(",")
		if i%2 == 0 {
			item, ok = unescaped(t)
			texts = append(texts, item)
		}
		if !ok {
			return nil, invalidFilter(failed + "a non-empty list of string values, but got ill-formed list.")
		}
	}
	return texts, nil
}

// unescaped is the text of a list's item. MLflow reads lists, and nothing else, as Python, whose
// escapes are nearly those of Go. Two adjacent texts, which Python joins, are refused.
func unescaped(t token) (string, bool) {
	if t.kind != textToken {
		return "", false
	}
	var item strings.Builder
	for body := t.text[1 : len(t.text)-1]; body != ""; {
		char, _, rest, err := strconv.UnquoteChar(body, t.text[0])
		if err != nil || char == 0 {
			return "", false
		}
		item.WriteRune(char)
		body = rest
	}
	return item.String(), true
}

// check refuses operators that the key does not have, and values that the operator does not take.
func (g *searchGrammar) check(c *Condition) error {
	kind := g.kindOf(c)
	if !slices.Contains(opsOf[kind], c.Op) {
		return invalidFilter("Invalid comparator '%s' not one of '%s'", c.Op, setOf(opsOf[kind]))
	}
	if c.List != nil && c.Op != OpIn && c.Op != OpNotIn {
		return invalidFilter("Invalid comparator '%s' for a list of values; use IN or NOT IN.", c.Op)
	}
	backslashes := len(c.Text) - len(strings.TrimRight(c.Text, `\`))
	if (c.Op == OpLike || c.Op == OpILike) && backslashes%2 == 1 {
		return invalidFilter("filter has a LIKE pattern that ends with a single backslash; write two.")
	}
	if kind == experimentText {
		return checkExperiments(c)
	}
	return nil
}

func checkExperiments(c *Condition) error {
	ids := c.List
	if ids == nil {
		ids = []string{c.Text}
	}
	for _, id := range ids {
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil || strconv.FormatInt(number, 10) != id {
			return invalidFilter("Invalid experiment ID '%s'. Experiment ID must be a valid integer.", id)
		}
	}
	return nil
}

// tokenKind is the kind of a token.
type tokenKind int

const (
	endToken      tokenKind = iota
	wordToken               // a keyword, or a key with or without prefix and quotes
	textToken               // one text in single or double quotes
	numberToken             // a decimal number
	operatorToken           // a comparison in signs
	listToken               // a list in parentheses
	otherToken              // any other character
)

type token struct {
	kind  tokenKind
	text  string
	start int // the byte at which it starts
}

// is reports whether the token is the keyword, in any case.
func (t token) is(keyword string) bool {
	return t.kind == wordToken && strings.EqualFold(t.text, keyword)
}

func (t token) isPunctuation(sign string) bool { return t.kind == otherToken && t.text == sign }

// isKey reports whether the token may name a key: double quotes may stand around one, too.
func (t token) isKey() bool {
	return t.kind == wordToken || t.kind == textToken && t.text[0] == '"'
}

// lexer splits its input into tokens, in linear time.
type lexer struct {
	input string
	at    int
}

func (l *lexer) next() token {
	l.at += span(l.input[l.at:], unicode.IsSpace)
	kind, length := lex(l.input[l.at:])
	t := token{kind: kind, text: l.input[l.at : l.at+length], start: l.at}
	l.at += length
	return t
}

var numberPattern = regexp.MustCompile(`^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`)

// lex returns the kind and the length in bytes of the first token of s.
func lex(s string) (tokenKind, int) {
	if s == "" {
		return endToken, 0
	}
	if n := span(s, func(r rune) bool { return strings.ContainsRune("<>=~!", r) }); n > 0 {
		return operatorToken, n
	}
	if n := len(numberPattern.FindString(s)); n > 0 {
		if word := span(s[n:], isWord); word > 0 {
			return otherToken, n + word
		}
		return numberToken, n
	}
	if n := textLength(s); n > 0 && (s[0] == '\'' || s[0] == '"' && !strings.HasPrefix(s[n:], ".")) {
		return textToken, n
	}
	if n := keyLength(s); n > 0 {
		return wordToken, n
	}
	_, n := utf8.DecodeRuneInString(s)
	return otherToken, n
}

// keyLength is the length of the key that s begins with: a word or quoted text, and behind a dot
// another quoted text, or words and dots.
func keyLength(s string) int {
	n := textLength(s)
	if n == 0 {
		n = span(s, isWord)
	}
	if n == 0 || !strings.HasPrefix(s[n:], ".") {
		return n
	}
	n++
	if quoted := textLength(s[n:]); quoted > 0 {
		return n + quoted
	}
	return n + span(s[n:], func(r rune) bool { return r == '.' || isWord(r) })
}

// textLength is the length of the quoted text that s begins with, or 0. Doubled quotes do not end
// it, nor do quotes behind a backslash (other than backticks), unless no end follows.
func textLength(s string) int {
	if s == "" || !isQuote(s[0]) {
		return 0
	}
	last := 0
	for i := 1; i < len(s); i++ {
		quoteNext := i+1 < len(s) && s[i+1] == s[0]
		switch {
		case quoteNext && s[i] == s[0]:
			last = i + 1
			i++
		case quoteNext && s[i] == '\\' && s[0] != '`':
			last = i + 2
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return last
}

func isQuote(c byte) bool { return c == '\'' || c == '"' || c == '`' }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// span is the length in bytes of the leading characters of s that are in the set.
func span(s string, in func(rune) bool) int {
	if n := strings.IndexFunc(s, func(r rune) bool { return !in(r) }); n >= 0 {
		return n
	}
	return len(s)
}
