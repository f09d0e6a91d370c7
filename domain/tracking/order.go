package tracking

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// Bounds of an order.
const (
	maxOrders    = 20
	maxOrderItem = 2 << 10 // bytes
)

// Order is one column of a search's order.
type Order struct {
	Entity     Entity
	Key        string // the key, or the canonical name of the attribute
	Descending bool
}

// ParseRunOrder parses the items of MLflow's order_by over runs: up to 20 keys of attributes,
// metrics, params and tags, each with or without ASC or DESC behind it. A key must not occur twice.
// Errors are domain.CodeInvalid in the field order_by, in MLflow's words where MLflow has such an
// error.
func ParseRunOrder(order []string) ([]Order, error) {
	found, err := runGrammar.parseOrder(order)
	for i, o := range found {
		if o.Entity == DatasetEntity {
			return nil, invalidOrder("Invalid identifier type 'dataset'")
		}
		if orderIndex(found, o) < i {
			return nil, invalidOrder("`order_by` contains duplicate fields: ['%s']", strings.Join(order, "', '"))
		}
	}
	return found, err
}

// ParseExperimentOrder is ParseRunOrder over experiments, which are ordered by attributes only. If
// a key occurs twice, the first counts.
func ParseExperimentOrder(order []string) ([]Order, error) {
	found, err := experimentGrammar.parseOrder(order)
	var kept []Order
	for _, o := range found {
		if o.Entity != Attribute {
			return nil, invalidOrder("Invalid order_by entity: %s", o.Entity)
		}
		if orderIndex(kept, o) < 0 {
			kept = append(kept, o)
		}
	}
	return kept, err
}

// orderIndex is the place of the first order by the key of o, or -1.
func orderIndex(orders []Order, o Order) int {
	return slices.IndexFunc(orders, func(other Order) bool { return other.Entity == o.Entity && other.Key == o.Key })
}

func invalidOrder(format string, args ...any) error {
	return domain.Invalid("order_by", format, args...)
}

