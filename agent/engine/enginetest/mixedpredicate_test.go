package enginetest

import (
	"fmt"
	"strings"
)

// truth is SQL's three-valued logic.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// predicate is a condition in SQL, on the model, and in PyIceberg's language if it can express it.
type predicate struct {
	text, foreign string
	// simple: PyIceberg can delete by it. It evaluates compound conditions wrongly for rows with
	// NULL.
	simple bool
	holds  func(id int, row []int) truth
}

func (m *mixed) predicate() predicate {
	if m.random.IntN(3) > 0 {
		return m.simple()
	}
	a, b := m.simple(), m.simple()
	word, holds := " AND ", func(id int, row []int) truth { return min(a.holds(id, row), b.holds(id, row)) }
	if m.random.IntN(2) == 0 {
		word, holds = " OR ", func(id int, row []int) truth { return max(a.holds(id, row), b.holds(id, row)) }
	}
	p := predicate{text: "(" + a.text + word + b.text + ")", holds: holds}
	if a.foreign != "" && b.foreign != "" {
		p.foreign = "(" + a.foreign + strings.ToLower(word) + b.foreign + ")"
	}
	return p
}

func (m *mixed) simple() predicate {
	p := m.comparison()
	p.simple = p.foreign != ""
	return p
}

func (m *mixed) comparison() predicate {
	at := m.random.IntN(len(m.columns))
	c := m.columns[at]
	switch m.random.IntN(5) {
	case 0:
		from := m.random.IntN(m.next + 1)
		to := from + m.random.IntN(10)
		text := fmt.Sprintf("(id >= %d AND id <= %d)", from, to)
		return predicate{text: text, foreign: strings.ToLower(text), holds: func(id int, _ []int) truth { return truthOf(id >= from && id <= to) }}
	case 1:
		by := 2 + m.random.IntN(4)
		rest := m.random.IntN(by)
		return predicate{text: fmt.Sprintf("id %% %d = %d", by, rest), holds: func(id int, _ []int) truth { return truthOf(id%by == rest) }}
	case 2:
		if m.random.IntN(2) == 0 {
			return predicate{text: c.name + " IS NULL", foreign: c.name + " is null", holds: func(_ int, row []int) truth { return truthOf(row[at] == null) }}
		}
		return predicate{text: c.name + " IS NOT NULL", foreign: c.name + " is not null", holds: func(_ int, row []int) truth { return truthOf(row[at] != null) }}
	}
	value := m.random.IntN(len(mixedKinds[c.kind].values))
	operators := []string{"=", "<", ">=", "<>"}
	if c.kind == "boolean" {
		operators = operators[:1]
	}
	operator := operators[m.random.IntN(len(operators))]
	p := predicate{text: c.name + " " + operator + " " + literalOf(c, value), holds: func(_ int, row []int) truth {
		if row[at] == null {
			return unknown
		}
		return truthOf(map[string]bool{"=": row[at] == value, "<": row[at] < value, ">=": row[at] >= value, "<>": row[at] != value}[operator])
	}}
	// In PyIceberg, "!=" holds for NULL, and strings cannot contain quotes.
	if text := mixedKinds[c.kind].values[value]; operator != "<>" && !strings.Contains(text, "'") {
		p.foreign = c.name + " " + operator + " '" + text + "'"
		if c.kind == "boolean" {
			p.foreign = c.name + " = " + text
		}
	}
	return p
}
