package tracking

import (
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

func validInputs(inputs []Input) error {
	if len(inputs) > maxInputs {
		return domain.Invalid("datasets", "A request takes at most %d datasets; this one has %d.", maxInputs, len(inputs))
	}
	for _, in := range inputs {
		if err := in.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (in Input) validate() error {
	d := in.Dataset
	for _, required := range []Pair{{"name", d.Name}, {"digest", d.Digest}, {"source_type", d.SourceType}, {"source", d.Source}} {
		if required.Value == "" {
			return domain.Invalid(required.Key, "The dataset's %s is missing; give it.", required.Key)
		}
	}
	for _, bound := range []struct {
		field, value string
		most         int
	}{
		{"name", d.Name, maxDatasetName},
		{"digest", d.Digest, maxDatasetDigest},
		{"source_type", d.SourceType, maxDatasetTag},
		{"source", d.Source, maxDatasetSource},
		{"schema", d.Schema, maxDatasetSchema},
		{"profile", d.Profile, maxDatasetProfile},
	} {
		if err := validLength(bound.field, bound.value, bound.most); err != nil {
			return err
		}
	}
	for _, t := range in.Tags {
		if err := validLength("key", t.Key, maxDatasetTag); err != nil {
			return err
		}
		if err := validLength("value", t.Value, maxInputValue); err != nil {
			return err
		}
	}
	return nil
}

func validLength(field, value string, most int) error {
	if n := utf8.RuneCountInString(value); n > most {
		return domain.Invalid(field, "'%s' exceeds the maximum length of %d characters; it has %d.", field, most, n)
	}
	return domain.ValidText(field, value, 4*most)
}
