package tracking

type (
	Entity    string
	Op        string
	Condition struct {
		Entity Entity
		Key    string
		Op     Op
		Text   string
		Number float64
		List   []string
	}
	Order struct {
		Entity     Entity
		Key        string
		Descending bool
	}
)

const (
	Attribute     Entity = "attribute"
	MetricEntity  Entity = "metric"
	ParamEntity   Entity = "param"
	TagEntity     Entity = "tag"
	DatasetEntity Entity = "dataset"
)

func ParseRunFilter(string) ([]Condition, error)        { return nil, nil }
func ParseRunOrder([]string) ([]Order, error)           { return nil, nil }
func ParseExperimentFilter(string) ([]Condition, error) { return nil, nil }
func ParseExperimentOrder([]string) ([]Order, error)    { return nil, nil }