func (g *searchGrammar) parseOrder(items []string) ([]Order, error) {
	if len(items) > maxOrders {
		return nil, invalidOrder("order_by has %d items; use at most %d.", len(items), maxOrders)
	}
	var found []Order
	for _, item := range items {
		o, err := g.orderOf(item)
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	return found, nil
}

func (g *searchGrammar) orderOf(item string) (Order, error) {
	if err := domain.ValidText("order_by", item, maxOrderItem); err != nil {
		return Order{}, err
	}
	l := lexer{input: item}
	key, direction := l.next(), l.next()
	bare := len(key.text) == len(item)
	directed := direction.kind == wordToken && direction.start > len(key.text) && l.at == len(item)
	if !key.isKey() || key.start != 0 || !bare && !directed {
		return Order{}, invalidOrder("Invalid order_by clause '%s'. Could not be parsed.", item)
	}
	if !bare && !direction.is("ASC") && !direction.is("DESC") {
		return Order{}, invalidOrder("Invalid ordering key in order_by clause '%s'.", item)
	}
	entity, name, err := g.identifier("order_by", key.text)
	return Order{Entity: entity, Key: name, Descending: direction.is("DESC")}, err
}

// valueKind is what a key is compared with.
type valueKind int

const (
	numberValue valueKind = iota
	timeValue
	optionalText // of a key that may be absent
	plainText
	listableText   // or a list of texts
	experimentText // or a list; every text is the number of an experiment
)

var opsOf = [...][]Op{
	numberValue:    {OpEqual, OpNotEqual, OpGreater, OpGreaterOrEqual, OpLess, OpLessOrEqual},
	timeValue:      {OpEqual, OpNotEqual, OpGreater, OpGreaterOrEqual, OpLess, OpLessOrEqual},
	optionalText:   {OpEqual, OpNotEqual, OpLike, OpILike, OpIsNull, OpIsNotNull},
	plainText:      {OpEqual, OpNotEqual, OpLike, OpILike, OpIn, OpNotIn},
	listableText:   {OpEqual, OpNotEqual, OpLike, OpILike, OpIn, OpNotIn},
	experimentText: {OpEqual, OpNotEqual, OpIn, OpNotIn},
}

// wordOps are the operators that are words. The parser knows RLIKE and the negations of LIKE only
// to name them in an error.
var wordOps = []Op{
	OpLike, OpILike, OpIn, OpNotIn, OpIsNull, OpIsNotNull,
	"RLIKE", "NOT LIKE", "NOT ILIKE", "NOT RLIKE",
}

// searchGrammar is what differs between the searches of runs and of experiments.
type searchGrammar struct {
	prefixes    map[string]Entity
	attributes  map[string]valueKind
	aliases     map[string]string // of attributes
	listKey     string            // the attribute that takes a list
	fractions   bool              // times may have fractions
	expected    string            // names the prefixes in an error
	notNullable string            // the error of an entity and key that cannot be absent
}

var runGrammar = &searchGrammar{
	prefixes: map[string]Entity{
		"attribute": Attribute, "attributes": Attribute, "attr": Attribute, "run": Attribute,
		"metric": MetricEntity, "metrics": MetricEntity, "dataset": DatasetEntity, "datasets": DatasetEntity,
		"parameter": ParamEntity, "parameters": ParamEntity, "param": ParamEntity, "params": ParamEntity,
		"tag": TagEntity, "tags": TagEntity,
	},
	attributes: map[string]valueKind{
		"run_id": listableText, "run_name": plainText, "user_id": plainText, "status": plainText,
		"artifact_uri": plainText, "start_time": timeValue, "end_time": timeValue,
	},
	aliases: map[string]string{
		"created": "start_time", "Created": "start_time",
		"run name": "run_name", "Run name": "run_name", "Run Name": "run_name",
	},
	listKey:     "run_id",
	fractions:   true,
	expected:    "Valid values are ['metric', 'parameter', 'tag', 'attribute', 'dataset']",
	notNullable: "IS NULL / IS NOT NULL is only supported for tags and params, not for '%s' '%s'",
}

var experimentGrammar = &searchGrammar{
	prefixes: map[string]Entity{"attribute": Attribute, "tag": TagEntity, "tags": TagEntity},
	attributes: map[string]valueKind{
		"experiment_id": experimentText, "name": plainText,
		"creation_time": timeValue, "last_update_time": timeValue,
	},
	listKey:     "experiment_id",
	expected:    "Valid entity types are ('attribute', 'tag', 'tags')",
	notNullable: "IS NULL / IS NOT NULL is only supported for tags, not for %s '%s'",
}

// datasetKeys are the parts of a dataset that a filter may compare.
var datasetKeys = []string{"name", "digest", "context"}

// identifier splits a key such as metrics.`a b` into its entity and its key without quotes. A key
// without a prefix is an attribute, and comes out under its canonical name.
func (g *searchGrammar) identifier(field, text string) (Entity, string, error) {
	prefix, key, dotted := strings.Cut(text, ".")
	if !dotted {
		prefix, key = string(Attribute), text
	}
	if len(prefix) > 1 && prefix[0] == '`' && prefix[len(prefix)-1] == '`' {
		prefix = prefix[1 : len(prefix)-1]
	}
	entity, ok := g.prefixes[prefix]
	if !ok {
		return "", "", domain.Invalid(field, "Invalid entity type '%s'. %s", prefix, g.expected)
	}
	if key != "" && isQuote(key[0]) {
		key = key[1 : len(key)-1]
	}
	if alias, ok := g.aliases[key]; ok && entity == Attribute {
		key = alias
	}
	return entity, key, g.checkKey(field, entity, key)
}

func (g *searchGrammar) checkKey(field string, entity Entity, key string) error {
	keys := datasetKeys
	if entity == Attribute {
		keys = slices.Sorted(maps.Keys(g.attributes))
	}
	switch {
	case (entity == Attribute || entity == DatasetEntity) && !slices.Contains(keys, key):
		return domain.Invalid(field, "Invalid %s key '%s' specified. Valid keys are '%s'", entity, key, setOf(keys))
	case key == "":
		return domain.Invalid(field, "%s has an empty %s key; give a key.", field, entity)
	case utf8.RuneCountInString(key) > maxSearchKey:
		return domain.Invalid(field, "%s has the key '%s', which is too long; use at most %d characters.",
			field, key, maxSearchKey)
	}
	return nil
}

// setOf writes names as MLflow's errors do.
func setOf[T ~string](names []T) string {
	return strings.NewReplacer(`["`, "{'", `" "`, "', '", `"]`, "'}").Replace(fmt.Sprintf("%q", names))
}

// kindOf is what the condition's key is compared with.
func (g *searchGrammar) kindOf(c *Condition) valueKind {
	switch c.Entity {
	case MetricEntity:
		return numberValue
	case ParamEntity, TagEntity:
		return optionalText
	case DatasetEntity:
		return listableText
	default:
		return g.attributes[c.Key]
	}
}
